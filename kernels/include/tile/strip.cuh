#pragma once
// Strips of B in shared memory: all of its rows, 16 bytes of each; and which strips and rows of A a CTA works on.

#include "ptx/cp_async.cuh"

namespace tile {

constexpr int CHUNK_BYTES = 16;

// Work on a panel of A beside its steps, in steps.
constexpr int PANEL_WORK = 1;

// Copy a strip of B, a chunk of each of its k rows, to shared memory, and zeros behind them. All threads of a CTA call
// it, and wait for it. Chunk j lies in the group of banks j % 8, of those that shared memory delivers 16 bytes from.
__device__ __forceinline__ void copy_strip(
    char* shared, const void* __restrict__ b, int k, int strip, long long stride) {
    const char* const chunks = static_cast<const char*>(b) + strip * CHUNK_BYTES;
    for (int row = threadIdx.x; row < k; row += blockDim.x) {
        ptx::cp_async_16(shared + row * CHUNK_BYTES, chunks + row * stride);
    }
    if (threadIdx.x == 0) *reinterpret_cast<uint4*>(shared + k * CHUNK_BYTES) = {};
    ptx::cp_async_commit();
}

// The first panel that begins with at least `work` of the matrix before it.
__device__ __forceinline__ int panel_at(const int* __restrict__ panel_ptr, int panels, long long work) {
    int low = 0, high = panels;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (__ldg(panel_ptr + middle) + static_cast<long long>(PANEL_WORK) * middle < work) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The panels of A that the warps of a CTA multiply by a strip.
struct Panels {
    int* queue;  // in shared memory
    int last;

    // The next panel for this warp; negative if there is none.
    __device__ __forceinline__ int next() const {
        int panel = 0;
        if (threadIdx.x % 32 == 0) panel = atomicAdd(queue, 1);
        panel = __shfl_sync(~0u, panel, 0);
        return panel < last ? panel : -1;
    }
};

// Call multiply(strip, panels) for every strip that this CTA has a part of, when it lies in shared memory: an equal part
// of the work of all strips. Strips are not cut where that leaves few CTAs without work.
template <class Multiply>
__device__ __forceinline__ void each_strip(
    char* shared, const void* __restrict__ b, int k, int strips, long long stride, const int* __restrict__ panel_ptr,
    int panels, const Multiply& multiply) {
    __shared__ int queue, last_panel;
    const int ctas = gridDim.x, even = ctas / strips * strips;
    const int busy = 10 * even >= 9 * ctas ? even : ctas;
    if (blockIdx.x >= busy) return;
    const long long of_strip = __ldg(panel_ptr + panels) + static_cast<long long>(PANEL_WORK) * panels;
    const long long total = of_strip * strips, end = total * (blockIdx.x + 1) / busy;
    for (long long at = total * blockIdx.x / busy; at < end;) {
        const int strip = static_cast<int>(at / of_strip);
        const long long first = at - strip * of_strip, last = min(of_strip, end - strip * of_strip);
        at += last - first;
        __syncthreads();  // all warps are done with the strip before
        copy_strip(shared, b, k, strip, stride);
        if (threadIdx.x == 0) queue = panel_at(panel_ptr, panels, first);
        if (threadIdx.x == 32) last_panel = panel_at(panel_ptr, panels, last);
        ptx::cp_async_wait<0>();
        __syncthreads();
        multiply(strip, Panels{&queue, last_panel});
    }
}

}  // namespace tile
