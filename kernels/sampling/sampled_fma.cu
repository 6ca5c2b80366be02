/*---
name: sampled_fma
study: sampling
source: "this project; sampled products as in cuSPARSE and Sputnik (Gale et al. 2020)"
idea: equally many entries for every group of lanes, wherever rows end; a group reads a slab of a row of Y at once, and that of a row of X once for the entries of a batch that share it
min_arch: sm_80
tile: {lanes: 32, warps: 4, ctas: 6}
constants: {number: float}
features: []
variants:
  half:
    idea: slabs of 64 columns, with half a warp per row of Y
    after: sampled_fma
    tile: {lanes: 16}
  quarter:
    idea: slabs of 32 columns, with a quarter of a warp per row of Y
    after: sampled_fma_half
    tile: {lanes: 8}
  f64:
    idea: sampled_fma in FP64; slabs of 64 columns
    after: sampled_fma
    tile: {ctas: 5}
    constants: {number: double}
  f64_half:
    idea: slabs of 32 columns, with half a warp per row of Y
    after: sampled_fma_f64
    tile: {lanes: 16, ctas: 5}
    constants: {number: double}
  f64_quarter:
    idea: slabs of 16 columns, with a quarter of a warp per row of Y
    after: sampled_fma_f64_half
    tile: {lanes: 8, ctas: 5}
    constants: {number: double}
deviations: []
---*/
// Sampled product (SDDMM) on CUDA cores: out[e] = X[i]·Y[j] for every entry e = (i, j) of a pattern.

namespace {

// Lanes of a group, the entries that it multiplies at a time, lanes that share the sum of an entry, and numbers in 16
// bytes.
constexpr int LANES = TILE_LANES, BATCH = 8, SHARE = LANES / BATCH, VECTOR = 16 / sizeof(NUMBER);
static_assert(LANES == 8 || LANES == 16 || LANES == 32, "a group has 8, 16 or 32 lanes");

struct __align__(16) Vector {
    NUMBER of[VECTOR];
};
__device__ __forceinline__ Vector load(const NUMBER* from, bool wanted) {
    uint4 bits = {};
    if (wanted) bits = __ldg(reinterpret_cast<const uint4*>(from));
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

// A warp multiplies 32 neighbouring entries, a group LANES of them, in batches of eight:
//
//   entries    lane i of a group loads row and column of the group's entry i
//   products   lane i sums columns i·VECTOR to (i + 1)·VECTOR - 1, for all entries of a batch
//   sums       lanes SHARE·i to SHARE·i + SHARE - 1 have the sum of the batch's entry i over all lanes
//   result     one of them keeps it: lane SHARE·i + b that of batch b
//
// Rows of X and Y begin at multiples of 16 bytes, and n, the columns of this launch, is a multiple of VECTOR and at most
// LANES·VECTOR. Entries are in any order; a row of X is read once for neighbouring entries of a batch. A launch that is
// not the first of a product adds to `out`.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) sampled_fma(
    const int* __restrict__ rows, const int* __restrict__ columns, int entries, const NUMBER* __restrict__ x,
    const NUMBER* __restrict__ y, NUMBER* __restrict__ out, int n, long long ldx, long long ldy, int is_first) {
    const long long entry = static_cast<long long>(blockIdx.x) * (32 * TILE_WARPS) + threadIdx.x;
    const int lane = threadIdx.x % LANES;
    // Lanes after the last entry repeat it; their sums are not stored.
    const int at = static_cast<int>(min(entry, entries - 1ll));
    const int own_row = __ldg(rows + at), own_column = __ldg(columns + at);
    const bool has_columns = lane * VECTOR < n;
    x += lane * VECTOR, y += lane * VECTOR;
    NUMBER result = 0;
    int row_before = -1;
    Vector of_row = {};
#pragma unroll 1
    for (int batch = 0; batch < SHARE; ++batch) {
        Vector of_x[BATCH], of_y[BATCH];
        int row[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int column = __shfl_sync(~0u, own_column, batch * BATCH + i, LANES);
            of_y[i] = load(y + column * ldy, has_columns);
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            row[i] = __shfl_sync(~0u, own_row, batch * BATCH + i, LANES);
            of_x[i] = i > 0 ? of_x[max(i - 1, 0)] : of_row;
            if (row[i] != (i > 0 ? row[max(i - 1, 0)] : row_before)) of_x[i] = load(x + row[i] * ldx, has_columns);
        }
        row_before = row[BATCH - 1], of_row = of_x[BATCH - 1];
        NUMBER sums[BATCH] = {};
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) sums[i] += of_x[i].of[j] * of_y[i].of[j];
        }
        halve<8>(sums, LANES / 2, lane & LANES / 2);
        halve<4>(sums, LANES / 4, lane & LANES / 4);
        halve<2>(sums, LANES / 8, lane & LANES / 8);
#pragma unroll
        for (int distance = LANES / 16; distance > 0; distance /= 2) {
            sums[0] += __shfl_xor_sync(~0u, sums[0], distance);
        }
        if (lane % SHARE == batch) result = sums[0];
    }
    const long long to = entry - lane + lane % SHARE * BATCH + lane / SHARE;
    if (to < entries) out[to] = is_first ? result : out[to] + result;
}
