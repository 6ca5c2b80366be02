#pragma once
// Copies from global to shared memory that the thread does not wait for.

#include "ptx/cp_async.cuh"

namespace tile {

struct Asynchronous {
    __device__ __forceinline__ static void copy_16(void* shared, const void* global) { ptx::cp_async_16(shared, global); }
};

}  // namespace tile
