/*---
name: mma_obts_large_tiled
study: sptc
source: Mistry 2025, chapter 5, which proposes it
idea: super-tiles that copy and multiply only the tiles they hold, the 2:4 ones on the sparse tensor core
after: mma_obt_tiled
format: bcsr_classed_tiled
format_options: {block: 4}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 64, k: 64, n: 32}
min_arch: sm_80
requires: {n: 8}
tile: {k: 32}
constants: {sums: SumsF16, super_m: 64, super_k: 64, super_n: 32}
features: [cp_async, ldmatrix, mma, mma_sp]
launch:
  grid: ceil_div(n, 32), a.super_rows
  block: 512
  args: a.indptr, a.indices, a.inner, a.data, a.data24, a.metadata, b, c, b.ld, c.ld
deviations:
  - "the thesis proposes the kernel and a sparse list of tiles within a super-tile, but has neither"
---*/
#include "tile/copy_async.cuh"
#include "tile/two_four.cuh"

constexpr int THREADS = 512;
// A super-tile has STRIPS rows of WIDE tiles of A; its result has STRIPS rows of COLUMNS tiles of C.
constexpr int STRIPS = SUPER_M / tile::WARP_M, WIDE = SUPER_K / TILE_K, COLUMNS = SUPER_N / tile::WARP_N;
constexpr int THREADS_PER_TILE = THREADS / (STRIPS * WIDE);
static_assert(STRIPS * COLUMNS * 32 == THREADS, "one warp for each 16x8 tile of C");
static_assert(THREADS_PER_TILE == 64, "each thread copies 16 bytes of a dense tile");

// Operands of one super-tile: its tiles of A, each dense or 2:4, and 32 columns of B.
struct alignas(128) Super {
    half a[STRIPS][WIDE][tile::WARP_M * TILE_K];
    half b[SUPER_N * SUPER_K];
    unsigned metadata[STRIPS][WIDE][TILE_K / 2];
    int codes[STRIPS * WIDE];
};

extern "C" __global__ void __launch_bounds__(THREADS) mma_obts_large_tiled(
    const int* __restrict__ indptr, const int* __restrict__ indices, const int* __restrict__ inner,
    const half* __restrict__ data, const half* __restrict__ data24, const unsigned* __restrict__ metadata,
    const half* __restrict__ b, half* __restrict__ c, int ldb, int ldc) {
    __shared__ Super stages[2];
    __shared__ alignas(16) half staging[THREADS / 32][tile::WARP_M * tile::WARP_N];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int strip = warp / COLUMNS, warp_n = warp % COLUMNS * tile::WARP_N;
    const int n0 = blockIdx.x * SUPER_N;
    const half* b_columns = b + static_cast<long long>(n0) * ldb;
    const int begin = indptr[blockIdx.y], end = indptr[blockIdx.y + 1];
    // The tile that this thread helps to copy.
    const int own = thread / THREADS_PER_TILE, own_thread = thread % THREADS_PER_TILE;

    int column = begin < end ? indices[begin] : 0;
    int code = begin < end ? inner[begin * (STRIPS * WIDE) + own] : -1;
    auto copy = [&](int super) {
        if (super < end) {
            Super& stage = stages[(super - begin) % 2];
            half* a = stage.a[own / WIDE][own % WIDE];
            if (own_thread == 0) stage.codes[own] = code;
            const long long position = code >> 1;
            if (code >= 0 && code % 2) {
                const half* source = data + position * (tile::WARP_M * TILE_K);
                tile::copy<tile::Asynchronous, tile::WARP_M, TILE_K, THREADS_PER_TILE>(a, source, TILE_K, own_thread);
            } else if (code >= 0) {
                const half* source = data24 + position * (tile::WARP_M * TILE_K / 2);
                tile::copy<tile::Asynchronous, tile::WARP_M, TILE_K / 2, THREADS_PER_TILE>(a, source, TILE_K / 2, own_thread);
                if (own_thread < TILE_K / 8) {
                    ptx::cp_async_16(stage.metadata[own / WIDE][own % WIDE] + 4 * own_thread,
                                     metadata + position * (TILE_K / 2) + 4 * own_thread);
                }
            }
            tile::copy<tile::Asynchronous, SUPER_N, SUPER_K, THREADS>(stage.b, b_columns + column * SUPER_K, ldb, thread);
            if (super + 1 < end) {
                column = indices[super + 1];
                code = inner[(super + 1) * (STRIPS * WIDE) + own];
            }
        }
        ptx::cp_async_commit();
    };

    tile::SUMS sums;
    copy(begin);
    for (int super = begin; super < end; ++super) {
        copy(super + 1);
        ptx::cp_async_wait<1>();
        __syncthreads();
        const Super& stage = stages[(super - begin) % 2];
#pragma unroll
        for (int step = 0; step < WIDE; ++step) {
            const int kind = stage.codes[strip * WIDE + step];
            if (kind < 0) continue;
            unsigned fragment_a[4], fragment_b[4];
            tile::load_b<SUPER_K>(fragment_b, stage.b, warp_n, step * TILE_K, lane);
            if (kind % 2) {
                for (int half_k = 0; half_k < 2; ++half_k) {
                    const unsigned slices[2] = {fragment_b[2 * half_k], fragment_b[2 * half_k + 1]};
                    tile::load_a<TILE_K>(fragment_a, stage.a[strip][step], 0, half_k * 16, lane);
                    sums.multiply(fragment_a, slices);
                }
            } else {
                tile::load_a<TILE_K / 2>(fragment_a, stage.a[strip][step], 0, 0, lane);
                tile::multiply_24(sums, fragment_a, fragment_b, tile::metadata_word(stage.metadata[strip][step], lane));
            }
        }
        __syncthreads();
    }
    tile::store(sums, staging[warp], c, ldc, blockIdx.y * SUPER_M + strip * tile::WARP_M, n0 + warp_n, lane);
}
