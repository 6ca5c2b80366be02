/*---
name: gemm24_wgmma_f8
study: gemm24
source: "beyond the post 'Implementing a 2:4 Sparse GEMM Kernel with Tensor Cores': its product in FP8 (e4m3)"
idea: gemm24_wgmma_bf16 with 8-bit operands, which the instruction takes along k only, so that B comes by columns
after: gemm24_wgmma_bf16
format: sparse24_fragments
format_options: {k_multiple: 2 * tile.k * tile.step}
dtype: {a: float8_e4m3, b: float8_e4m3, accumulator: float32, c: bfloat16}
layout: {b: column_major, c: row_major}
pads: {k: 16, n: 8}
min_arch: sm_90a
requires: {}
tile: {m: 128, n: 256, k: 128, step: 2, stages: 6, ctas: 2, group: 8}
features: [cluster, ld, mbarrier, setmaxnreg, tma, wgmma, wgmma_sp_f8]
tensor_maps: {b_map: {of: b, box: "tile.n // tile.ctas, tile.k"}}
launch:
  grid: >-
    tile.ctas * ceil_div(
    ceil_div(m, tile.m * tile.ctas) * ceil_div(n, tile.n),
    ceil_div(ceil_div(m, tile.m * tile.ctas) * ceil_div(n, tile.n), device.multiprocessors // tile.ctas))
  block: 384
  smem: 1024 + tile.stages * tile.k * tile.n + tile.m * tile.n
  args: a.data, a.metadata, b_map, c, m, n, a.blocks, a.steps * 64 // (tile.k * tile.step), c.ld
deviations: []
---*/
#include "ptx/cluster.cuh"
#include "ptx/ld.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_sp_f8.cuh"
#include "schedule/grouped_tiles.cuh"
#include "tile/turn.cuh"
#include "tile/values_16.cuh"

// A product moves as many bytes of A and B as one of 16-bit values and multiplies twice as many, so that what bounds
// gemm24_wgmma_bf16 bounds this kernel at twice the rate. A has twice the metadata per byte of its values.
namespace {

constexpr int WARPGROUPS = TILE_M / 64, STAGE = TILE_N * TILE_K, SLICE = STAGE / TILE_CTAS, ROW_C = TILE_N / 16;
constexpr int STAGE_PRODUCTS = TILE_K / 64, STEP_PRODUCTS = TILE_STEP * STAGE_PRODUCTS;
static_assert(TILE_K == 128, "a column of B in a box has the 128 bytes of the swizzle");
static_assert(TILE_N / TILE_CTAS <= 256, "a box has at most 256 columns of B");

struct Barriers {
    unsigned long long full[TILE_STAGES], empty[TILE_STAGES];
};

// A lane's values and metadata of A for one step.
struct Fragments {
    uint4 data[STEP_PRODUCTS];
    unsigned metadata[STEP_PRODUCTS];
};

}  // namespace

