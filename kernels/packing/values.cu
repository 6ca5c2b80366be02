/*---
name: values
study: packing
source: "this project"
idea: every entry of A knows its slot in the packed values
min_arch: sm_80
features: []
deviations: []
---*/
// Replaces the values of a packed matrix whose structure stays.
#include "packing/search.cuh"

namespace {

template <class Bits>
__device__ void replace(const Bits* values, const int* slots, int entries, Bits* data) {
    const int entry = packing::thread();
    if (entry < entries) data[slots[entry]] = values[entry];
}

}  // namespace

// slots[number - 1] = the slot that holds this number; a slot with 0 is empty.
extern "C" __global__ void slots_of_numbers(const double* __restrict__ numbers, int count, int* __restrict__ slots) {
    const int slot = packing::thread();
    if (slot < count && numbers[slot] > 0.0) slots[static_cast<int>(numbers[slot]) - 1] = slot;
}

extern "C" __global__ void replace_16(
    const unsigned short* __restrict__ values, const int* __restrict__ slots, int entries,
    unsigned short* __restrict__ data) {
    replace(values, slots, entries, data);
}

extern "C" __global__ void replace_32(
    const unsigned* __restrict__ values, const int* __restrict__ slots, int entries, unsigned* __restrict__ data) {
    replace(values, slots, entries, data);
}

extern "C" __global__ void replace_64(
    const unsigned long long* __restrict__ values, const int* __restrict__ slots, int entries,
    unsigned long long* __restrict__ data) {
    replace(values, slots, entries, data);
}
