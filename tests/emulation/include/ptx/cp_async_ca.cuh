#pragma once
#include "ptx/cp_async.cuh"
namespace ptx {

inline void cp_async_16_cached(void* shared, const void* global) { emulated_copy(shared, global, 16); }
inline void cp_async_8_cached(void* shared, const void* global) { emulated_copy(shared, global, 8); }
inline void cp_async_4_cached(void* shared, const void* global) { emulated_copy(shared, global, 4); }

}  // namespace ptx
