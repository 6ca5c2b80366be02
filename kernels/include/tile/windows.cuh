#pragma once
// What the kernels of windows of eight rows share (format vectors_8x1): the walk of a CTA through its tiles, and the
// windows that several warps or CTAs work on.

namespace tile {

constexpr int WINDOW = 8;

// What a CTA's share is made of (arrays `work` and `cut` of the format), and where sums of parts of windows meet:
// float4[part][strip][sums of a lane][32], and a counter a part and strip.
struct Share {
    const int4 *work, *cut;
    float4* parts;
    int part_count;
};

// Sums of a part go to memory. Returns the window if this warp was the last of those that share it, whose sums are then
// those of all parts, added in their order, and -1 otherwise. The counters count from any number that is not below that
// of a window's parts, and end where they began.
template <int SUMS>
__device__ __forceinline__ int add_parts(float (&sums)[SUMS][4], const Share& share, int part) {
    const int4 of = __ldg(share.cut + part);
    const int lane = threadIdx.x % 32;
    const long long step = 32ll * SUMS * gridDim.y, strip = 32ll * SUMS * blockIdx.y + lane;
    float4* own = share.parts + part * step + strip;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) __stcg(own + 32 * i, make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
    __threadfence();
    __syncwarp();
    unsigned* arrived = reinterpret_cast<unsigned*>(share.parts + share.part_count * step);
    unsigned before = 0;
    if (lane == 0) before = atomicInc(arrived + of.x * gridDim.y + blockIdx.y, of.y - 1);
    if (__shfl_sync(~0u, before, 0) != of.y - 2) return -1;
    __threadfence();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    const float4* from = share.parts + of.x * step + strip;
#pragma unroll 1
    for (int each = 0; each < of.y; ++each, from += step) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const float4 x = __ldcg(from + 32 * i);
            sums[i][0] += x.x, sums[i][1] += x.y, sums[i][2] += x.z, sums[i][3] += x.w;
        }
    }
    return of.z;
}

// Multiplies a CTA's share of the tiles, an equal part of it a warp. A warp has the operands of DEPTH - 1 tiles on their
// way while one is multiplied, and the columns of one more: `columns(tile)` and `load(operands, columns, tile)` ask for
// what `product(sums, operands)` needs; `store(window, sums)` writes eight rows. Windows that reach from one warp to the
// next are added up in shared memory, by the warp where they begin. Past its end a warp asks for its last tile again.
template <int DEPTH, int WARPS, int SUMS, class Operands, class ColumnsOf, class Load, class Product, class Store>
__device__ __forceinline__ void multiply_share(
    const Share& share, const int* __restrict__ ends, ColumnsOf columns, Load load, Product product, Store store) {
    __shared__ float4 pieces[WARPS][SUMS][32];
    __shared__ int closed[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int4 own = __ldg(share.work + blockIdx.x);
    const auto first_of = [&](int of) { return own.x + (own.y - own.x) * of / WARPS; };
    const int begin = first_of(warp), last = first_of(warp + 1) - 1;

    float sums[SUMS][4] = {};
    int part = begin == own.x ? own.z : -1;
    bool open = false, kept = false;
    if (begin <= last) {
        // Whether the first window began with another warp or CTA: its sums wait in shared memory.
        bool joins = part >= 0 || (begin > own.x && __ldg(ends + begin - 1) < 0);
        Operands operands[DEPTH];
        int4 rows = columns(begin);
#pragma unroll
        for (int i = 0; i < DEPTH - 1; ++i) {
            load(operands[i], rows, min(begin + i, last));
            rows = columns(min(begin + i + 1, last));
        }
        for (int first = begin; first <= last; first += DEPTH) {
#pragma unroll
            for (int i = 0; i < DEPTH; ++i) {
                const int ahead = first + i + DEPTH - 1;
                load(operands[(i + DEPTH - 1) % DEPTH], rows, min(ahead, last));
                rows = columns(min(ahead + 1, last));
                if (first + i <= last) {
                    product(sums, operands[i]);
                    const int window = operands[i].window;
                    open = window < 0;
                    if (!open) {
                        if (joins) {
                            kept = true, joins = false;
                            if (lane == 0) closed[warp] = window;
#pragma unroll
                            for (int j = 0; j < SUMS; ++j) {
                                pieces[warp][j][lane] = make_float4(sums[j][0], sums[j][1], sums[j][2], sums[j][3]);
                            }
                        } else {
                            store(window, sums);
                        }
#pragma unroll
                        for (int j = 0; j < SUMS; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
                    }
                }
            }
        }
        if (open && joins && part < 0) {
            open = false;
            if (lane == 0) closed[warp] = -1;
#pragma unroll
            for (int j = 0; j < SUMS; ++j) {
                pieces[warp][j][lane] = make_float4(sums[j][0], sums[j][1], sums[j][2], sums[j][3]);
            }
        }
        kept = kept && part >= 0;
    }
    __syncthreads();
    own = __ldcg(share.work + blockIdx.x);  // rather than registers that wait in the loop
    const auto add = [&](int of) {
#pragma unroll
        for (int j = 0; j < SUMS; ++j) {
            const float4 x = pieces[of][j][lane];
            sums[j][0] += x.x, sums[j][1] += x.y, sums[j][2] += x.z, sums[j][3] += x.w;
        }
        return closed[of];
    };
    // First the window that goes on behind this warp, then the one that a CTA before has begun.
#pragma unroll 1
    for (int turn = open ? 0 : 1; turn < (kept ? 2 : 1); ++turn) {
        int window = -1, of = own.z;
        if (turn == 0) {
            for (int next = warp + 1; next < WARPS && window < 0; ++next) {
                if (first_of(next) < first_of(next + 1)) window = add(next);
            }
            of = window < 0 ? own.w : kept ? -1 : part;
        } else {
#pragma unroll
            for (int j = 0; j < SUMS; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
            window = add(warp);
        }
        if (of >= 0) window = add_parts(sums, share, of);
        if (window >= 0) store(window, sums);
    }
}

}  // namespace tile
