/*---
name: xw_vectors
study: attention
source: Lagos 2025, section 4.4 "Kernel 4", figures 4.9 and 4.11; dense times sparse, see tile/product_xw.cuh
idea: load four non-zeros at once, in 16 bytes of row ids and 16 of values, and let several blocks share a long column
after: xw_unstaged
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
clear_c: true
tile: {k: 512}
features: []
launch:
  grid: m, n, ceil_div(k, tile.k)
  block: 32
  args: a.indptr, a.indices, a.data, b, c, b.ld, c.ld
variants:
  z1:
    idea: one block per column, however long
    after: xw_vectors
    tile: {z: 1}
    launch: &fixed {grid: "m, n, tile.z"}
  z2:
    idea: two blocks per column, which add their sums atomically
    after: xw_vectors_z1
    tile: {z: 2}
    launch: *fixed
  z4:
    idea: four blocks per column
    after: xw_vectors_z2
    tile: {z: 4}
    launch: *fixed
  z8:
    idea: eight blocks per column
    after: xw_vectors_z4
    tile: {z: 8}
    launch: *fixed
deviations:
  - "any m and k, and up to 65,535 rows of X; one block per 512 rows of W, which is one at the original's size"
  - "z1 to z8 have a fixed number of blocks per column, which the original derives from a constant"
  - "C is cleared before each call, within its time; the original adds up a thousand calls in one C"
  - "shuffles name all lanes of the warp; see xw_nonzeros"
---*/
#include "tile/product_xw.cuh"

extern "C" __global__ void __launch_bounds__(32) xw_vectors(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ x, float* __restrict__ y, int ldx, int ldy) {
    const long long token = blockIdx.y;
    const int column = blockIdx.x, lane = threadIdx.x;
    const int begin = indptr[column], end = indptr[column + 1];
    const float* row = x + token * ldx;

    // The column is a head up to `body`, aligned groups of four entries, and a tail.
    const int body = min(begin + (-begin & 3), end);
    const int fours = (end - body) / 4;
    const int tail = body + 4 * fours;
    const int first = static_cast<long long>(fours) * blockIdx.z / gridDim.z;
    const int last = static_cast<long long>(fours) * (blockIdx.z + 1) / gridDim.z;

    float sum = 0.f;
    for (int four = first + lane; four < last; four += 32) {
        const int4 ids = __ldg(reinterpret_cast<const int4*>(indices + body) + four);
        const float4 values = __ldg(reinterpret_cast<const float4*>(data + body) + four);
        sum += values.x * row[ids.x] + values.y * row[ids.y] + values.z * row[ids.z] + values.w * row[ids.w];
    }
    if (blockIdx.z == 0 && lane == 0) {
        sum += tile::product<1>(indices, data, begin, body, row);
        sum += tile::product<1>(indices, data, tail, end, row);
    }
    sum = tile::sum_of_warp(sum);
    if (lane == 0) atomicAdd(y + token * ldy + column, sum);
}
