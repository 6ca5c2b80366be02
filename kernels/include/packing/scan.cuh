#pragma once
// Prefix sums: within a CTA, and over a whole grid in one launch.

namespace packing {

// Threads of a CTA in the launches that scan over the grid.
constexpr int CTA = 256;

// A sum below 2^31, or two of them: bits 0-30 and 31-61. The scan over the grid uses the top two bits as flags.
using Count = unsigned long long;
__device__ inline Count pair(int low, int high) { return static_cast<Count>(high) << 31 | static_cast<unsigned>(low); }
__device__ inline int low_of(Count count) { return static_cast<int>(count & 0x7FFFFFFF); }
__device__ inline int high_of(Count count) { return static_cast<int>(count >> 31 & 0x7FFFFFFF); }

// Inclusive prefix sum over the THREADS threads of a CTA; `total` is the sum of all.
template <int THREADS, class Number>
__device__ Number scan_cta(Number own, Number& total) {
    __shared__ Number of_warp[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const Number below = __shfl_up_sync(~0u, own, distance);
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

// Scan over the grid with decoupled look-back (Merrill and Garland 2016). Each CTA publishes a state, a sum with a flag:
//
//   states[0]      ticket counter: CTAs are numbered in the order in which they start, so that a CTA only waits for
//                  CTAs that are running
//   states[1 + i]  OWN | sum of CTA i,  later  ALL | sum of CTAs 0 to i;  0 before either is known
//
// The caller clears `states` before the launch.
constexpr Count OWN = Count(1) << 62, ALL = Count(2) << 62;

// Index of this thread in start order.
__device__ inline int take_ticket(Count* states) {
    __shared__ int ticket;
    if (threadIdx.x == 0) ticket = static_cast<int>(atomicAdd(states, 1));
    __syncthreads();
    return ticket * CTA + threadIdx.x;
}

// Inclusive prefix sum over all threads of the grid, in the order of take_ticket().
__device__ inline Count scan_grid(Count own, int thread_index, Count* states) {
    __shared__ Count before;
    const int lane = threadIdx.x % 32, cta = thread_index / CTA;
    volatile Count* state_of = states + 1;
    Count total;
    const Count here = scan_cta<CTA>(own, total);
    if (threadIdx.x < 32) {
        if (lane == 0) state_of[cta] = (cta == 0 ? ALL : OWN) | total;
        Count sum = 0;
        // Lane i looks at the i-th CTA before `last`.
        for (int last = cta - 1; last >= 0; last -= 32) {
            Count state;
            do {
                state = last < lane ? ALL : state_of[last - lane];
            } while (__any_sync(~0u, state < OWN));
            const unsigned complete = __ballot_sync(~0u, state >= ALL);
            // The nearest complete state already includes the CTAs of higher lanes.
            Count term = complete != 0 && lane >= __ffs(complete) ? 0 : state & (OWN - 1);
            for (int distance = 16; distance > 0; distance /= 2) term += __shfl_xor_sync(~0u, term, distance);
            sum += term;
            if (complete != 0) break;
        }
        if (lane == 0) {
            if (cta > 0) state_of[cta] = ALL | (sum + total);
            before = sum;
        }
    }
    __syncthreads();
    return before + here;
}

}  // namespace packing
