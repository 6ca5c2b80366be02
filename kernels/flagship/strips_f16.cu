/*---
name: strips_f16
study: flagship
source: "our own; ldmatrix with an address for each row after its use for dense tiles (PTX ISA)"
idea: a strip of B, with all of its rows, stays in shared memory, from which ldmatrix gathers 32 of them for tensor cores
after: split_f16
format: banked_8x32
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {lanes: 2, threads: 1024}
constants: {values: F16, scaled: 0}
features: [cp_async, ldmatrix_trans, mma, mma_bf16]
launch:
  grid: device.multiprocessors
  block: tile.threads
  smem: 16 * (k + 1) * strip_lanes(k, ceil_div(n, 8), tile.lanes, device.shared_bytes)
  args: a.panel_ptr, a.columns, a.data, b, c, m, a.panels, k, ceil_div(n, 8), strip_lanes(k, ceil_div(n, 8), tile.lanes, device.shared_bytes), 2 * b.ld, c.ld, alpha, beta
variants:
  bf16:
    idea: strips_f16 in BF16
    after: strips_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations: ["a NaN or an infinity in a row of B reaches all eight rows of a panel in which one has an entry there"]
---*/
#include "ptx/ldmatrix_trans.cuh"
#include "tile/epilogue.cuh"
#include "tile/multiply_16.cuh"
#include "tile/reordered.cuh"
#include "tile/strip.cuh"

namespace {

using Values = tile::VALUES;
constexpr int PANEL = 8;

struct Operands {
    const int* __restrict__ panel_ptr;
    const uint4 *__restrict__ columns, *__restrict__ data;
    const unsigned short* __restrict__ b;
    unsigned short* __restrict__ c;
    int m, panels, k, chunks, stride, ldc;
    float alpha, beta;
    tile::Epilogue epilogue;
    tile::RowsOfC row_of_c;
};

}  // namespace

// A warp has a panel of eight rows of A, and their sums of a strip in the fragments of C. In a step it multiplies 32
// slots of each row, one row after the other. Lane 4g + t loads, for the step, the values of slots 2t and 2t + 1 of each
// round of row g, and lane 8r + s the columns of slot s of round r of all eight rows, which are the rows of B whose
// addresses it gives to ldmatrix. The 32 rows of B, gathered from the strip, are an operand of two products m16n8k16 for
// each chunk of eight columns; the other is a fragment of A that has values in row g only. Tensor cores have that to
// spare; CUDA cores would need one instruction to convert and one to multiply each element of B.
template <int LANES>
__device__ __forceinline__ void multiply_strips(char* shared, const Operands& of) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto multiply = [&](int strip, const tile::Panels& panels) {
        for (int panel; (panel = panels.next()) >= 0;) {
            const int begin = __ldg(of.panel_ptr + panel);
            int steps = __ldg(of.panel_ptr + panel + 1) - begin;
            const uint4 *columns = of.columns + 32 * begin + lane, *data = of.data + 32 * begin + lane;
            uint4 next_columns = __ldg(columns), next_values = __ldg(data);
            float sums[LANES][4] = {};
#pragma unroll 1
            for (; steps > 0; --steps) {
                const unsigned pairs[4] = {next_columns.x, next_columns.y, next_columns.z, next_columns.w};
                const uint4 values = next_values;
                // The step behind the last one is of another panel, or fills the arrays.
                next_columns = __ldg(columns += 32), next_values = __ldg(data += 32);
#pragma unroll
                for (int row = 0; row < PANEL; ++row) {
                    const bool own = g == row;
                    const unsigned low[4] = {own ? values.x : 0, 0, own ? values.y : 0, 0};
                    const unsigned high[4] = {own ? values.z : 0, 0, own ? values.w : 0, 0};
                    const int column = row % 2 == 0 ? pairs[row / 2] & 0xffff : pairs[row / 2] >> 16;
                    const int place = tile::place_of<LANES>(column, 0);
#pragma unroll
                    for (int chunk = 0; chunk < LANES; ++chunk) {
                        unsigned rows[4];
                        ptx::ldmatrix_x4_trans(rows, shared + (place ^ chunk * tile::CHUNK_BYTES));
                        tile::multiply(sums[chunk], low, {rows[0], rows[1]}, Values{});
                        tile::multiply(sums[chunk], high, {rows[2], rows[3]}, Values{});
                    }
                }
            }
            const int row = panel * PANEL + g;
            if (row >= of.m) continue;
            unsigned short* row_in_c = of.c + static_cast<long long>(of.row_of_c(row)) * of.ldc;
#pragma unroll
            for (int chunk = 0; chunk < LANES; ++chunk) {
                const int column = (strip * LANES + chunk) * 8 + 2 * t;
                if (column >= of.ldc) continue;
                float first = sums[chunk][0], second = sums[chunk][1];
                unsigned* to = reinterpret_cast<unsigned*>(row_in_c + column);
                if constexpr (SCALED) {
                    first *= of.alpha, second *= of.alpha;
                    if (of.beta != 0.0f) {
                        const float2 old = Values::unpack(*to);
                        first += of.beta * old.x, second += of.beta * old.y;
                    }
                    tile::finish<Values>(first, second, of.epilogue, of.epilogue.bias_of<unsigned, unsigned short>(column));
                }
                // Other CTAs store the rest of a sector, so the store is no streaming one.
                *to = Values::pack(first, second);
            }
        }
    };
    tile::each_strip<LANES>(shared, of.b, of.k, of.chunks, of.stride, of.panel_ptr, of.panels, multiply);
}

extern "C" __global__ void __launch_bounds__(TILE_THREADS, 1) strips_f16(
    const int* __restrict__ panel_ptr, const uint4* __restrict__ columns, const uint4* __restrict__ data,
    const unsigned short* __restrict__ b, unsigned short* __restrict__ c, int m, int panels, int k, int chunks, int lanes,
    int stride, int ldc, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    extern __shared__ __align__(128) char shared[];
    const Operands of = {panel_ptr, columns, data, b, c, m, panels, k, chunks, stride, ldc, alpha, beta,
                         EPILOGUE_ARGUMENTS, {REORDERED_ROWS}};
    if (lanes == 1) multiply_strips<1>(shared, of);
    if (lanes == 2) multiply_strips<2>(shared, of);
}
