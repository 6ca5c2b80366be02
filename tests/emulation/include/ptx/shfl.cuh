#pragma once
namespace ptx {

inline float shfl_bfly(float x, int mask) { return __shfl_xor_sync(~0u, x, mask); }

}  // namespace ptx
