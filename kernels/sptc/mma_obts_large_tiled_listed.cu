/*---
name: mma_obts_large_tiled_listed
study: sptc
source: Mistry 2025, chapter 5, which proposes it
idea: each super-tile is a CSR of its tiles; a CTA walks that list and copies only the slices of B that the list names
after: mma_obts_large_tiled
format: bcsr_classed_tiled_listed
format_options: {block: 4}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 64, k: 64, n: 32}
min_arch: sm_80
requires: {n: 8}
tile: {k: 32}
constants: {sums: SumsF16, stages: 2, super_m: 64, super_k: 64, super_n: 32}
features: [cp_async, ldmatrix, mma, mma_sp]
launch:
  grid: ceil_div(n, 32), a.super_rows
  block: 512
  args: a.indptr, a.indices, a.slices, a.inner_indptr, a.inner, a.blocks, a.data, a.data24, a.metadata, b, c, b.ld, c.ld
variants:
  stages3:
    idea: a third stage, so that one barrier for each super-tile is enough
    after: mma_obts_large_tiled_listed
    constants: {stages: 3}
deviations:
  - "the thesis proposes the list and has no kernel for it"
---*/
#include "tile/copy_async.cuh"
#include "tile/two_four.cuh"

constexpr int THREADS = 512;
// A super-tile has STRIPS rows of WIDE tiles of A; its result has STRIPS rows of COLUMNS tiles of C.
constexpr int STRIPS = SUPER_M / tile::WARP_M, WIDE = SUPER_K / TILE_K, COLUMNS = SUPER_N / tile::WARP_N;
constexpr int TILES = STRIPS * WIDE, THREADS_PER_TILE = THREADS / TILES;
// Halves of a dense tile, and words of metadata of a 2:4 tile.
constexpr int DENSE = tile::WARP_M * TILE_K, WORDS = TILE_K / 2;
// 16-byte chunks: of the values of a 2:4 tile; of a column of B, in a super-tile and in a slice of TILE_K rows.
constexpr int CHUNKS_24 = DENSE / 2 / 8, B_CHUNKS = SUPER_K / 8, SLICE_CHUNKS = TILE_K / 8;
// The first thread that copies B. The first threads copy A: where lists are short, a thread copies one or the other.
constexpr int FIRST_OF_B = THREADS - SUPER_N * B_CHUNKS;
static_assert(STRIPS * COLUMNS * 32 == THREADS, "one warp for each 16x8 tile of C");
static_assert(THREADS_PER_TILE * 8 == DENSE, "each thread copies 16 bytes of a dense tile");
static_assert(FIRST_OF_B >= 0, "a thread copies at most 16 bytes of B");
static_assert(STAGES == 2 || STAGES == 3, "two copies are in flight, into two stages or three");

// Operands of one super-tile: the tiles of its list, each dense or 2:4, and 32 columns of B.
struct alignas(128) Super {
    half a[TILES][DENSE];
    half b[SUPER_N * SUPER_K];
    unsigned metadata[TILES][WORDS];
    int2 list[TILES];      // tile column; 2p for the 2:4 tile p, 2p + 1 for the dense tile p
    int rows[STRIPS + 1];  // first list entry of each tile row
};
static_assert(THREADS / 32 * tile::WARP_M * tile::WARP_N <= TILES * DENSE, "C is staged where A was");

