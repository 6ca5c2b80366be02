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

// Sums of a row of a part of a window that is cut, from which its row of C is made; `columns` of them.
__device__ __forceinline__ float* part_of(float* parts, int part, int row, int columns) {
    return parts + (static_cast<long long>(part) * WINDOW + row) * columns;
}

// Sums of four neighbouring columns over all parts of a window: `cut` is the window, its first part and their number.
__device__ __forceinline__ float4 add_four(const float* parts, const int* cut, int row, int columns, int column) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float* from = parts + (static_cast<long long>(cut[1]) * WINDOW + row) * columns + column;
#pragma unroll 2
    for (int part = 0; part < cut[2]; ++part, from += WINDOW * columns) {
        const float4 x = *reinterpret_cast<const float4*>(from);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    return sum;
}

}  // namespace tile
