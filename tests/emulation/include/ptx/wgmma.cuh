#pragma once
// Products of a warpgroup are computed warp by warp, at once.
namespace ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() {}
// All lanes have read their operands.
template <int pending>
inline void wgmma_wait() {
    __syncwarp();
}

}  // namespace ptx
