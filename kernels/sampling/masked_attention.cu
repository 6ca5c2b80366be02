/*---
name: masked_attention
study: sampling
source: "softmax in one pass after FlashAttention-2 (Dao 2023); gathered keys, bits and order are our own"
idea: a block of queries gathers only the keys that one of them attends to; one bit says whether a query attends to a key
min_arch: sm_80
tile: {queries: 64, keys: 64, ctas: 3}
constants: {values: F16, width: 64}
features: [cp_async, ex2, ldmatrix, ldmatrix_trans, mma, mma_bf16]
variants:
  bf16:
    idea: masked_attention in BF16
    after: masked_attention
    constants: {values: Bf16}
  wide:
    idea: heads of 128 columns
    after: masked_attention
    tile: {queries: 64, keys: 64, ctas: 2}
    constants: {width: 128}
  bf16_wide:
    idea: heads of 128 columns in BF16
    after: masked_attention_bf16
    tile: {queries: 64, keys: 64, ctas: 2}
    constants: {values: Bf16, width: 128}
  fine:
    idea: blocks of 16 queries, for masks whose neighbouring rows share few columns
    after: masked_attention
    tile: {queries: 16, keys: 32, ctas: 12}
  fine_bf16:
    idea: blocks of 16 queries in BF16
    after: masked_attention_fine
    tile: {queries: 16, keys: 32, ctas: 12}
    constants: {values: Bf16}
  fine_wide:
    idea: blocks of 16 queries, heads of 128 columns
    after: masked_attention_fine
    tile: {queries: 16, keys: 32, ctas: 6}
    constants: {width: 128}
  fine_bf16_wide:
    idea: blocks of 16 queries, heads of 128 columns in BF16
    after: masked_attention_fine_bf16
    tile: {queries: 16, keys: 32, ctas: 6}
    constants: {values: Bf16, width: 128}
deviations:
  - "a row without keys gives zeros, where dense attention gives NaN"
  - "a NaN or an infinity in a row of V reaches all queries of a block in which one attends to it"
---*/
// Attention over a sparse mask in one kernel: O = softmax(scale·Q·Kᵀ at the entries of the mask)·V, for every head.
#include "ptx/cp_async.cuh"
#include "ptx/ex2.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/ldmatrix_trans.cuh"
#include "tile/multiply_16.cuh"

namespace {

using tile::Bf16;
using tile::F16;
using Values = VALUES;

constexpr int WARPS = TILE_QUERIES / 16, THREADS = 32 * WARPS;
// Chunks of 16 bytes in a row of a head, and copies of a thread for a tile of K and as many for one of V.
constexpr int CHUNKS = WIDTH / 8, COPIES = TILE_KEYS * CHUNKS / THREADS;
// Rows in shared memory are 16 bytes longer than in memory, so that ldmatrix has no bank conflicts.
constexpr int PITCH = 2 * WIDTH + 16, OF_V = TILE_KEYS * PITCH, STAGE = 2 * OF_V;
// Words of bits for a query and a tile.
constexpr int WORDS = TILE_KEYS / 32;
static_assert(WIDTH == 64 || WIDTH == 128, "a head has 64 or 128 columns");
static_assert(TILE_QUERIES * PITCH <= 2 * STAGE, "the results of a block fit into the stages");

// Elements from one batch, head or row to the next.
struct Strides {
    long long batch, head, row;
};

}  // namespace

