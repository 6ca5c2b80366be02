#pragma once
// Barriers that count arrivals and bytes.
namespace ptx {

inline unsigned long long shared_address(const void* shared) { return reinterpret_cast<std::size_t>(shared); }

namespace emulated {

struct Mbarrier {
    signed char phase, count, pending;
    int bytes;
};
static_assert(sizeof(Mbarrier) == sizeof(unsigned long long), "a barrier has 64 bits");

inline Mbarrier& barrier_at(unsigned long long* barrier) { return *reinterpret_cast<Mbarrier*>(barrier); }
inline void count(unsigned long long* barrier, int arrivals, int bytes) {
    Mbarrier& own = barrier_at(barrier);
    own.pending -= arrivals, own.bytes += bytes;
    if (own.pending < 0) emulation::fail("more arrivals at a barrier than it was initialised with");
    if (own.pending == 0 && own.bytes == 0) own.phase ^= 1, own.pending = own.count;
}

}  // namespace emulated

inline void mbarrier_init(unsigned long long* barrier, int count) {
    emulated::barrier_at(barrier) = {0, static_cast<signed char>(count), static_cast<signed char>(count), 0};
}
inline void fence_mbarrier_init() {}
inline void mbarrier_arrive_expect(unsigned long long* barrier, int bytes) { emulated::count(barrier, 1, bytes); }
inline void mbarrier_arrive(unsigned long long* barrier, int) { emulated::count(barrier, 1, 0); }
inline void mbarrier_wait(unsigned long long* barrier, int parity) {
    while (emulated::barrier_at(barrier).phase == parity) emulation::yield();
}

}  // namespace ptx
