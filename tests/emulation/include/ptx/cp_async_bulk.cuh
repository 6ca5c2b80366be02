#pragma once
#include "ptx/mbarrier.cuh"
namespace ptx {

inline void cp_async_bulk(void* shared, const void* global, int bytes, unsigned long long* barrier) {
    const auto aligned = [](std::size_t number) { return number % 16 == 0; };
    if (!aligned(reinterpret_cast<std::size_t>(shared)) || !aligned(reinterpret_cast<std::size_t>(global)) || !aligned(bytes)) {
        emulation::fail("an address or the size of cp.async.bulk is no multiple of 16");
    }
    std::memcpy(shared, global, bytes);
    emulated::count(barrier, 0, -bytes);
}

}  // namespace ptx
