/*---
name: panel_tf32
study: flagship
source: "our own; the transposed product gives Hopper's instruction rows of B as they are"
idea: panel_f16 in TF32, as Bᵀ·Aᵀ with B in registers, because Hopper reads 32-bit operands from shared memory along k alone
after: panel_f16
format: panels_64x32
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_90a
requires: {}
tile: {slab: 256, stages: 5, producers: 4, ctas: 1}
constants: {scaled: 0}
features: [atom_inc, cp_async_bulk, fence_async, mbarrier, shfl, wgmma, wgmma_tf32]
scratch: (256 * tile.slab + tile.slab // 8) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: ceil_div(a.partitions, even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1))), ceil_div(n, tile.slab)
  block: tile.slab + 32 * tile.producers
  smem: 1024 + tile.stages * (32 * (4 * tile.slab + 32) + 8192 + 256)
  args: a.work_ptr, a.partitions, a.work, a.cut, a.runs, a.columns, a.positions, a.data, b, c, scratch, a.partials, m, b.ld, c.ld, alpha, beta
deviations:
  - "a NaN or an infinity in a row of B reaches all 64 rows of a panel in which one has an entry there"
  - "a NaN or an infinity in row 0 of B reaches all rows of a panel without entries, which has one tile, of column 0"
---*/
#include "ptx/cp_async_bulk.cuh"
#include "ptx/fence_async.cuh"
#include "ptx/shfl.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_tf32.cuh"
#include "tile/panel_stages.cuh"
#include "tile/reordered.cuh"
#include "tile/store.cuh"

namespace {

// A warp multiplies a line of 32 columns of B, in two products of 16, and a warpgroup four lines.
constexpr int CONSUMERS = TILE_SLAB / 32, STEPS = tile::PANEL_COLUMNS / 8, SUMS = 32;
static_assert(TILE_SLAB % 128 == 0, "a warpgroup multiplies 128 columns");

// Rows of B are 32 bytes further apart than they are long: the sixteen lanes of an access read 32 bytes of each of four
// rows, and so all banks. Of A, eight columns of eight rows take 256 bytes (ptx/wgmma_tf32.cuh), the columns after them
// follow, and then the next rows.
struct Tile {
    using Value = unsigned;
    static constexpr int ROW = 4 * TILE_SLAB + 32, B_BYTES = tile::PANEL_COLUMNS * ROW, COPIES = 1;
    static constexpr int EIGHT_COLUMNS = 256, EIGHT_ROWS = STEPS * EIGHT_COLUMNS;
    static constexpr int A_BYTES = tile::PANEL_ROWS / 8 * EIGHT_ROWS;

    // A lane has the copy engine bring a row. Columns beyond those of B keep what was there; their sums are never stored.
    static __device__ __forceinline__ void copy(
        char* rows, const float* __restrict__ b, int ldb, int slab, int column, int lane, unsigned long long* barrier) {
        const int bytes = 4 * min(TILE_SLAB, ldb - slab);
        if (lane == 0) ptx::mbarrier_arrive_expect(barrier, tile::PANEL_COLUMNS * bytes);
        __syncwarp();
        ptx::cp_async_bulk(rows + lane * ROW, b + (static_cast<long long>(column) * ldb + slab), bytes, barrier);
    }
    // The format's position is that of a value of 16 bits in rows of 16 bytes; here both are twice as large, and the
    // halves of rows are swizzled.
    static __device__ __forceinline__ void write(char* tile, unsigned position, unsigned value) {
        const unsigned at = 2 * position;
        *reinterpret_cast<unsigned*>(tile + (at ^ (at >> 3 & 16))) = value;
    }
};

// Operands of a tile: of two products for each step of eight columns of A.
struct Fragments {
    unsigned b[STEPS][2][4];
    int stage;

    // Products read these registers until they are waited for, which only the assembler knows: a use after the wait keeps
    // the compiler from loading the next tile into them before.
    __device__ __forceinline__ void keep() const {
#pragma unroll
        for (int i = 0; i < 2 * STEPS; ++i) {
            const unsigned(&own)[4] = b[i / 2][i % 2];
            asm volatile("" ::"r"(own[0]), "r"(own[1]), "r"(own[2]), "r"(own[3]));
        }
    }
};

}  // namespace

