/*---
name: mma_obt_tiled
study: sptc
source: Mistry 2025, section 2.4 "mmaOBT_tiled", figure 2.3
idea: sixteen warps share super-tiles of 4x4 tiles, so that a tile of A serves four columns of tiles and a tile of B four rows
after: mma_obt
format: bcsr_tiled
format_options: {block: 4}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 64, k: 64, n: 32}
min_arch: sm_80
requires: {n: 8}
tile: {m: 64, n: 32, k: 64}
constants: {sums: SumsF16}
features: [cp_async, ldmatrix, mma]
launch:
  grid: ceil_div(n, tile.n), a.block_rows
  block: 512
  args: a.indptr, a.indices, a.data, b, c, b.ld, c.ld
# BLOCK x BLOCK warps: 4 for BLOCK 2 and 16 for BLOCK 4. BLOCK 8 would take 64 warps, 2048 threads; a CTA has 1024 at most.
variants:
  block2:
    source: Mistry 2025, section 2.4, figure 2.4
    idea: super-tiles of 2x2 tiles, which store fewer zeros and share each tile half as often
    after: mma_obt_tiled
    format_options: {block: 2}
    pads: {m: 32, k: 32, n: 16}
    tile: {m: 32, n: 16, k: 32}
    launch: {block: 128}
deviations:
  - "each stage of B is stored within its own tile; the original's main loop stores beyond it"
  - "every iteration commits a group of copies, an empty one after the last super-tile; see mma_obt"
---*/
#include "tile/copy_async.cuh"
#include "tile/rows.cuh"
#include "tile/sums.cuh"

// One warp for each 16x8 tile of C.
constexpr int THREADS = TILE_M / tile::WARP_M * (TILE_N / tile::WARP_N) * 32;
static_assert(THREADS <= 1024, "a CTA has 1024 threads at most");

struct alignas(128) Operands {
    half a[TILE_M * TILE_K];
    half b[TILE_N * TILE_K];
};

extern "C" __global__ void __launch_bounds__(THREADS) mma_obt_tiled(
    const int* __restrict__ indptr, const int* __restrict__ indices, const half* __restrict__ data,
    const half* __restrict__ b, half* __restrict__ c, int ldb, int ldc) {
    __shared__ Operands stages[2];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int n0 = blockIdx.x * TILE_N;
    const int warp_m = warp / (TILE_N / tile::WARP_N) * tile::WARP_M, warp_n = warp % (TILE_N / tile::WARP_N) * tile::WARP_N;
    const half* b_columns = b + static_cast<long long>(n0) * ldb;
    const int begin = indptr[blockIdx.y], end = indptr[blockIdx.y + 1];

    int column = begin < end ? indices[begin] : 0;
    auto copy = [&](int position) {
        if (position < end) {
            Operands& stage = stages[(position - begin) % 2];
            const half* block = data + static_cast<long long>(position) * (TILE_M * TILE_K);
            tile::copy<tile::Asynchronous, TILE_M, TILE_K, THREADS>(stage.a, block, TILE_K, thread);
            tile::copy<tile::Asynchronous, TILE_N, TILE_K, THREADS>(stage.b, b_columns + column * TILE_K, ldb, thread);
            if (position + 1 < end) column = indices[position + 1];
        }
        ptx::cp_async_commit();
    };

    tile::SUMS sums;
    copy(begin);
    for (int position = begin; position < end; ++position) {
        copy(position + 1);
        ptx::cp_async_wait<1>();
        __syncthreads();
        const Operands& stage = stages[(position - begin) % 2];
#pragma unroll
        for (int k0 = 0; k0 < TILE_K; k0 += 16) {
            unsigned fragment_a[4], fragment_b[2];
            tile::load_a<TILE_K>(fragment_a, stage.a, warp_m, k0, lane);
            tile::load_b<TILE_K>(fragment_b, stage.b, warp_n, k0, lane);
            sums.multiply(fragment_a, fragment_b);
        }
        __syncthreads();
    }
    half* staging = stages[0].a + warp * (tile::WARP_M * tile::WARP_N);
    tile::store(sums, staging, c, ldc, blockIdx.y * TILE_M + warp_m, n0 + warp_n, lane);
}
