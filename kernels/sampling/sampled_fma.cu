/*---
name: sampled_fma
study: sampling
source: "this project; sampled products as in cuSPARSE and Sputnik (Gale et al. 2020)"
idea: equally many entries for every group of eight lanes, wherever rows end; rows of Y are read in whole lines, and a row of X once for the entries of a batch that share it
min_arch: sm_80
tile: {warps: 8}
constants: {number: float}
features: []
variants:
  f64:
    idea: sampled_fma in FP64
    after: sampled_fma
    constants: {number: double}
deviations: []
---*/
// Sampled product (SDDMM) on CUDA cores: out[e] = X[i]·Y[j] for every entry e = (i, j) of a pattern.

namespace {

// Lanes of a group, the entries that it multiplies at a time, and numbers in 16 bytes.
constexpr int LANES = 8, BATCH = LANES, VECTOR = 16 / sizeof(NUMBER), CHUNK = LANES * VECTOR;

struct __align__(16) Vector {
    NUMBER of[VECTOR];
};
__device__ __forceinline__ Vector load(const NUMBER* from) {
    const uint4 bits = __ldg(reinterpret_cast<const uint4*>(from));
    return reinterpret_cast<const Vector&>(bits);
}

// Add the sums of this lane and of the lane `distance` away, for COUNT entries: each lane sends one half of them and
// receives the other, which it moves to the front.
template <int COUNT>
__device__ __forceinline__ void halve(NUMBER (&sums)[BATCH], int distance, bool upper) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
        const NUMBER given = upper ? sums[i] : sums[i + COUNT / 2];
        const NUMBER kept = upper ? sums[i + COUNT / 2] : sums[i];
        sums[i] = kept + __shfl_xor_sync(~0u, given, distance);
    }
}

}  // namespace

// A warp multiplies 32 neighbouring entries, a group of lanes eight of them:
//
//   entries    lane i of a group loads row and column of the group's entry i
//   products   lane i sums columns i·VECTOR to (i + 1)·VECTOR - 1 of every chunk, for all eight entries
//   result     lane i has the sum of entry i over all lanes
//
// Rows of X and Y begin at multiples of 16 bytes, and n is a multiple of VECTOR. Entries are in any order; a row of X is
// read once for neighbouring entries of the row.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) sampled_fma(
    const int* __restrict__ rows, const int* __restrict__ columns, int entries, const NUMBER* __restrict__ x,
    const NUMBER* __restrict__ y, NUMBER* __restrict__ out, int n, long long ldx, long long ldy) {
    const long long entry = static_cast<long long>(blockIdx.x) * (32 * TILE_WARPS) + threadIdx.x;
    const int lane = threadIdx.x % LANES;
    // Lanes after the last entry repeat it; their sums are not stored.
    const int at = static_cast<int>(min(entry, entries - 1ll));
    const int own_row = __ldg(rows + at), own_column = __ldg(columns + at);
    int row[BATCH], column[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        row[i] = __shfl_sync(~0u, own_row, i, LANES);
        column[i] = __shfl_sync(~0u, own_column, i, LANES);
    }
    NUMBER sums[BATCH] = {};
#pragma unroll 1
    for (int begin = lane * VECTOR; begin < n; begin += CHUNK) {
        Vector of_x[BATCH], of_y[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) of_y[i] = load(y + (column[i] * ldy + begin));
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            if (i > 0) of_x[i] = of_x[i - 1];
            if (i == 0 || row[i] != row[i - 1]) of_x[i] = load(x + (row[i] * ldx + begin));
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) sums[i] += of_x[i].of[j] * of_y[i].of[j];
        }
    }
    halve<8>(sums, 4, lane & 4);
    halve<4>(sums, 2, lane & 2);
    halve<2>(sums, 1, lane & 1);
    if (entry < entries) out[entry] = sums[0];
}
