#pragma once
// Formats that store entries row by row without row pointers. A row's last entry stores ~column; an empty row has one slot
// of value zero in column 0.

#include "packing/scan.cuh"
#include "packing/search.cuh"

namespace packing {

// Copies every entry to its slot, marks the last one of a row, and fills the slots of empty rows.
template <class Bits>
__device__ inline void scatter_rows(
    const int* indptr, const int* indices, const Bits* values, const int* begins, int m, int slots, int* columns,
    Bits* data) {
    const int slot = thread(), row = segment_of_lane(begins, m, min(slot, slots - 1));
    if (slot >= slots) return;
    const int begin = indptr[row], end = indptr[row + 1];
    const int entry = begin + slot - begins[row];
    const int column = begin < end ? indices[entry] : 0;
    columns[slot] = entry + 1 >= end ? ~column : column;
    data[slot] = begin < end ? values[entry] : Bits(0);
}

}  // namespace packing

// First slot of each row, begins[m + 1]; the last element is the number of slots.
extern "C" __global__ void __launch_bounds__(packing::CTA) count_slots(
    const int* __restrict__ indptr, int m, packing::Count* states, int* __restrict__ begins) {
    using namespace packing;
    const int row = take_ticket(states);
    const Count up_to = scan_grid(row < m ? max(indptr[row + 1] - indptr[row], 1) : 0, row, states);
    if (row == 0) begins[0] = 0;
    if (row < m) begins[row + 1] = low_of(up_to);
}

extern "C" __global__ void scatter_rows_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ begins, int m, int slots, int* __restrict__ columns, unsigned short* __restrict__ data) {
    packing::scatter_rows(indptr, indices, values, begins, m, slots, columns, data);
}

extern "C" __global__ void scatter_rows_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ begins, int m, int slots, int* __restrict__ columns, unsigned* __restrict__ data) {
    packing::scatter_rows(indptr, indices, values, begins, m, slots, columns, data);
}

extern "C" __global__ void scatter_rows_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ begins, int m, int slots, int* __restrict__ columns,
    unsigned long long* __restrict__ data) {
    packing::scatter_rows(indptr, indices, values, begins, m, slots, columns, data);
}
