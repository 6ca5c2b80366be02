#pragma once
// Store of the sums of a packet (tile/packet.cuh, tile/packet_16.cuh) in a row of C, as in tile/store.cuh.

#include "tile/store.cuh"

namespace tile {

template <class P, bool FACTORS>
__device__ __forceinline__ void store_packet(
    typename P::Stored* c, const typename P::Number (&sums)[P::WIDTH], typename P::Number alpha,
    typename P::Number beta, const Epilogue& epilogue, int column) {
    if constexpr (P::WIDTH == 4) {
        const float4 four = make_float4(sums[0], sums[1], sums[2], sums[3]);
        store<FACTORS>(reinterpret_cast<float4*>(c), four, alpha, beta, epilogue, column);
    } else if constexpr (P::WIDTH == 2) {
        store<FACTORS>(reinterpret_cast<double2*>(c), {sums[0], sums[1]}, alpha, beta, epilogue, column);
    } else {
        store<typename P::Values, FACTORS>(reinterpret_cast<uint4*>(c), sums, alpha, beta, epilogue, column);
    }
}

}  // namespace tile
