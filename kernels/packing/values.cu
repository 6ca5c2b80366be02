/*---
name: values
study: packing
source: "this project"
idea: every entry of A knows its slot in the packed values, which are read, rounded and stored in one pass
min_arch: sm_80
constants: {dtype: F32}
features: []
variants:
  f16:
    idea: packed values in FP16
    after: values
    constants: {dtype: F16}
  bf16:
    idea: packed values in BF16
    after: values
    constants: {dtype: Bf16}
  tf32:
    idea: packed values in TF32
    after: values
    constants: {dtype: Tf32}
  f64:
    idea: packed values in FP64
    after: values
    constants: {dtype: F64}
deviations: []
---*/
// Replaces the values of a packed matrix whose structure stays.
#include "packing/search.cuh"
#include "tile/values_16.cuh"

namespace {

using tile::Bf16;
using tile::F16;
struct F32 {};
struct Tf32 {};
struct F64 {};

// How values of a dtype are stored, and rounded to it: as formats/values.py does.
template <class Dtype>
struct Rounded {
    using Type = unsigned short;
    static __device__ Type of(float value) { return static_cast<unsigned short>(Dtype::pack(value, 0.0f)); }
};
template <>
struct Rounded<F32> {
    using Type = float;
    static __device__ Type of(float value) { return value; }
};
template <>
struct Rounded<Tf32> {
    using Type = float;
    static __device__ Type of(float value) {
        const unsigned bits = (__float_as_uint(value) + 0x1000) & 0xFFFFE000;
        return value == value ? __uint_as_float(bits) : value;
    }
};
template <>
struct Rounded<F64> {
    using Type = double;
    static __device__ Type of(double value) { return value; }
};

using Stored = Rounded<DTYPE>::Type;

// data[slot of entry e] = values[e]; without `slots`, e is the slot.
template <class Value, class Read>
__device__ void replace(const Value* values, const int* slots, int entries, Stored* data, const Read& read) {
    const int entry = packing::thread();
    if (entry < entries) data[slots == nullptr ? entry : slots[entry]] = Rounded<DTYPE>::of(read(values[entry]));
}

}  // namespace

// slots[number - 1] = the slot that holds this number; a slot with 0 is empty.
extern "C" __global__ void slots_of_numbers(const double* __restrict__ numbers, int count, int* __restrict__ slots) {
    const int slot = packing::thread();
    if (slot < count && numbers[slot] > 0.0) slots[static_cast<int>(numbers[slot]) - 1] = slot;
}

extern "C" __global__ void replace_float16(
    const unsigned short* __restrict__ values, const int* __restrict__ slots, int entries, Stored* __restrict__ data) {
    replace(values, slots, entries, data, [](unsigned short value) { return F16::unpack(value).x; });
}

extern "C" __global__ void replace_bfloat16(
    const unsigned short* __restrict__ values, const int* __restrict__ slots, int entries, Stored* __restrict__ data) {
    replace(values, slots, entries, data, [](unsigned short value) { return Bf16::unpack(value).x; });
}

extern "C" __global__ void replace_float32(
    const float* __restrict__ values, const int* __restrict__ slots, int entries, Stored* __restrict__ data) {
    replace(values, slots, entries, data, [](float value) { return value; });
}

extern "C" __global__ void replace_float64(
    const double* __restrict__ values, const int* __restrict__ slots, int entries, Stored* __restrict__ data) {
    replace(values, slots, entries, data, [](double value) { return value; });
}
