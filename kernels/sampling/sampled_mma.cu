/*---
name: sampled_mma
study: sampling
source: "our own; vectors of eight rows after FlashSparse (Shi et al. 2024)"
idea: both operands of a sampled product are read along their rows, so each lane loads its fragments in 16 bytes, without shared memory or shuffles
min_arch: sm_80
tile: {warps: 8, depth: 4}
constants: {operands: F16}
features: [mma, mma_bf16, mma_tf32]
variants:
  bf16:
    idea: sampled_mma in BF16
    after: sampled_mma
    constants: {operands: Bf16}
  tf32:
    idea: sampled_mma in TF32
    after: sampled_mma
    constants: {operands: Tf32}
deviations: []
---*/
// Sampled product (SDDMM) on tensor cores: out[e] = X[i]·Y[j] for every entry e = (i, j) of a pattern.
#include "tile/multiply_16.cuh"
#include "tile/multiply_tf32.cuh"

namespace {

using tile::Bf16;
using tile::F16;
struct Tf32 {};

constexpr int WINDOW = 8, TILE_K = 16;

// A dtype's results: how they are stored, and how sums become them.
template <class Operand>
struct Result {
    using Stored = unsigned short;
    static __device__ Stored of(float sum) { return static_cast<unsigned short>(Operand::pack(sum, 0.0f)); }
};
template <>
struct Result<Tf32> {
    using Stored = float;
    static __device__ Stored of(float sum) { return sum; }
};

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Tf32) {
    tile::multiply<1>(d, a, b);
}
template <class Values>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Values values) {
    tile::multiply(d, a, b, values);
}

using Stored = Result<OPERANDS>::Stored;

// Values in 16 bytes, and columns that the four lanes of a row load at a time.
constexpr int VECTOR = 16 / sizeof(Stored), CHUNK = 4 * VECTOR;

}  // namespace

// A warp multiplies one tile: sixteen rows of Y, those of the tile's columns, by the eight rows of X of its window.
//
//   loads    lane 4g + t: 16 bytes of rows g and g + 8 of Y and of row g of X, at chunk·CHUNK + t·VECTOR
//   sums     lane 4g + t: rows g and g + 8 of Y with rows 2t and 2t + 1 of X
//
// A product of fragments sums over k in any order, as long as X and Y have the same one. So what lies next to each other
// in memory goes to one lane. `entries` int32[tiles, 8, 16] are the numbers of the entries plus one; 0 is an empty slot.
// Rows of X and Y begin at multiples of 16 bytes, and n is a multiple of VECTOR.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) sampled_mma(
    const int* __restrict__ columns, const int* __restrict__ windows, const int* __restrict__ entries, int tiles,
    const Stored* __restrict__ x, const Stored* __restrict__ y, Stored* __restrict__ out, int m, int n, long long ldx,
    long long ldy) {
    const int tile = blockIdx.x * TILE_WARPS + threadIdx.x / 32;
    if (tile >= tiles) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int* of_tile = columns + TILE_K * static_cast<long long>(tile);
    const Stored* first = y + __ldg(of_tile + g) * ldy;
    const Stored* second = y + __ldg(of_tile + g + 8) * ldy;
    const int row = __ldg(windows + tile) * WINDOW + g;
    const Stored* own = x + min(row, m - 1) * ldx;
    int entry[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int slot = (2 * t + i % 2) * TILE_K + g + i / 2 * 8;
        entry[i] = __ldg(entries + (static_cast<long long>(tile) * (WINDOW * TILE_K) + slot));
    }
    float sums[4] = {};
#pragma unroll 1
    for (int begin = t * VECTOR; begin < n + t * VECTOR; begin += TILE_DEPTH * CHUNK) {
        uint4 a[TILE_DEPTH][2], b[TILE_DEPTH];
#pragma unroll
        for (int i = 0; i < TILE_DEPTH; ++i) {
            const int at = begin + i * CHUNK;
            a[i][0] = a[i][1] = b[i] = uint4{};
            if (at < n) {
                a[i][0] = __ldg(reinterpret_cast<const uint4*>(first + at));
                a[i][1] = __ldg(reinterpret_cast<const uint4*>(second + at));
                b[i] = __ldg(reinterpret_cast<const uint4*>(own + at));
            }
        }
#pragma unroll
        for (int i = 0; i < TILE_DEPTH; ++i) {
            const unsigned low[4] = {a[i][0].x, a[i][1].x, a[i][0].y, a[i][1].y}, of_low[2] = {b[i].x, b[i].y};
            const unsigned high[4] = {a[i][0].z, a[i][1].z, a[i][0].w, a[i][1].w}, of_high[2] = {b[i].z, b[i].w};
            multiply(sums, low, of_low, OPERANDS{});
            multiply(sums, high, of_high, OPERANDS{});
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (entry[i] > 0) out[entry[i] - 1] = Result<OPERANDS>::of(sums[i]);
    }
}
