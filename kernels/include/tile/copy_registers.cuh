#pragma once
// Copies from global to shared memory that pass through registers: the thread waits for its bytes before it stores
// them.

namespace tile {

struct ThroughRegisters {
    __device__ __forceinline__ static void copy_16(void* shared, const void* global) {
        *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
    }
};

}  // namespace tile
