/*---
name: banked
study: packing
source: this project
idea: a warp counts the entries of a row in each group of banks, which gives the slot of each
min_arch: sm_80
features: []
deviations: []
---*/
// Packs a CSR in device memory in rounds that read different banks (formats/banked_8x32.py).

namespace {

// Deals the entries of a row to slots, one warp a row. The entry that is number `turn` of its group of banks follows all
// entries of earlier turns, and those of the same turn in groups before its own.
template <class Bits>
__device__ __forceinline__ void deal(
    const int* indptr, const int* indices, const Bits* values, const int* panel_ptr, int m, unsigned short* columns,
    Bits* data) {
    constexpr int PANEL = 8, SLOTS = 32, ROUND = 8, BANKS = 8;
    const int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= m) return;
    const int begin = indptr[row], end = indptr[row + 1], first_step = panel_ptr[row / PANEL], g = row % PANEL;
    // The bank of this lane's entry, or -1, and for each group of banks the lanes with an entry in it.
    unsigned lanes[BANKS];
    const auto look = [&](int at) {
        const int bank = at + lane < end ? indices[at + lane] % BANKS : -1;
#pragma unroll
        for (int i = 0; i < BANKS; ++i) lanes[i] = __ballot_sync(~0u, bank == i);
        return bank;
    };
    int counts[BANKS] = {}, before[BANKS] = {};
    for (int at = begin; at < end; at += 32) {
        look(at);
#pragma unroll
        for (int i = 0; i < BANKS; ++i) counts[i] += __popc(lanes[i]);
    }
    for (int at = begin; at < end; at += 32) {
        const int bank = look(at);
        int turn = 0, slot = 0;
#pragma unroll
        for (int i = 0; i < BANKS; ++i) {
            if (bank == i) turn = before[i] + __popc(lanes[i] & ((1u << lane) - 1));
            before[i] += __popc(lanes[i]);
        }
        if (bank < 0) continue;
#pragma unroll
        for (int i = 0; i < BANKS; ++i) slot += min(counts[i], turn) + (i < bank && counts[i] > turn);
        const int step = first_step + slot / SLOTS, round = slot % SLOTS / ROUND, of_round = slot % ROUND;
        columns[(step * SLOTS + slot % SLOTS) * PANEL + g] = static_cast<unsigned short>(indices[at + lane]);
        data[(step * PANEL + g) * SLOTS + 8 * (of_round / 2) + 2 * round + of_round % 2] = values[at + lane];
    }
}

}  // namespace

extern "C" __global__ void deal_to_banks_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ panel_ptr, int m, unsigned short* __restrict__ columns, unsigned short* __restrict__ data) {
    deal(indptr, indices, values, panel_ptr, m, columns, data);
}

extern "C" __global__ void deal_to_banks_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ panel_ptr, int m, unsigned short* __restrict__ columns, unsigned* __restrict__ data) {
    deal(indptr, indices, values, panel_ptr, m, columns, data);
}

extern "C" __global__ void deal_to_banks_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ panel_ptr, int m, unsigned short* __restrict__ columns, unsigned long long* __restrict__ data) {
    deal(indptr, indices, values, panel_ptr, m, columns, data);
}
