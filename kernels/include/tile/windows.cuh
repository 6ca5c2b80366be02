#pragma once
// What the kernels of windows of eight rows share (format vectors_8x1): the walk of a warp through its windows, and the
// windows that several warps have worked on.

namespace tile {

constexpr int WINDOW = 8;

// A tile that a warp meets: none (`window` is negative), or one of a window; `last` of it, or of the part of it that is
// this warp's (`part` is not negative). A window without entries has one tile that is not there.
struct Step {
    int tile, window, part;
    bool there, last;
};

// A warp's tiles in order: those of every `stride`-th piece of work from `first` to before `end`. What a piece is lies
// in memory, and the next one is on its way while this one is walked.
class Walk {
  public:
    __device__ __forceinline__ Walk(const int4* pieces, int first, int end, int stride)
        : pieces_(pieces), at_(first), end_(end), stride_(stride) {
        piece_ = read(at_);
        ahead_ = read(at_ + stride_);
        tile_ = piece_.y;
    }

    __device__ __forceinline__ Step next() {
        const Step step{tile_, piece_.x, piece_.w, tile_ < piece_.z, tile_ + 1 >= piece_.z};
        if (++tile_ >= piece_.z) {
            at_ += stride_;
            piece_ = ahead_;
            ahead_ = read(at_ + stride_);
            tile_ = piece_.y;
        }
        return step;
    }

  private:
    __device__ __forceinline__ int4 read(int at) const { return at < end_ ? __ldg(pieces_ + at) : make_int4(-1, 0, 0, -1); }

    const int4* pieces_;
    int at_, end_, stride_, tile_;
    int4 piece_, ahead_;
};

// Walks through tiles with the operands of DEPTH - 1 of them on their way while one is multiplied, and the columns of
// one more: `columns(step)` and `load(operands, columns, step)` ask for what `product(operands)` needs;
// `finish(step)` stores the sums of a window and begins new ones.
template <int DEPTH, class Operands, class ColumnsOf, class Load, class Product, class Finish>
__device__ __forceinline__ void stream(Walk& walk, ColumnsOf columns, Load load, Product product, Finish finish) {
    Operands operands[DEPTH];
    Step steps[DEPTH];
    Step ahead = walk.next();
    int4 rows = columns(ahead);
#pragma unroll
    for (int i = 0; i < DEPTH - 1; ++i) {
        steps[i] = ahead;
        load(operands[i], rows, ahead);
        ahead = walk.next();
        rows = columns(ahead);
    }
    for (;;) {
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            const int free = (i + DEPTH - 1) % DEPTH;
            steps[free] = ahead;
            load(operands[free], rows, ahead);
            ahead = walk.next();
            rows = columns(ahead);
            if (steps[i].window < 0) return;
            product(operands[i]);
            if (steps[i].last) finish(steps[i]);
        }
    }
}

// A lane's SUMS fours of sums of a part of a window that several warps share go to `parts`, float4[part][strip][SUMS][32].
// Whether this warp was the last of them: then its sums are those of all parts, added in their order. `cut` says of a
// part which of the windows that are cut it belongs to, which part of it is the first and how many there are; `arrived`
// counts them for each such window and strip, from any number that is not below theirs, and ends where it begins.
template <int SUMS>
__device__ __forceinline__ bool add_parts(
    float (&sums)[SUMS][4], float4* parts, unsigned* arrived, const int4* cut, int part, int strip, int strips) {
    const int4 of = __ldg(cut + part);
    const int lane = threadIdx.x % 32;
    const long long step = static_cast<long long>(strips) * SUMS * 32;
    float4* own = parts + part * step + strip * SUMS * 32 + lane;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) own[32 * i] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (lane == 0) before = atomicInc(arrived + of.x * strips + strip, of.z - 1);
    if (__shfl_sync(~0u, before, 0) != of.z - 2) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    const float4* from = parts + of.y * step + strip * SUMS * 32 + lane;
    for (int each = 0; each < of.z; ++each, from += step) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const float4 x = __ldcg(from + 32 * i);
            sums[i][0] += x.x, sums[i][1] += x.y, sums[i][2] += x.z, sums[i][3] += x.w;
        }
    }
    return true;
}

}  // namespace tile