// A CTA works on one block of queries of one head, a warp on sixteen of them.
//
//   first     int32[blocks + 1]: tiles of a block
//   order     int32[blocks]: blocks with many tiles come first, because CTAs start in this order
//   columns   int32[tiles, TILE_KEYS]: keys of a tile; those without a bit are any valid ones
//   bits      uint32[tiles, TILE_QUERIES, WORDS]: bit j of word i is set if the query attends to key 32i + j of the tile
//
// Two tiles of K and V are in shared memory: one is multiplied while the other one arrives. Scores stay in registers:
// lane 4g + t holds those of queries g and g + 8 with keys 2t and 2t + 1 of each eight, which are the places where it
// needs them as an operand of the product with V. Each row keeps its largest score so far, not yet scaled, and the sum of
// powers relative to it; sums of O are scaled when a larger score comes. `scale` is positive.
extern "C" __global__ void __launch_bounds__(THREADS, TILE_CTAS) masked_attention(
    const int* __restrict__ first, const int* __restrict__ order, const int* __restrict__ columns,
    const unsigned* __restrict__ bits, const unsigned short* __restrict__ q, const unsigned short* __restrict__ k,
    const unsigned short* __restrict__ v, unsigned short* __restrict__ o, int m, int heads, int batches,
    long long q_batch, long long q_head, long long q_row, long long k_batch, long long k_head, long long k_row,
    long long v_batch, long long v_head, long long v_row, long long o_batch, long long o_head, long long o_row,
    float scale) {
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int block = __ldg(order + blockIdx.x / (heads * batches)), of_block = blockIdx.x % (heads * batches);
    const int head = of_block % heads, batch = of_block / heads;
    const int begin = __ldg(first + block), end = __ldg(first + block + 1);
    const int query = block * TILE_QUERIES + 16 * warp;
    q += batch * q_batch + head * q_head, o += batch * o_batch + head * o_head;
    const int chunk = threadIdx.x % CHUNKS * 8, of_tile = threadIdx.x / CHUNKS;
    k += batch * k_batch + head * k_head + chunk, v += batch * v_batch + head * v_head + chunk;

    const auto read = [&](int (&ids)[COPIES], int tile) {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            ids[i] = __ldg(columns + (static_cast<long long>(tile) * TILE_KEYS + of_tile + i * (THREADS / CHUNKS)));
        }
    };
    const auto copy = [&](char* stage, const int (&ids)[COPIES]) {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            char* to = stage + (of_tile + i * (THREADS / CHUNKS)) * PITCH + 2 * chunk;
            ptx::cp_async_16(to, k + ids[i] * k_row);
            ptx::cp_async_16(to + OF_V, v + ids[i] * v_row);
        }
    };

    int ids[COPIES];
    if (begin < end) {
        read(ids, begin);
        copy(shared, ids);
        read(ids, min(begin + 1, end - 1));
    }
    ptx::cp_async_commit();

    // Queries beyond the last one are read as the last one; their results are not stored.
    unsigned of_q[WIDTH / 16][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned short* row = q + min(query + g + 8 * i, m - 1) * q_row + 2 * t;
#pragma unroll
        for (int j = 0; j < WIDTH / 16; ++j) {
            of_q[j][i] = __ldg(reinterpret_cast<const unsigned*>(row + 16 * j));
            of_q[j][i + 2] = __ldg(reinterpret_cast<const unsigned*>(row + 16 * j + 8));
        }
    }
    // Offsets of this lane's rows for ldmatrix: K as it is, V transposed.
    const int of_k = (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 16;
    const int of_v = OF_V + lane % 16 * PITCH + lane / 16 * 16;

    const float NONE = __int_as_float(0xff800000);  // minus infinity
    float sums[WIDTH / 8][4] = {}, largest[2] = {NONE, NONE}, total[2] = {};
#pragma unroll 1
    for (int tile = begin; tile < end; ++tile) {
        const int stage = (tile - begin) % 2 * STAGE;
        if (tile + 1 < end) {
            copy(shared + (STAGE - stage), ids);
            read(ids, min(tile + 2, end - 1));
        }
        ptx::cp_async_commit();
        unsigned seen[2][WORDS];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const long long at = static_cast<long long>(tile) * TILE_QUERIES + 16 * warp + g + 8 * i;
#pragma unroll
            for (int w = 0; w < WORDS; ++w) seen[i][w] = __ldg(bits + (at * WORDS + w));
        }
        ptx::cp_async_wait<1>();
        __syncthreads();

        float scores[TILE_KEYS / 8][4] = {};
#pragma unroll
        for (int j = 0; j < WIDTH / 16; ++j) {
#pragma unroll
            for (int i = 0; i < TILE_KEYS / 16; ++i) {
                unsigned keys[4];
                ptx::ldmatrix_x4(keys, shared + stage + of_k + 16 * i * PITCH + 32 * j);
                tile::multiply(scores[2 * i], of_q[j], {keys[0], keys[1]}, Values{});
                tile::multiply(scores[2 * i + 1], of_q[j], {keys[2], keys[3]}, Values{});
            }
        }

        // Most tiles of windows and blocks are full, and tests of bits take as long as the softmax.
        unsigned common = ~0u;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) common &= seen[0][w] & seen[1][w];
        if (!__all_sync(~0u, common == ~0u)) {
#pragma unroll
            for (int j = 0; j < TILE_KEYS / 8; ++j) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const bool attends = seen[i / 2][j / 4] >> (j % 4 * 8 + 2 * t + i % 2) & 1;
                    if (!attends) scores[j][i] = NONE;
                }
            }
        }
        float now[2] = {largest[0], largest[1]};
