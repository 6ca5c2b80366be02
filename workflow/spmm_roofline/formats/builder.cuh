// What packing on a device shares between formats; the text of this file stands before that of theirs.
//
// COST, what a range costs in elements, what makes shares (LEAST_COST, SLACK, LEAST_SLACK, SMALL, SMALL_SLACK), and THREADS
// of the one CTA that cuts them are defined by builder.py.

namespace {

// The first place from `begin` to `end` that does not hold less than `value`.
__device__ int lower_bound(const int* sorted, int begin, int end, int value) {
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (sorted[middle] < value) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

__device__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The last of `count` ranges that begin at `begins` which does not begin after `at`.
__device__ int range_of(const int* begins, int count, int at) { return lower_bound(begins, 0, count + 1, at + 1) - 1; }

// The range of `at`, which ascends by one from lane to lane: that of the first lane by 32 probes at a time, those of the
// others from there on.
__device__ int range_of_lane(const int* begins, int count, int at) {
    const int lane = threadIdx.x % 32, first = __shfl_sync(~0u, at, 0);
    int low = 0;
    for (int length = count; length > 1;) {
        const int step = (length + 31) / 32, probe = low + step * lane;
        const bool below = step * lane < length && begins[probe] <= first;
        const int ahead = step * (__popc(__ballot_sync(~0u, below)) - 1);
        low += ahead, length = min(step, length - ahead);
    }
    int step = 1;
    while (low + step < count && begins[low + step] <= at) low += step, step *= 2;
    return lower_bound(begins, low + 1, min(low + step, count), at + 1) - 1;
}

// A count of many things, or of two sorts of things, less than 2^31 each.
using Count = unsigned long long;
__device__ Count both(int low, int high) { return static_cast<Count>(high) << 31 | static_cast<unsigned>(low); }
__device__ int low_of(Count count) { return static_cast<int>(count & 0x7FFFFFFF); }
__device__ int high_of(Count count) { return static_cast<int>(count >> 31 & 0x7FFFFFFF); }

// Sums over all of so many threads of the CTA up to and with this one; `total` is that of all.
template <int THREAD_COUNT, class Number>
__device__ Number scanned(Number own, Number& total) {
    __shared__ Number of_warp[THREAD_COUNT / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const Number below = __shfl_up_sync(~0u, own, distance);
        if (lane >= distance) own += below;
    }
    if (lane == 31) of_warp[warp] = own;
    __syncthreads();
    total = 0;
    for (int i = 0; i < THREAD_COUNT / 32; ++i) {
        if (i == warp) own += total;
        total += of_warp[i];
    }
    __syncthreads();
    return own;
}

// CTAs of 256 threads that add up what all of them count: each looks back at what those before have counted, their own
// or all before them as well (Merrill and Garland 2016). `states` are zeros, one more than there are CTAs; its first
// element gives CTAs their places in the order in which they begin.
constexpr int CTA = 256;
constexpr Count OWN = Count(1) << 62, ALL = Count(2) << 62;

__device__ int thread_in_turn(Count* states) {
    __shared__ int place;
    if (threadIdx.x == 0) place = static_cast<int>(atomicAdd(states, 1));
    __syncthreads();
    return place * CTA + threadIdx.x;
}

// Sum over all threads up to and with this one, which thread_in_turn() numbered.
__device__ Count summed(Count own, int thread_number, Count* states) {
    __shared__ Count before;
    const int lane = threadIdx.x % 32, place = thread_number / CTA;
    volatile Count* of = states + 1;
    Count total;
    const Count here = scanned<CTA>(own, total);
    if (threadIdx.x < 32) {
        if (lane == 0) of[place] = (place == 0 ? ALL : OWN) | total;
        Count sum = 0;
        for (int last = place - 1; last >= 0; last -= 32) {
            Count state;
            do {
                state = last < lane ? ALL : of[last - lane];
            } while (__any_sync(~0u, state < OWN));
            const unsigned knows_all = __ballot_sync(~0u, state >= ALL);
            // What lanes behind the first one that knows all have to say is part of it.
            Count part = knows_all != 0 && lane >= __ffs(knows_all) ? 0 : state & (OWN - 1);
            for (int distance = 16; distance > 0; distance /= 2) part += __shfl_xor_sync(~0u, part, distance);
            sum += part;
            if (knows_all != 0) break;
        }
        if (lane == 0) {
            if (place > 0) of[place] = ALL | (sum + total);
            before = sum;
        }
    }
    __syncthreads();
    return before + here;
}

}  // namespace

namespace {

// The element with which a share begins: where its part of the cost does, or the border of a range at most `slack` away.
__device__ int share_begins(const int* begins, int ranges, int cost, int shares, int slack, int number) {
    if (number == 0 || number == shares) return number == 0 ? 0 : begins[ranges];
    const int goal = static_cast<int>(static_cast<long long>(number) * cost / shares);
    int low = 0, high = ranges + 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (begins[middle] + COST * middle <= goal) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const int range = low - 1, here = begins[range], after = begins[min(range + 1, ranges)];
    const int border = min(here + goal - (here + COST * range), after);
    return border - here <= slack ? here : after - border <= slack ? after : border;
}

}  // namespace

// Shares of about equal cost of ranges of elements, which begin at `begins`, at most so many: first element, element
// after the last one, and parts of ranges that are cut; of each part the first one of its range, how many there are, the
// range, and the share. `numbers` are those of elements, shares and parts. One CTA.
extern "C" __global__ void __launch_bounds__(THREADS) share(
    const int* __restrict__ begins, int ranges, int most, int4* __restrict__ work, int4* cut,
    int* __restrict__ numbers) {
    const int cost = begins[ranges] + COST * ranges, shares = max(min(most, cost / LEAST_COST), 1);
    const int size = cost / shares, slack = max(size / SLACK, size < SMALL ? SMALL_SLACK : LEAST_SLACK);
    int so_far = 0;
    for (int first = 0; first < shares; first += THREADS) {
        const int own = first + threadIdx.x;
        int begin = 0, end = 0, range = 0, next = 0;
        bool before = false, behind = false;
        if (own < shares) {
            begin = share_begins(begins, ranges, cost, shares, slack, own);
            end = share_begins(begins, ranges, cost, shares, slack, own + 1);
            range = range_of(begins, ranges, begin), next = range_of(begins, ranges, end);
            behind = begin < end && begins[next] != end;
            before = begin < end && begins[range] != begin && !(behind && range == next);
        }
        int total;
        const int number = so_far + scanned<THREADS>(before + behind, total) - before - behind;
        so_far += total;
        if (own < shares) {
            work[own] = make_int4(begin, end, before ? number : -1, behind ? number + before : -1);
            if (before) cut[number] = make_int4(0, 0, range, own);
            if (behind) cut[number + before] = make_int4(0, 0, next, own);
        }
    }
    __syncthreads();
    for (int part = threadIdx.x; part < so_far; part += THREADS) {
        const int range = cut[part].z;
        int of[2];
        for (int i = 0; i < 2; ++i) {
            int low = 0, high = so_far;
            while (low < high) {
                const int middle = (low + high) / 2;
                if (cut[middle].z < range + i) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            of[i] = low;
        }
        cut[part].x = of[0], cut[part].y = of[1] - of[0];
    }
    if (threadIdx.x == 0) numbers[0] = begins[ranges], numbers[1] = shares, numbers[2] = so_far;
}

// Formats of entries row by row, in which an empty row has one of value zero in column 0, and a row's last entry ~column.

// Where the slots of each row begin: its entries, or one.
extern "C" __global__ void __launch_bounds__(CTA) count_slots(
    const int* __restrict__ indptr, int m, Count* states, int* __restrict__ begins) {
    const int row = thread_in_turn(states);
    const Count up_to = summed(row < m ? max(indptr[row + 1] - indptr[row], 1) : 0, row, states);
    if (row == 0) begins[0] = 0;
    if (row < m) begins[row + 1] = low_of(up_to);
}

namespace {

// The slots of all entries, a row's last one marked, and of rows that have none.
template <class Bits>
__device__ void place_rows(
    const int* indptr, const int* indices, const Bits* values, const int* begins, int m, int slots, int* columns,
    Bits* data) {
    const int slot = thread(), row = range_of_lane(begins, m, min(slot, slots - 1));
    if (slot >= slots) return;
    const int begin = indptr[row], end = indptr[row + 1];
    const int entry = begin + slot - begins[row];
    const int column = begin < end ? indices[entry] : 0;
    columns[slot] = entry + 1 >= end ? ~column : column;
    data[slot] = begin < end ? values[entry] : Bits(0);
}

}  // namespace

extern "C" __global__ void place_rows_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ begins, int m, int slots, int* __restrict__ columns, unsigned short* __restrict__ data) {
    place_rows(indptr, indices, values, begins, m, slots, columns, data);
}

extern "C" __global__ void place_rows_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ begins, int m, int slots, int* __restrict__ columns, unsigned* __restrict__ data) {
    place_rows(indptr, indices, values, begins, m, slots, columns, data);
}

extern "C" __global__ void place_rows_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ begins, int m, int slots, int* __restrict__ columns,
    unsigned long long* __restrict__ data) {
    place_rows(indptr, indices, values, begins, m, slots, columns, data);
}
