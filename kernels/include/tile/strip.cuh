#pragma once
// Strips of B in shared memory: which strips and rows of A a CTA works on, and where the chunks of a strip lie.

#include "ptx/cp_async.cuh"

namespace tile {

constexpr int CHUNK_BYTES = 16;

// Work on a panel of A beside its steps, in steps.
constexpr int PANEL_WORK = 1;

// The position of a chunk in a strip of LANES chunks a row, in bytes. Eight rows j with different j % 8 read different
// banks, whichever chunk they read, because the chunks of a row are exchanged among each other:
//
//   LANES   chunks of row j, in the order in which they lie
//   1       0
//   2       0 1 in rows 0 to 3 of eight, 1 0 in rows 4 to 7
template <int LANES>
__device__ __forceinline__ int place_of(int row, int chunk) {
    return (row * LANES + (chunk ^ (row / (8 / LANES) & (LANES - 1)))) * CHUNK_BYTES;
}

// Copy a strip of B, k rows, to shared memory, and zeros to row k. All threads of a CTA call it, and wait for it.
// Chunks behind the last one copy that; their sums are never stored.
template <int LANES>
__device__ __forceinline__ void copy_strip(
    char* shared, const void* __restrict__ b, int k, int strip, int chunks, long long stride) {
    const char* const rows = static_cast<const char*>(b);
    for (int i = threadIdx.x; i < k * LANES; i += blockDim.x) {
        const int row = i / LANES, chunk = i % LANES, of_row = min(strip * LANES + chunk, chunks - 1);
        ptx::cp_async_16(shared + place_of<LANES>(row, chunk), rows + row * stride + of_row * CHUNK_BYTES);
    }
    if (threadIdx.x < LANES) *reinterpret_cast<uint4*>(shared + place_of<LANES>(k, threadIdx.x)) = {};
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
template <int LANES, class Multiply>
__device__ __forceinline__ void each_strip(
    char* shared, const void* __restrict__ b, int k, int chunks, long long stride, const int* __restrict__ panel_ptr,
    int panels, const Multiply& multiply) {
    __shared__ int queue, last_panel;
    const int strips = (chunks + LANES - 1) / LANES, ctas = gridDim.x, even = ctas / strips * strips;
    const int busy = 10 * even >= 9 * ctas ? even : ctas;
    if (blockIdx.x >= busy) return;
    const long long of_strip = __ldg(panel_ptr + panels) + static_cast<long long>(PANEL_WORK) * panels;
    const long long total = of_strip * strips, end = total * (blockIdx.x + 1) / busy;
    for (long long at = total * blockIdx.x / busy; at < end;) {
        const int strip = static_cast<int>(at / of_strip);
        const long long first = at - strip * of_strip, last = min(of_strip, end - strip * of_strip);
        at += last - first;
        __syncthreads();  // all warps are done with the strip before
        copy_strip<LANES>(shared, b, k, strip, chunks, stride);
        if (threadIdx.x == 0) queue = panel_at(panel_ptr, panels, first);
        if (threadIdx.x == 32) last_panel = panel_at(panel_ptr, panels, last);
        ptx::cp_async_wait<0>();
        __syncthreads();
        multiply(strip, Panels{&queue, last_panel});
    }
}

}  // namespace tile
