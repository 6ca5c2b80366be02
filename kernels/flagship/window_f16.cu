/*---
name: window_f16
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: windows of eight rows as the narrow operand of an mma, rows of B transposed between lanes, equal numbers of tiles for all warps
family: window_f16
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12, wave_columns: "wave_columns(2 * 128, device.l2_bytes)"}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 32, warps: 32, ctas: 1}
constants: {values: F16, scaled: 0}
features: [atom_inc, mma, mma_bf16, movmatrix]
scratch: (32 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: min(a.partitions, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(2 * k * tile.slab, 1))) * waves_of(m, k, wave_columns(2 * tile.slab, device.l2_bytes))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (32 * tile.slab + 32)
  args: a.work, a.cut, a.partitions, a.ends, a.columns, a.data, b, c, scratch, a.partials, m, b.ld, c.ld, (324 * a.blocks + b.nbytes + 2 * m * c.ld) * 6 // (5 * device.l2_bytes), alpha, beta
variants:
  bf16:
    idea: window_f16 in BF16
    family: window_bf16
    after: window_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations:
  - "a NaN or an infinity in a row of B reaches all eight rows of a window in which one has an entry there"
  - "a NaN or an infinity in row 0 of B reaches all rows of a window without entries, which has one tile, of column 0"
---*/
#include "ptx/movmatrix.cuh"
#include "tile/multiply_16.cuh"
#include "tile/reordered.cuh"
#include "tile/store.cuh"
#include "tile/windows.cuh"

namespace {

using Values = tile::VALUES;

constexpr int SUMS = 2;
static_assert(TILE_SLAB == 32, "four lanes read the slab of a row of B");

// A lane's operands of one tile: eight columns of two rows of B, four values of one row of A, and the window that ends
// with the tile, or -1.
struct Operands {
    uint4 b[2];
    uint2 a;
    int window;
};

// Where a lane loads them from; PASSES as for tile::load_once.
struct Source {
    const int2* column_pairs;
    const uint2* data;
    const int* ends;
    const char* b_slab;
    int stride;

    template <bool PASSES>
    __device__ __forceinline__ int2 columns(unsigned tile) const {
        return tile::load_once<PASSES>(column_pairs + (tile * 8 + threadIdx.x % 32 / 4));
    }
    template <bool PASSES>
    __device__ __forceinline__ void load(Operands& f, const int2& rows, unsigned tile) const {
        f.b[0] = __ldg(reinterpret_cast<const uint4*>(b_slab + static_cast<long long>(rows.x) * stride));
        f.b[1] = __ldg(reinterpret_cast<const uint4*>(b_slab + static_cast<long long>(rows.y) * stride));
        f.a = tile::load_once<PASSES>(data + (tile * 32 + threadIdx.x % 32));
        f.window = tile::load_once<PASSES>(ends + tile);
    }
};

}  // namespace

// A warp multiplies its tiles by a slab of B. CTAs of one slab have consecutive numbers, so that the slab stays in L2.
//
//   loads        lane 4r + c: columns 8c to 8c + 7 of rows 2r and 2r + 1 of the tile's 16 rows of B
//   movmatrix    lane 4g + t: columns 8(g/2) + g%2 + {0, 2, 4, 6} of rows 4t, 4t + 2 (even) and 4t + 1, 4t + 3 (odd)
//   sums         lane 4g + t: the same columns of rows 2t and 2t + 1 of the window
//   exchange     lane 4g + t: columns 8(g/2) to 8(g/2) + 7 of row 2t + g%2, the others from lane 4(g^1) + t
//
// L1 serves one line at a time. Four lanes read one row, because lanes that loaded what they multiply would touch twice
// as many lines. Out-of-range columns load the last valid ones; their results are never stored.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_f16(
    const int4* __restrict__ work, const int4* __restrict__ cut, int partition_count, const int* __restrict__ ends,
    const int2* __restrict__ columns, const uint2* __restrict__ data, const unsigned short* __restrict__ b,
    unsigned short* __restrict__ c, float4* partials, int partial_count, int m, int ldb, int ldc, int beyond_l2,
    float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, odd = g % 2;
    const int read = blockIdx.y * TILE_SLAB + 8 * t, written = blockIdx.y * TILE_SLAB + 8 * (g / 2);
    const Source source = {columns, data, ends, reinterpret_cast<const char*>(b + min(read, ldb - 8)), 2 * ldb};
    tile::WarpTiles<TILE_WARPS, SUMS> tiles({work, cut, partition_count, partials, partial_count}, ends, shared);

    const auto store_window = [&](int window, float (&sums)[SUMS][4]) {
        float row[8];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float first = sums[i / 2][i % 2 * 2], second = sums[i / 2][i % 2 * 2 + 1];
            const float own = odd ? second : first;
            const float other = __shfl_xor_sync(~0u, odd ? first : second, 4);
            row[2 * i] = odd ? other : own, row[2 * i + 1] = odd ? own : other;
        }
        const int at = window * tile::WINDOW + 2 * t + odd;
        if (at < m && written < ldc) {
            unsigned short* to = c + static_cast<long long>(row_of_c(at)) * ldc + written;
            tile::store<Values, SCALED>(reinterpret_cast<uint4*>(to), row, alpha, beta, epilogue, written);
        }
    };
    const auto close = [&](int window) { tiles.close(window, store_window); };
    const auto multiply = [&](const Operands& f) {
        // B comes as the even rows of the tile, then the odd ones; A is put into the same order.
        const unsigned values[2] = {__byte_perm(f.a.x, f.a.y, 0x5410), __byte_perm(f.a.x, f.a.y, 0x7632)};
        const unsigned even_rows[4] = {f.b[0].x, f.b[0].y, f.b[0].z, f.b[0].w};
        const unsigned odd_rows[4] = {f.b[1].x, f.b[1].y, f.b[1].z, f.b[1].w};
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const unsigned fragment[4] = {
                ptx::movmatrix_trans(even_rows[2 * i]), ptx::movmatrix_trans(even_rows[2 * i + 1]),
                ptx::movmatrix_trans(odd_rows[2 * i]), ptx::movmatrix_trans(odd_rows[2 * i + 1])};
            tile::multiply(tiles.sums[i], fragment, values, Values{});
        }
    };
    const int window = beyond_l2
        ? tile::stream<true, Operands>(tiles.begin, tiles.last, source, multiply, close)
        : tile::stream<false, Operands>(tiles.begin, tiles.last, source, multiply, close);
    tiles.finish(window, store_window);
}