// A CTA works on the panels of its partitions, one after the other. Producer warps fill stages, each warp every
// TILE_PRODUCERS-th one; warpgroups of consumers multiply them. Both read the list of panels.
//
//   operands    lane 4g + t of warp w: columns 2g and 2g + 1 of the first and of the second half of line w, of rows t and
//               t + 4 of eight rows of B; they are rows g and g + 8 of a product
//   sums        the same columns, of rows 8j + 2t and 8j + 2t + 1 of the panel
extern "C" __global__ void __launch_bounds__(32 * (CONSUMERS + TILE_PRODUCERS), TILE_CTAS) panel_tf32(
    const int* __restrict__ work_ptr, int partitions, const int4* __restrict__ work, const int4* __restrict__ cut,
    const int2* __restrict__ runs, const int* __restrict__ columns, const unsigned short* __restrict__ positions,
    const unsigned* __restrict__ data, const float* __restrict__ b, float* __restrict__ c, float4* partials,
    int partial_count, int m, int ldb, int ldc, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ char shared[];
    __shared__ tile::Ring ring;
    const tile::Stages<Tile> stages(shared);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int slab = blockIdx.y * TILE_SLAB;
    const int2 items = tile::items_of_cta(work_ptr, partitions);
    int next = items.x;
    const int end = items.y;

    // A warpgroup without columns would only hold the others up.
    const int consumers = min(CONSUMERS, (ldc - slab + 127) / 128 * 4);
    if (threadIdx.x == 0) tile::start_ring<Tile>(ring, consumers);
    __syncthreads();
    if (next == end) return;

    if (warp >= CONSUMERS) {
        const tile::Panels<unsigned> panels = {work, runs, columns, positions, data};
        tile::fill_stages<Tile>(ring, stages, panels, next, end, b, ldb, slab, warp - CONSUMERS, lane);
        return;
    }
    if (warp >= consumers) return;
    const int g = lane / 4, t = lane % 4;
    float sums[2 * SUMS];
    float(&first)[SUMS] = *reinterpret_cast<float(*)[SUMS]>(sums);
    float(&second)[SUMS] = *reinterpret_cast<float(*)[SUMS]>(sums + SUMS);
    tile::Turn turn;
    const auto load = [&](Fragments& f) {
        ptx::mbarrier_wait(&ring.full[turn.stage], turn.parity);
        const char* own = stages.b(turn.stage) + t * Tile::ROW + warp * 128 + g * 8;
#pragma unroll
        for (int i = 0; i < STEPS; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const char* here = own + 8 * i * Tile::ROW + 64 * half;
                const uint2 low = *reinterpret_cast<const uint2*>(here);
                const uint2 high = *reinterpret_cast<const uint2*>(here + 4 * Tile::ROW);
                unsigned(&operand)[4] = f.b[i][half];
                operand[0] = low.x, operand[1] = low.y, operand[2] = high.x, operand[3] = high.y;
            }
        }
        f.stage = turn.stage;
        turn.next();
    };
    const auto multiply = [&](const Fragments& f, bool add) {
        // One fence of the reader serves what all producers wrote. Theirs would wait for what they fetch ahead.
        ptx::fence_proxy_async_shared();
        ptx::wgmma_fence();
        const char* tile_of_a = stages.a(f.stage);
#pragma unroll
        for (int i = 0; i < STEPS; ++i) {
            const unsigned long long a =
                ptx::wgmma_columns_32_descriptor(tile_of_a + i * Tile::EIGHT_COLUMNS, Tile::EIGHT_ROWS);
            ptx::wgmma_m64n64k8_f32_tf32_registers(first, f.b[i][0], a, add || i > 0);
            ptx::wgmma_m64n64k8_f32_tf32_registers(second, f.b[i][1], a, add || i > 0);
        }
        ptx::wgmma_commit();
    };
    // Lanes with odd g take the second half of a line, those with even g the first, so that each stores four neighbouring
    // columns.
    const auto store = [&](int panel) {
        const bool odd = g % 2;
        const int to = slab + 32 * warp + 16 * odd + g / 2 * 4;
#pragma unroll
        for (int i = 0; i < SUMS / 2; ++i) {
            const int at = i / 2 * 4 + i % 2, row = panel * tile::PANEL_ROWS + i / 2 * 8 + 2 * t + i % 2;
            const float x = ptx::shfl_bfly(odd ? first[at] : second[at], 4);
            const float y = ptx::shfl_bfly(odd ? first[at + 2] : second[at + 2], 4);
            const float4 four =
                odd ? make_float4(x, y, second[at], second[at + 2]) : make_float4(first[at], first[at + 2], x, y);
            if (row < m && to < ldc) {
                float* into = c + static_cast<long long>(row_of_c(row)) * ldc + to;
                tile::store<SCALED>(reinterpret_cast<float4*>(into), four, alpha, beta, epilogue, to);
            }
        }
    };
    int4 panel = work[next];
    int at = panel.x;
    // Multiplies the tile at hand, loads the one after it meanwhile, and closes the panel. False after the last tile.
    const auto step = [&](Fragments& now, Fragments& later) {
        multiply(now, at > panel.x);
        const bool closes = ++at == panel.y, more = !closes || next + 1 < end;
        if (more) load(later);
        ptx::wgmma_wait<0>();
        now.keep();
        if (lane == 0) ptx::mbarrier_arrive(&ring.empty[now.stage], 0);
        if (closes) {
            const int partial = panel.w;
            if (partial < 0 ||
                tile::add_partials<CONSUMERS>(sums, tile::split_of(cut, partial), partial, partials, partial_count, warp)) {
                store(panel.z);
            }
            if (more) panel = work[++next], at = panel.x;
        }
        return more;
    };
    Fragments even, odd;
    load(even);
#pragma unroll 1
    while (step(even, odd) && step(odd, even)) {}
}
