/*---
name: wgmma_obts
study: sptc
source: "Mistry 2025, chapter 5, names Hopper's wgmma and its copy engine as future work"
idea: sparse wgmma alone, because a dense tile is two 2:4 tiles; blocks without a dense tile come first and take one product
after: wgmma_obt
format: bcsr_panels
format_options: {panel: tile.m, two_four: true, ctas: tile.ctas, multiprocessors: device.multiprocessors}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 64, k: 32}
min_arch: sm_90a
requires: {n: 8}
tile: {m: 64, n: 128, k: 32, stages: 5, ctas: 3}
constants: {sums: PanelSumsF16}
features: [atom_inc, cp_async_bulk, mbarrier, tma, wgmma, wgmma_columns, wgmma_sp_columns]
tensor_maps: {b_map: {of: b, box: "tile.n, 32"}}
scratch: (2 * tile.m * tile.n + tile.m // 4) * a.partials * ceil_div(n, tile.n)
launch:
  grid: ceil_div(n, tile.n), a.items
  block: 32 * (tile.m // 16 + 1)
  smem: 1024 + tile.stages * (64 * tile.n + 72 * tile.m)
  args: a.work, a.cut, a.indptr, a.indices, a.tiles, a.data, a.metadata, b_map, c, scratch, a.partials, n, c.ld
variants:
  f32:
    idea: the same kernel with sums in single precision, for rows too long for half precision
    after: wgmma_obts
    dtype: {accumulator: float32}
    constants: {sums: PanelSumsF32}
    scratch: (4 * tile.m * tile.n + tile.m // 4) * a.partials * ceil_div(n, tile.n)
  narrow:
    idea: slabs of 64 columns, twice as many CTAs for small matrices and narrow B
    after: wgmma_obts
    tile: {n: 64, stages: 8}
  tall:
    idea: blocks of 128 rows, so that two warpgroups share the rows of B
    after: wgmma_obts
    pads: {m: 128}
    tile: {m: 128, stages: 6, ctas: 2}
deviations:
  - "the thesis proposes the instructions and has no kernel for them"
  - "long panels are cut, and the CTA that is done last adds the partial sums"
  - "a NaN or an infinity in a row of B reaches all rows of a panel in which one has an entry in that block"
---*/
#include "ptx/wgmma_sp_columns.cuh"
#include "tile/panels.cuh"

namespace {

struct Sparse {
    static constexpr int METADATA = 64;

    // Each half is a 2:4 tile of all 32 columns.
    template <int half, class Registers>
    __device__ __forceinline__ static void multiply(Registers& sums, const tile::Fragments& f, const char* b) {
        add_product(sums, f.a[half], ptx::wgmma_columns_64_descriptor(b), f.metadata[half]);
    }

    __device__ __forceinline__ static void add_product(
        unsigned (&d)[16], const unsigned (&a)[4], unsigned long long b, unsigned metadata) {
        ptx::wgmma_sp_m64n64k32_f16_f16<0>(d, a, b, metadata);
    }
    __device__ __forceinline__ static void add_product(
        unsigned (&d)[32], const unsigned (&a)[4], unsigned long long b, unsigned metadata) {
        ptx::wgmma_sp_m64n128k32_f16_f16<0>(d, a, b, metadata);
    }
    __device__ __forceinline__ static void add_product(
        float (&d)[64], const unsigned (&a)[4], unsigned long long b, unsigned metadata) {
        ptx::wgmma_sp_m64n128k32_f32_f16<0>(d, a, b, metadata);
    }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(tile::THREADS, TILE_CTAS) wgmma_obts(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int* __restrict__ indptr,
    const int* __restrict__ indices, const int4* __restrict__ tiles, const half* __restrict__ data,
    const unsigned* __restrict__ metadata, const __grid_constant__ ptx::TensorMap b_map, half* __restrict__ c,
    uint4* scratch, int partials, int n, int ldc) {
    extern __shared__ char shared[];
    tile::multiply_panel<Sparse>(
        shared, work, cut, indptr, indices, tiles, reinterpret_cast<const char*>(data),
        reinterpret_cast<const char*>(metadata), b_map, c, scratch, partials, n, ldc);
}