extern "C" __global__ void __cluster_dims__(TILE_CTAS, 1, 1) __launch_bounds__(384, 1) gemm24_wgmma_f8(
    const uint4* __restrict__ data, const unsigned* __restrict__ metadata,
    const __grid_constant__ ptx::TensorMap b_map, uint4* __restrict__ c, int m, int n, int row_blocks, int steps, int ldc) {
    extern __shared__ unsigned char unaligned[];
    __shared__ Barriers barriers;
    unsigned char* stages = unaligned + (1024 - ptx::shared_address(unaligned) % 1024) % 1024;
    // The shuffle tells the compiler that the value is the same in all lanes: products only overlap on paths that it
    // knows a warp takes as a whole.
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), warpgroup = warp / 4;
    const int rank = ptx::cluster_rank(), lane = threadIdx.x % 32;
    const int rows = (m + TILE_CTAS * TILE_M - 1) / (TILE_CTAS * TILE_M), columns = (n + TILE_N - 1) / TILE_N;
    const int first = blockIdx.x / TILE_CTAS, apart = gridDim.x / TILE_CTAS, tiles = rows * columns;
    auto position_of = [&](int tile) {
        auto position = schedule::grouped_tile(tile, rows, columns, TILE_GROUP);
        position.row = (position.row * TILE_CTAS + rank) * TILE_M;
        position.column *= TILE_N;
        return position;
    };

    if (threadIdx.x == 0) {
        for (int i = 0; i < TILE_STAGES; ++i) {
            ptx::mbarrier_init(&barriers.full[i], 1);
            ptx::mbarrier_init(&barriers.empty[i], TILE_CTAS * WARPGROUPS);
        }
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();

    if (warpgroup == WARPGROUPS) {
        ptx::registers_down<40>();
        if (threadIdx.x == 128 * WARPGROUPS) {
            // Each CTA of the cluster loads its part of the columns of B for both.
            const int column = rank * (TILE_N / TILE_CTAS);
            tile::Turn turn;
            for (int tile = first; tile < tiles; tile += apart) {
                const auto position = position_of(tile);
                for (int k0 = 0; k0 < steps * TILE_STEP * TILE_K; k0 += TILE_K, turn.next()) {
                    ptx::mbarrier_wait(&barriers.empty[turn.stage], turn.parity ^ 1);
                    ptx::mbarrier_arrive_expect(&barriers.full[turn.stage], STAGE);
                    ptx::tma_load_multicast(
                        stages + turn.stage * STAGE + rank * SLICE, b_map, position.column + column, k0,
                        &barriers.full[turn.stage], (1 << TILE_CTAS) - 1);
                }
            }
        }
    } else {
        ptx::registers_up<232>();
        uint4* staged = reinterpret_cast<uint4*>(stages + TILE_STAGES * STAGE) + warp * 16 * ROW_C;
        // Where this warp's rows of A come from, step by step and tile by tile. What is loaded after the last block of
        // 16 rows or after the last step is never used.
        unsigned at = 0;
        int fetched = steps, tile_of = first - apart;
        auto fetch = [&](Fragments& f) {
            if (fetched == steps) {
                fetched = 0;
                tile_of += apart;
                at = min(position_of(min(tile_of, tiles - 1)).row / 16 + warp, row_blocks - 1) * steps;
            }
            const unsigned* from_metadata = metadata + static_cast<long long>(at) * (32 * STEP_PRODUCTS) + lane;
            const uint4* from_data = data + static_cast<long long>(at) * (32 * STEP_PRODUCTS) + lane;
#pragma unroll
            for (int i = 0; i < STEP_PRODUCTS; ++i) f.metadata[i] = ptx::load_here(from_metadata + 32 * i);
#pragma unroll
            for (int i = 0; i < STEP_PRODUCTS; ++i) f.data[i] = ptx::load_here(from_data + 32 * i);
            ++at;
            ++fetched;
        };
        float sums[TILE_N / 2];
        tile::Turn turn;
        int freed = 0;
        auto release = [&]() {
            if (threadIdx.x % 128 < TILE_CTAS) ptx::mbarrier_arrive(&barriers.empty[freed], threadIdx.x % 128);
            freed = freed + 1 == TILE_STAGES ? 0 : freed + 1;
        };
        // One step. Once its first products are in flight, those of the previous step are complete, and its fragments
        // of A can be replaced by those of the next step.
        auto multiply = [&](const Fragments& now, Fragments& next, bool add) {
#pragma unroll
            for (int i = 0; i < TILE_STEP; ++i, turn.next()) {
                ptx::mbarrier_wait(&barriers.full[turn.stage], turn.parity);
                const unsigned char* stage = stages + turn.stage * STAGE;
                ptx::wgmma_fence();
#pragma unroll
                for (int j = 0; j < STAGE_PRODUCTS; ++j) {
                    const uint4 x = now.data[i * STAGE_PRODUCTS + j];
                    ptx::wgmma_sp_m64n256k64_f32_e4m3(
                        sums, {x.x, x.y, x.z, x.w}, ptx::wgmma_columns_descriptor(stage + 64 * j),
                        now.metadata[i * STAGE_PRODUCTS + j], add || i > 0 || j > 0);
                }
                ptx::wgmma_commit();
                ptx::wgmma_wait<1>();
                if (add || i > 0) release();
                if (i == 0) fetch(next);
            }
        };
        // Each warp transposes half of its columns at a time in its own section of shared memory and writes whole units
        // of 16 bytes.
        auto store = [&](schedule::TileOfC position) {
            const int row0 = position.row + 16 * warp;
#pragma unroll
            for (int side = 0; side < 2; ++side) {
#pragma unroll
                for (int j = 0; j < ROW_C; ++j) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int row = lane / 4 + 8 * half, sum = 4 * (side * ROW_C + j) + 2 * half;
                        reinterpret_cast<unsigned*>(staged + row * ROW_C + (j ^ row % 8))[lane % 4] =
                            tile::Bf16::pack(sums[sum], sums[sum + 1]);
                    }
                }
                __syncwarp();
                const int unit = lane % ROW_C, column = position.column + side * TILE_N / 2 + 8 * unit;
#pragma unroll
                for (int row = lane / ROW_C; row < 16; row += 32 / ROW_C) {
                    if (row0 + row < m && column < ldc) {
                        c[(static_cast<long long>(row0 + row) * ldc + column) / 8] = staged[row * ROW_C + (unit ^ row % 8)];
                    }
                }
                __syncwarp();
            }
        };

        Fragments even, odd;
        if (first < tiles) fetch(even);
        for (int tile = first; tile < tiles; tile += apart) {
            // Two steps per iteration, and fetches for the next tile without a branch: with a branch around any of this
            // the compiler would make each product wait for the one before.
            for (int step = 0; step < steps; step += 2) {
                multiply(even, odd, step > 0);
                multiply(odd, even, true);
            }
            ptx::wgmma_wait<0>();
            release();
            store(position_of(tile));
        }
    }
    // A CTA must not exit before the last copy or arrival in its shared memory.
    ptx::cluster_sync();
}
