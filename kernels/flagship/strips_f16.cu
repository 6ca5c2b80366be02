/*---
name: strips_f16
study: flagship
source: "our own; a gather by ldmatrix, whose rows may lie anywhere (PTX ISA, section ldmatrix)"
idea: a strip of B, with all of its rows, stays in shared memory, from which ldmatrix gathers 32 of them for tensor cores
after: split_f16
format: banked_8x32
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {threads: 1024}
constants: {values: F16, scaled: 0}
features: [cp_async, ldmatrix_trans, mma, mma_bf16]
launch:
  grid: device.multiprocessors
  block: tile.threads
  smem: 16 * (k + 1)
  args: a.panel_ptr, a.columns, a.data, b, c, m, a.panels, k, ceil_div(n, 8), 2 * b.ld, c.ld, alpha, beta
variants:
  bf16:
    idea: strips_f16 in BF16
    after: strips_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations: ["a NaN or an infinity in a row of B reaches all eight rows of a panel in which one has an entry there"]
---*/
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix_trans.cuh"
#include "tile/epilogue.cuh"
#include "tile/multiply_16.cuh"
#include "tile/reordered.cuh"

namespace {

using Values = tile::VALUES;
constexpr int PANEL = 8, CHUNK_BYTES = 16;
// Work on a panel of A beside its steps, in steps.
constexpr int PANEL_WORK = 1;

// Copy a strip of B, a chunk of each of its k rows, to shared memory, and zeros behind them. All threads of a CTA call
// it, and wait for it. Chunk j lies in the group of banks j % 8, of those that shared memory delivers 16 bytes from.
__device__ __forceinline__ void copy_strip(char* shared, const unsigned short* b, int k, int strip, long long stride) {
    const char* const chunks = reinterpret_cast<const char*>(b) + strip * CHUNK_BYTES;
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

// The next panel for this warp, of those up to `last`; negative if there is none.
__device__ __forceinline__ int next_panel(int* queue, int last) {
    int panel = 0;
    if (threadIdx.x % 32 == 0) panel = atomicAdd(queue, 1);
    panel = __shfl_sync(~0u, panel, 0);
    return panel < last ? panel : -1;
}

}  // namespace

// All CTAs get an equal part of the work of all strips: panels of A, by one strip of B, or by the end of one and the
// beginning of the next. Strips are not cut where that leaves few CTAs without work.
//
// A warp has a panel of eight rows of A, and their sums of a strip of eight columns in the fragment of C. In a step it
// multiplies 32 slots of each row, one row after the other. Lane 4g + t loads, for the step, the values of slots 2t and
// 2t + 1 of each round of row g, and lane 8r + s the columns of slot s of round r of all eight rows, which are the rows of
// B whose addresses it gives to ldmatrix. The 32 rows of B, gathered from the strip, are an operand of two products
// m16n8k16; the other is a fragment of A that has values in row g only. Tensor cores have that to spare; CUDA cores would
// need one instruction to convert and one to multiply each element of B.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 1) strips_f16(
    const int* __restrict__ panel_ptr, const uint4* __restrict__ columns, const uint4* __restrict__ data,
    const unsigned short* __restrict__ b, unsigned short* __restrict__ c, int m, int panels, int k, int strips, int stride,
    int ldc, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    extern __shared__ __align__(128) char shared[];
    __shared__ int queue, last_panel;
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int ctas = gridDim.x, even = ctas / strips * strips, busy = 10 * even >= 9 * ctas ? even : ctas;
    if (blockIdx.x >= busy) return;
    const long long of_strip = __ldg(panel_ptr + panels) + static_cast<long long>(PANEL_WORK) * panels;
    const long long total = of_strip * strips, end_of_cta = total * (blockIdx.x + 1) / busy;
    for (long long at = total * blockIdx.x / busy; at < end_of_cta;) {
        const int strip = static_cast<int>(at / of_strip);
        const long long first = at - strip * of_strip, end = min(of_strip, end_of_cta - strip * of_strip);
        at += end - first;
        __syncthreads();  // all warps are done with the strip before
        copy_strip(shared, b, k, strip, stride);
        if (threadIdx.x == 0) queue = panel_at(panel_ptr, panels, first);
        if (threadIdx.x == 32) last_panel = panel_at(panel_ptr, panels, end);
        ptx::cp_async_wait<0>();
        __syncthreads();
        for (int panel; (panel = next_panel(&queue, last_panel)) >= 0;) {
            const int begin = __ldg(panel_ptr + panel);
            int steps = __ldg(panel_ptr + panel + 1) - begin;
            const uint4 *next_columns = columns + 32 * begin + lane, *next_values = data + 32 * begin + lane;
            uint4 of_next = __ldg(next_columns), values_of_next = __ldg(next_values);
            float sums[4] = {};
#pragma unroll 1
            for (; steps > 0; --steps) {
                const unsigned pairs[4] = {of_next.x, of_next.y, of_next.z, of_next.w};
                const uint4 values = values_of_next;
                // The step behind the last one is of another panel, or fills the arrays.
                of_next = __ldg(next_columns += 32), values_of_next = __ldg(next_values += 32);
#pragma unroll
                for (int row = 0; row < PANEL; ++row) {
                    const bool is_own = g == row;
                    const unsigned low[4] = {is_own ? values.x : 0, 0, is_own ? values.y : 0, 0};
                    const unsigned high[4] = {is_own ? values.z : 0, 0, is_own ? values.w : 0, 0};
                    const int column = row % 2 == 0 ? pairs[row / 2] & 0xffff : pairs[row / 2] >> 16;
                    unsigned rows[4];
                    ptx::ldmatrix_x4_trans(rows, shared + column * CHUNK_BYTES);
                    tile::multiply(sums, low, {rows[0], rows[1]}, Values{});
                    tile::multiply(sums, high, {rows[2], rows[3]}, Values{});
                }
            }
            const int row = panel * PANEL + g, column = strip * 8 + 2 * t;
            if (row >= m) continue;
            float left = sums[0], right = sums[1];
            unsigned* to = reinterpret_cast<unsigned*>(c + static_cast<long long>(row_of_c(row)) * ldc + column);
            if constexpr (SCALED) {
                left *= alpha, right *= alpha;
                if (beta != 0.0f) {
                    const float2 old = Values::unpack(*to);
                    left += beta * old.x, right += beta * old.y;
                }
                tile::finish<Values>(left, right, epilogue, epilogue.bias_of<unsigned, unsigned short>(column));
            }
            // Other CTAs store the rest of a sector, so the store is no streaming one.
            *to = Values::pack(left, right);
        }
    }
}
