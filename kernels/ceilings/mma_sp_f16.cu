/*---
name: mma_sp_f16
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: eight chains of 2:4 m16n8k32 per warp, half precision with sums in single precision
format: none
dtype: {a: float16, b: float16, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {m: 16, n: 8, k: 32, rows: 2, columns: 4, turns: 8, rounds: 512, warps: 8, ctas: 2}
constants: {sum: float, registers: 4, product: mma_sp_m16n8k32_f32_f16}
features: [mma_sp]
launch:
  grid: tile.ctas * device.multiprocessors
  block: 32 * tile.warps
  args: b, c, n
work:
  flops: >-
    2 * tile.m * tile.n * tile.k * tile.rows * tile.columns * tile.turns * tile.rounds * tile.warps * tile.ctas
    * device.multiprocessors
variants:
  f16_sums:
    idea: the same chains with sums in half precision
    dtype: {accumulator: float16}
    constants: {sum: unsigned, registers: 2, product: mma_sp_m16n8k32_f16_f16}
  bf16:
    idea: the same chains of bfloat16 values
    dtype: {a: bfloat16, b: bfloat16}
    constants: {product: mma_sp_m16n8k32_f32_bf16}
deviations: []
---*/
#include "ptx/mma_sp.cuh"
#include "tile/ceiling.cuh"

// B has at least 4 KB. In each group of four columns of A, the first two or the last two hold its values.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_sp_f16(
    const unsigned* __restrict__ b, float* c, int size) {
    tile::multiply_chains<TILE_ROWS, TILE_COLUMNS>(
        b, c, size, [](SUM(&sums)[REGISTERS], const unsigned(&fragment_a)[4], const unsigned(&fragment_b)[4]) {
            ptx::PRODUCT<0>(sums, fragment_a, fragment_b, 0x44EE44EEu);
        });
}
