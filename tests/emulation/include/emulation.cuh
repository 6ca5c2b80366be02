#pragma once
// Kernels as host code: the threads of a CTA are fibers of one host thread, and the CTAs run one after the other.
//
// A fiber runs until it waits for others, at a barrier or in an operation of its warp. So a missing barrier shows as a
// wrong result in some order of the threads; SPMM_ROOFLINE_ORDER=reversed runs them from the last one. What a device
// does at the same time is not emulated: neither memory that becomes visible late nor CTAs that wait for each other
// (a CTA may wait for one with a lower number, as after taking a ticket).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#undef __shared__
#define __shared__ static
#undef __grid_constant__
#define __grid_constant__
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace emulation {

// Threads that wait for each other: all of a CTA, or the lanes of a mask.
struct Barrier {
    int waiting = 0;
    unsigned turn = 0;
    // What the lanes of a warp pass to each other, for two turns: a lane may be one turn ahead of another.
    unsigned long long given[2][32];
};

struct Copy {
    void* to;
    const void* from;
    int bytes, read;
};

struct Thread {
    dim3 index;
    int number, lane, warp;
    void* stack_pointer = nullptr;
    char* stack;
    bool ended = false;
    // Copies that cp.async has begun, in groups; the last one is still open.
    std::vector<std::vector<Copy>> copies{1};
};

struct Cta {
    dim3 index, grid, block;
    std::vector<Thread> threads;
    Barrier all;
    std::vector<std::map<unsigned, Barrier>> of_warp;
    std::vector<unsigned> ended;  // lanes of a warp
    int running = 0;
    bool counted[2] = {};
    int count[2] = {};
};

extern Cta* cta;
extern Thread* current;
extern void* scheduler;

extern "C" void emulation_switch(void** from, void* to);
inline void yield() { emulation_switch(&current->stack_pointer, scheduler); }

inline void fail(const char* what) {
    std::fprintf(stderr, "emulation: %s (CTA %u,%u, thread %d)\n", what, cta->index.x, cta->index.y, current->number);
    std::abort();
}

// Wait until `count()` threads are here.
template <class Count>
inline unsigned wait(Barrier& barrier, const Count& count) {
    const unsigned turn = barrier.turn;
    ++barrier.waiting;
    while (barrier.turn == turn) {
        if (barrier.waiting >= count()) {
            barrier.waiting = 0, ++barrier.turn;
            break;
        }
        yield();
    }
    return turn;
}

inline Barrier& barrier_of(unsigned mask) {
    if (!(mask >> current->lane & 1)) fail("a lane calls an operation of a mask that it is not in");
    return cta->of_warp[current->warp][mask];
}
inline int present(unsigned mask) { return __builtin_popcount(mask & ~cta->ended[current->warp]); }

// Every lane of the mask gives a value and may then read those of the others.
template <class T>
struct Given {
    const unsigned long long* values;
    T operator[](int lane) const {
        T value;
        std::memcpy(&value, values + lane, sizeof value);
        return value;
    }
};
template <class T>
inline Given<T> exchange(unsigned mask, T value) {
    static_assert(sizeof(T) <= 8, "lanes exchange up to 64 bits");
    Barrier& barrier = barrier_of(mask);
    unsigned long long bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    barrier.given[barrier.turn % 2][current->lane] = bits;
    const unsigned turn = wait(barrier, [&] { return present(mask); });
    return {barrier.given[turn % 2]};
}

void run(dim3 grid, dim3 block, unsigned shared_bytes, const std::function<void()>& body);

template <class... P, std::size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<P>*>(arguments[I])...);
}
template <class... P>
void launch(void (*kernel)(P...), const unsigned* sizes, void** arguments) {
    run(dim3(sizes[0], sizes[1], sizes[2]), dim3(sizes[3], sizes[4], sizes[5]), sizes[6],
        [&] { call(kernel, arguments, std::index_sequence_for<P...>{}); });
}

}  // namespace emulation

