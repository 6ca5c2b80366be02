/*---
name: check
study: checking
source: "this project"
idea: compares an output with its float64 reference in one pass, and shows whether other memory kept its bits
min_arch: sm_80
features: []
deviations: []
---*/
// What the measure stage asks of the device when it verifies a call (measure/checker.py).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

constexpr int WARP = 32;

__device__ double widened(double value) { return value; }
__device__ double widened(float value) { return value; }
__device__ double widened(__half value) { return __half2float(value); }
__device__ double widened(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename Value>
__device__ Value sum_of_warp(Value value) {
    for (int lane = WARP / 2; lane > 0; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
    return value;
}

// squares[row] += Σ (C - wanted)² over a row; a NaN in C makes it NaN. Element (row, column) of C lies at
// c[row * down + column * right]; `wanted` is m×n in row-major order. A warp takes every `warps`-th row.
template <typename Value>
__device__ void add_squares(
    const Value* c, long long down, long long right, const double* wanted, int m, int n, double* squares) {
    const int lane = threadIdx.x % WARP, warps = gridDim.x * (blockDim.x / WARP);
    for (long long row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP; row < m; row += warps) {
        double sum = 0;
        for (int column = lane; column < n; column += WARP) {
            const double off = widened(c[row * down + column * right]) - wanted[row * n + column];
            sum += off * off;
        }
        sum = sum_of_warp(sum);
        if (lane == 0) squares[row] += sum;
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) squares_float16(
    const __half* c, long long down, long long right, const double* wanted, int m, int n, double* squares) {
    add_squares(c, down, right, wanted, m, n, squares);
}

extern "C" __global__ void __launch_bounds__(256) squares_bfloat16(
    const __nv_bfloat16* c, long long down, long long right, const double* wanted, int m, int n, double* squares) {
    add_squares(c, down, right, wanted, m, n, squares);
}

extern "C" __global__ void __launch_bounds__(256) squares_float32(
    const float* c, long long down, long long right, const double* wanted, int m, int n, double* squares) {
    add_squares(c, down, right, wanted, m, n, squares);
}

extern "C" __global__ void __launch_bounds__(256) squares_float64(
    const double* c, long long down, long long right, const double* wanted, int m, int n, double* squares) {
    add_squares(c, down, right, wanted, m, n, squares);
}

// sums[i] += a sum over the counts[i] bytes at addresses[i] that almost every change of them changes: each word is mixed
// with its position by the finalizer of MurmurHash3. `ctas` CTAs share an array.
extern "C" __global__ void __launch_bounds__(256) digest(
    const unsigned long long* addresses, const unsigned long long* counts, unsigned long long* sums, int ctas) {
    const auto mixed = [](unsigned long long word, unsigned long long position) {
        word += 0x9E3779B97F4A7C15ull * (position + 1);
        word = (word ^ (word >> 33)) * 0xFF51AFD7ED558CCDull;
        word = (word ^ (word >> 33)) * 0xC4CEB9FE1A85EC53ull;
        return word ^ (word >> 33);
    };
    const int array = blockIdx.x / ctas;
    const unsigned long long address = addresses[array], count = counts[array];
    const auto* bytes = reinterpret_cast<const unsigned char*>(address);
    const auto* words = reinterpret_cast<const unsigned long long*>(address);
    // A slice of an array may begin anywhere.
    const unsigned long long whole = address % 8 ? 0 : count / 8;
    const unsigned long long threads = static_cast<unsigned long long>(ctas) * blockDim.x;
    const unsigned long long thread = static_cast<unsigned long long>(blockIdx.x % ctas) * blockDim.x + threadIdx.x;
    unsigned long long own = 0;
#pragma unroll 4
    for (unsigned long long i = thread; i < whole; i += threads) own += mixed(words[i], i);
    for (unsigned long long i = whole * 8 + thread; i < count; i += threads) own += mixed(bytes[i], i);
    own = sum_of_warp(own);
    if (threadIdx.x % WARP == 0 && own) atomicAdd(&sums[array], own);
}