// Four CTAs a multiprocessor (three on sm_89, which holds 1536 threads): with short lists they mostly wait for copies.
extern "C" __global__ void __launch_bounds__(THREADS, 4) mma_obts_large_tiled_listed(
    const int* __restrict__ indptr, const int* __restrict__ indices, const int* __restrict__ slices,
    const int* __restrict__ inner_indptr, const int2* __restrict__ inner, int tiles, const half* __restrict__ data,
    const half* __restrict__ data24, const unsigned* __restrict__ metadata, const half* __restrict__ b,
    half* __restrict__ c, int ldb, int ldc) {
    __shared__ Super stages[STAGES];
    const unsigned thread = threadIdx.x;  // unsigned, because signed quotients take a fifth more registers
    const int lane = thread % 32, warp = thread / 32;
    const int strip = warp / COLUMNS, warp_n = warp % COLUMNS * tile::WARP_N;
    const int n0 = blockIdx.x * SUPER_N;
    const int begin = indptr[blockIdx.y], end = indptr[blockIdx.y + 1];
    // The list entry whose tile this thread helps to copy, its chunk of that tile, and its chunk of B.
    const int own = thread / THREADS_PER_TILE, chunk = thread % THREADS_PER_TILE;
    const int offset_dense = tile::chunk_offset<TILE_K>(chunk / (TILE_K / 8), chunk % (TILE_K / 8));
    const int offset_24 = tile::chunk_offset<TILE_K / 2>(chunk / (TILE_K / 16), chunk % (TILE_K / 16));
    const int b_column = (thread - FIRST_OF_B) / B_CHUNKS, b_chunk = (thread - FIRST_OF_B) % B_CHUNKS;
    const half* b_source = b + static_cast<long long>(n0 + b_column) * ldb + b_chunk * 8;

    // What the copy of a super-tile needs to know, read while the one before it is copied. The lists of a row of
    // super-tiles follow each other: a thread reads its entry before it knows whether the list is that long.
    int column = 0, slices_used = 0, first = 0, last = 0, row = 0;
    int2 entry = {0, 0};
    auto read = [&](int super) {
        const int* rows = inner_indptr + super * (STRIPS + 1);
        column = indices[super];
        slices_used = slices[super];
        first = last;
        last = rows[STRIPS];
        row = rows[min(thread, STRIPS)];
        entry = inner[min(first + own, tiles - 1)];
    };
    auto copy = [&](int super) {
        if (super < end) {
            Super& stage = stages[(super - begin) % STAGES];
            if (own < last - first) {
                const bool dense = entry.y % 2;
                const long long position = entry.y >> 1;
                if (chunk == 0) stage.list[own] = entry;
                if (dense || chunk < CHUNKS_24) {
                    const half* source = dense ? data + position * DENSE : data24 + position * (DENSE / 2);
                    ptx::cp_async_16(stage.a[own] + (dense ? offset_dense : offset_24), source + chunk * 8);
                } else if (chunk < CHUNKS_24 + WORDS / 4) {
                    const int word = (chunk - CHUNKS_24) * 4;
                    ptx::cp_async_16(stage.metadata[own] + word, metadata + position * WORDS + word);
                }
            }
            if (thread >= FIRST_OF_B && slices_used >> (b_chunk / SLICE_CHUNKS) & 1) {
                ptx::cp_async_16(stage.b + tile::chunk_offset<SUPER_K>(b_column, b_chunk), b_source + column * SUPER_K);
            }
            if (thread <= STRIPS) stage.rows[thread] = row - first;
            if (super + 1 < end) read(super + 1);
        }
        ptx::cp_async_commit();
    };

    tile::SUMS sums;
    if (begin < end) {
        last = inner_indptr[begin * (STRIPS + 1)];
        read(begin);
    }
    copy(begin);
    if (STAGES == 3) copy(begin + 1);
    for (int super = begin; super < end; ++super) {
        // With three stages the barrier also says that every warp has left the stage that is copied to next.
        if (STAGES == 2) copy(super + 1);
        ptx::cp_async_wait<1>();
        __syncthreads();
        if (STAGES == 3) copy(super + 2);
        const Super& stage = stages[(super - begin) % STAGES];
        const int row_end = stage.rows[strip + 1];
#pragma unroll 1
        for (int i = stage.rows[strip]; i < row_end; ++i) {
            const int2 listed = stage.list[i];
            unsigned fragment_a[4], fragment_b[4];
            tile::load_b<SUPER_K>(fragment_b, stage.b, warp_n, listed.x * TILE_K, lane);
            if (listed.y % 2) {
#pragma unroll
                for (int half_k = 0; half_k < 2; ++half_k) {
                    const unsigned of_half[2] = {fragment_b[2 * half_k], fragment_b[2 * half_k + 1]};
                    tile::load_a<TILE_K>(fragment_a, stage.a[i], 0, half_k * 16, lane);
                    sums.multiply(fragment_a, of_half);
                }
            } else {
                tile::load_a<TILE_K / 2>(fragment_a, stage.a[i], 0, 0, lane);
                tile::multiply_24(sums, fragment_a, fragment_b, tile::metadata_word(stage.metadata[i], lane));
            }
        }
        if (STAGES == 2) __syncthreads();
    }
    if (STAGES == 3) __syncthreads();
    half* staging = reinterpret_cast<half*>(stages) + warp * (tile::WARP_M * tile::WARP_N);
    tile::store(sums, staging, c, ldc, blockIdx.y * SUPER_M + strip * tile::WARP_M, n0 + warp_n, lane);
}