#define threadIdx (emulation::current->index)
#define blockIdx (emulation::cta->index)
#define blockDim (emulation::cta->block)
#define gridDim (emulation::cta->grid)

// Barriers and operations of a warp.
inline void __syncthreads() {
    emulation::wait(emulation::cta->all, [] { return emulation::cta->running; });
}
inline int __syncthreads_count(int predicate) {
    emulation::Cta& cta = *emulation::cta;
    const int turn = cta.all.turn % 2;
    if (!cta.counted[turn]) cta.counted[turn] = true, cta.count[turn] = 0;
    cta.count[turn] += predicate != 0;
    __syncthreads();
    const int count = cta.count[turn];
    cta.counted[turn] = false;
    __syncthreads();
    return count;
}
inline void __syncwarp(unsigned mask = ~0u) { emulation::exchange(mask, 0); }
template <class T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    const int lane = emulation::current->lane;
    return emulation::exchange(mask, value)[lane / width * width + (from & (width - 1))];
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const int lane = emulation::current->lane, from = lane ^ bits;
    return emulation::exchange(mask, value)[from / width == lane / width ? from : lane];
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, int by, int width = 32) {
    const int lane = emulation::current->lane;
    return emulation::exchange(mask, value)[lane % width >= by ? lane - by : lane];
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, int by, int width = 32) {
    const int lane = emulation::current->lane;
    return emulation::exchange(mask, value)[lane % width + by < width ? lane + by : lane];
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const auto given = emulation::exchange(mask, predicate != 0);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1 && given[lane]) bits |= 1u << lane;
    }
    return bits;
}
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value) {
    const auto given = emulation::exchange(mask, value);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1 && given[lane] == value) bits |= 1u << lane;
    }
    return bits;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
template <class T, class Better>
inline T emulation_reduce(unsigned mask, T value, const Better& better) {
    const auto given = emulation::exchange(mask, value);
    for (int lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1) value = better(value, given[lane]);
    }
    return value;
}
template <class T>
inline T __reduce_max_sync(unsigned mask, T value) {
    return emulation_reduce(mask, value, [](T a, T b) { return std::max(a, b); });
}
template <class T>
inline T __reduce_min_sync(unsigned mask, T value) {
    return emulation_reduce(mask, value, [](T a, T b) { return std::min(a, b); });
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { emulation::yield(); }

// Memory.
template <class T>
inline T __ldg(const T* p) { return *p; }
template <class T>
inline T __ldcs(const T* p) { return *p; }
template <class T>
inline T __ldcg(const T* p) { return *p; }
template <class T>
inline T __ldca(const T* p) { return *p; }
template <class T>
inline void __stcs(T* p, const T& value) { *p = value; }
template <class T>
inline void __stcg(T* p, const T& value) { *p = value; }
template <class T, class U>
inline T atomicAdd(T* p, U value) {
    const T before = *p;
    *p += value;
    return before;
}
inline unsigned atomicInc(unsigned* p, unsigned last) {
    const unsigned before = *p;
    *p = before >= last ? 0 : before + 1;
    return before;
}
template <class T>
inline T atomicMax(T* p, T value) {
    const T before = *p;
    *p = std::max(before, value);
    return before;
}
template <class T>
inline T atomicMin(T* p, T value) {
    const T before = *p;
    *p = std::min(before, value);
    return before;
}
template <class T>
inline T atomicOr(T* p, T value) {
    const T before = *p;
    *p = before | value;
    return before;
}
template <class T>
inline T atomicCAS(T* p, T expected, T value) {
    const T before = *p;
    if (before == expected) *p = value;
    return before;
}
inline std::size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<std::size_t>(p); }

// Bits and numbers.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
template <class To, class From>
inline To emulation_bits(From x) {
    To y;
    static_assert(sizeof x == sizeof y, "as many bits");
    std::memcpy(&y, &x, sizeof y);
    return y;
}
inline unsigned __float_as_uint(float x) { return emulation_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulation_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return emulation_bits<float>(x); }
inline float __int_as_float(int x) { return emulation_bits<float>(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
template <class A, class B>
inline constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
inline constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
