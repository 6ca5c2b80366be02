// What packing on a device shares between formats; the text of this file stands before that of theirs.
//
// COST, what a range costs in elements, and THREADS of the one CTA that cuts shares are defined by builder.py.

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

// Sums over all threads of the CTA up to and with this one; `total` is that of all.
__device__ int scanned(int own, int& total) {
    __shared__ int of_warp[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const int below = __shfl_up_sync(~0u, own, distance);
        if (lane >= distance) own += below;
    }
    if (lane == 31) of_warp[warp] = own;
    __syncthreads();
    total = 0;
    for (int i = 0; i < THREADS / 32; ++i) {
        if (i == warp) own += total;
        total += of_warp[i];
    }
    __syncthreads();
    return own;
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

// Shares of about equal cost of ranges of elements, which begin at `begins`: first element, element after the last one,
// and parts of ranges that are cut; of each part the first one of its range, how many there are, the range, and the share.
// One CTA.
extern "C" __global__ void __launch_bounds__(THREADS) share(
    const int* __restrict__ begins, int ranges, int cost, int shares, int slack, int4* __restrict__ work, int4* cut,
    int* __restrict__ parts) {
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
        const int number = so_far + scanned(before + behind, total) - before - behind;
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
    if (threadIdx.x == 0) *parts = so_far;
}

// Formats of entries row by row, in which an empty row has one of value zero in column 0, and a row's last entry ~column.

// Slots of each row: its entries, or one.
extern "C" __global__ void count_slots(const int* __restrict__ indptr, int m, int* __restrict__ slots) {
    const int row = thread();
    if (row < m) slots[row] = max(indptr[row + 1] - indptr[row], 1);
}

namespace {

// The slots of all entries, a row's last one marked, and of rows that have none.
template <class Bits>
__device__ void place_rows(
    const int* indptr, const int* indices, const Bits* values, const int* begins, int m, int slots, int* columns,
    Bits* data) {
    const int slot = thread();
    if (slot >= slots) return;
    const int row = range_of(begins, m, slot), begin = indptr[row], end = indptr[row + 1];
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