#pragma unroll
        for (int j = 0; j < TILE_KEYS / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) now[i / 2] = fmaxf(now[i / 2], scores[j][i]);
        }
        float factor[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            now[i] = fmaxf(now[i], __shfl_xor_sync(~0u, now[i], 1));
            now[i] = fmaxf(now[i], __shfl_xor_sync(~0u, now[i], 2));
            // A row that has seen no key yet is relative to 0: infinity minus infinity would be NaN.
            const float relative_to = now[i] == NONE ? 0.0f : scale * now[i];
            factor[i] = ptx::ex2(fmaf(scale, largest[i], -relative_to));
            largest[i] = now[i], now[i] = relative_to;
            total[i] *= factor[i];
        }
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[j][i] *= factor[i / 2];
        }
#pragma unroll
        for (int i = 0; i < TILE_KEYS / 16; ++i) {
            unsigned powers[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float (&x)[4] = scores[2 * i + half];
#pragma unroll
                for (int e = 0; e < 4; ++e) x[e] = ptx::ex2(fmaf(scale, x[e], -now[e / 2])), total[e / 2] += x[e];
                powers[2 * half] = Values::pack(x[0], x[1]), powers[2 * half + 1] = Values::pack(x[2], x[3]);
            }
#pragma unroll
            for (int j = 0; j < WIDTH / 16; ++j) {
                unsigned rows[4];
                ptx::ldmatrix_x4_trans(rows, shared + stage + of_v + 16 * i * PITCH + 32 * j);
                tile::multiply(sums[2 * j], powers, {rows[0], rows[1]}, Values{});
                tile::multiply(sums[2 * j + 1], powers, {rows[2], rows[3]}, Values{});
            }
        }
        // The next tile but one overwrites this one.
        __syncthreads();
    }

    // Results pass through shared memory, so that rows are written in chunks of 16 bytes.
    char* own = shared + 16 * warp * PITCH;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        total[i] += __shfl_xor_sync(~0u, total[i], 1);
        total[i] += __shfl_xor_sync(~0u, total[i], 2);
        const float share = total[i] > 0.0f ? 1.0f / total[i] : 0.0f;
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j) {
            *reinterpret_cast<unsigned*>(own + (g + 8 * i) * PITCH + 16 * j + 4 * t) =
                Values::pack(share * sums[j][2 * i], share * sums[j][2 * i + 1]);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < CHUNKS / 2; ++i) {
        const int row = (32 * i + lane) / CHUNKS, column = (32 * i + lane) % CHUNKS;
        if (query + row < m) {
            const uint4 eight = *reinterpret_cast<const uint4*>(own + row * PITCH + 16 * column);
            *reinterpret_cast<uint4*>(o + (query + row) * o_row + 8 * column) = eight;
        }
    }
}
