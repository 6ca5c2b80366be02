#pragma once
// A walk round the stages of a ring in shared memory. Needs TILE_STAGES.

namespace tile {

// The stage and the parity of a barrier's phase, counted over all that went through the ring.
struct Turn {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++stage == TILE_STAGES) stage = 0, parity ^= 1;
    }
};

}  // namespace tile
