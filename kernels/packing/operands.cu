/*---
name: operands
study: packing
source: "this project"
idea: a dense operand of any strides is read once, along its shorter stride, and written in rows that kernels can read; results are copied back likewise
min_arch: sm_80
features: []
deviations: []
---*/
// Copies of dense operands whose rows are not contiguous, not aligned or not padded.

namespace {

constexpr int THREADS = 256;

template <class Bits>
union Elements {
    uint4 chunk;
    Bits of[16 / sizeof(Bits)];
};

// Bytes from the start of an aligned chunk of 16 bytes to `at`.
__device__ int offset_in_chunk(const void* at) { return static_cast<int>(reinterpret_cast<unsigned long long>(at) % 16); }

// The 16 bytes that begin `offset` bytes behind the start of chunk `first`, of which `second` is the next one. Elements
// of BYTES bytes begin at multiples of their size. With elements of 16 bits, six bytes behind:
//
//   chunks          | . . . 0 1 2 3 4 | 5 6 7 8 9 … |     numbers are elements
//   wanted                  |---------------|
template <int BYTES>
__device__ uint4 shifted(const uint4& first, const uint4& second, int offset) {
    const unsigned words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    unsigned by_two[6], by_one[5], out[4];
#pragma unroll
    for (int i = 0; i < 6; ++i) by_two[i] = offset & 8 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) by_one[i] = BYTES < 8 && offset & 4 ? by_two[i + 1] : by_two[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out[i] = BYTES < 4 ? __funnelshift_r(by_one[i], by_one[i + 1], offset % 4 * 8) : by_one[i];
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

// The 16 bytes of a row of elements that begin with its byte `at`, which may be negative. Those of other rows are
// undefined, and no chunk is read that has nothing of this row, which is `bytes` long: none if the row is empty.
template <class Bits>
struct ChunkOfRow {
    uint4 first = {}, second = {};
    int offset;

    __device__ ChunkOfRow(const Bits* row, int at, int bytes) {
        const char* source = reinterpret_cast<const char*>(row) + at;
        offset = offset_in_chunk(source);
        const int begin = at - offset;
        const uint4* chunks = reinterpret_cast<const uint4*>(source - offset);
        if (bytes > 0 && begin + 16 > 0 && begin < bytes) first = __ldg(chunks);
        if (offset > 0 && begin + 16 < bytes) second = __ldg(chunks + 1);
    }
    __device__ Elements<Bits> elements() const { return {shifted<sizeof(Bits)>(first, second, offset)}; }
};

// Rows of `to` = rows of `from`, and zeros from `columns` to `padded`. Elements of a row follow each other, and rows begin
// at any element in both. A thread writes an aligned chunk of `to`. A CTA has `rows_of_cta` rows, each of which has at most
// `chunks`. Where rows of `to` follow each other without a gap, the chunk at a seam has elements of two rows, and is
// written with the first of them; other incomplete chunks are written element by element.
template <class Bits>
__device__ void copy_rows(
    const Bits* from, long long down, int rows, int columns, Bits* to, long long to_down, int padded, int chunks,
    int rows_of_cta) {
    constexpr int SIZE = sizeof(Bits), OF_CHUNK = 16 / SIZE;
    const int first_row = blockIdx.x * rows_of_cta, end = min(rows_of_cta, rows - first_row) * chunks;
    const int bytes = columns * SIZE, all_bytes = padded * SIZE;
    const bool has_seams = to_down == columns && bytes >= 16;
    for (int chunk = threadIdx.x; chunk < end; chunk += blockDim.x) {
        const int row = first_row + chunk / chunks;
        Bits* const own = to + row * to_down;
        // The first chunk that begins with this row or in it, or the one before.
        const int offset = offset_in_chunk(own), begin = has_seams && row > 0 ? (16 - offset) % 16 : -offset;
        const int at = begin + chunk % chunks * 16;
        if (at >= all_bytes) continue;
        Elements<Bits> elements = ChunkOfRow<Bits>(from + row * down, at, bytes).elements();
        bool is_whole = at >= 0 && at + 16 <= all_bytes;
        if (at + 16 > bytes) {
            Elements<Bits> behind = {};
            if (has_seams && row + 1 < rows) {
                behind = ChunkOfRow<Bits>(from + (row + 1) * down, at - bytes, bytes).elements();
                is_whole = at >= 0;
            }
#pragma unroll
            for (int i = 0; i < OF_CHUNK; ++i) {
                if (at + i * SIZE >= bytes) elements.of[i] = behind.of[i];
            }
        }
        Bits* const target = own + at / SIZE;
        if (is_whole) {
            *reinterpret_cast<uint4*>(target) = elements.chunk;
            continue;
        }
#pragma unroll
        for (int i = 0; i < OF_CHUNK; ++i) {
            const int byte = at + i * SIZE;
            if (byte >= 0 && byte < all_bytes) target[i] = elements.of[i];
        }
    }
}

// Rows and columns of the tiles that `turn` turns: a row is 128 bytes in 16 bits, and 256 in 32 and 64.
template <class Bits>
constexpr int SIDE = sizeof(Bits) == 8 ? 32 : 64;

// to[rows, padded] = from[rows, columns] with zeros after each row, for a `from` whose columns are closer together than
// its rows. A CTA of THREADS threads turns a tile in shared memory. All of its loads are under way at once.
template <class Bits>
__device__ void turn(
    const Bits* __restrict__ from, long long down, long long right, int rows, int columns, int padded, int tiles,
    Bits* __restrict__ to, long long to_down) {
    constexpr int TILE = SIDE<Bits>, STEP = THREADS / TILE;
    __shared__ Bits tile[TILE][TILE + 1];
    const int row = blockIdx.x / tiles * TILE, column = blockIdx.x % tiles * TILE;
    const int x = threadIdx.x % TILE, first = threadIdx.x / TILE;
#pragma unroll
    for (int i = 0; i < TILE / STEP; ++i) {
        const int y = first + i * STEP;
        const bool is_inside = row + x < rows && column + y < columns;
        tile[y][x] = is_inside ? from[(row + x) * down + (column + y) * right] : Bits{};
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE / STEP; ++i) {
        const int y = first + i * STEP;
        if (row + y < rows && column + x < padded) to[(row + y) * to_down + column + x] = tile[x][y];
    }
}

}  // namespace

extern "C" __global__ void rows_16(
    const unsigned short* __restrict__ from, long long down, int rows, int columns, unsigned short* __restrict__ to,
    long long to_down, int padded, int chunks, int rows_of_cta) {
    copy_rows(from, down, rows, columns, to, to_down, padded, chunks, rows_of_cta);
}

extern "C" __global__ void rows_32(
    const unsigned* __restrict__ from, long long down, int rows, int columns, unsigned* __restrict__ to,
    long long to_down, int padded, int chunks, int rows_of_cta) {
    copy_rows(from, down, rows, columns, to, to_down, padded, chunks, rows_of_cta);
}

extern "C" __global__ void rows_64(
    const unsigned long long* __restrict__ from, long long down, int rows, int columns, unsigned long long* __restrict__ to,
    long long to_down, int padded, int chunks, int rows_of_cta) {
    copy_rows(from, down, rows, columns, to, to_down, padded, chunks, rows_of_cta);
}

extern "C" __global__ void turn_16(
    const unsigned short* __restrict__ from, long long down, long long right, int rows, int columns, int padded,
    int tiles, unsigned short* __restrict__ to, long long to_down) {
    turn(from, down, right, rows, columns, padded, tiles, to, to_down);
}

extern "C" __global__ void turn_32(
    const unsigned* __restrict__ from, long long down, long long right, int rows, int columns, int padded, int tiles,
    unsigned* __restrict__ to, long long to_down) {
    turn(from, down, right, rows, columns, padded, tiles, to, to_down);
}

extern "C" __global__ void turn_64(
    const unsigned long long* __restrict__ from, long long down, long long right, int rows, int columns, int padded,
    int tiles, unsigned long long* __restrict__ to, long long to_down) {
    turn(from, down, right, rows, columns, padded, tiles, to, to_down);
}
