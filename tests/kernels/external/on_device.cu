// A library of the ABI, as an author would write one. It holds two kernels: a thread sums one element of C, in single
// precision or in that of the values. Neither depends on the width of B, so a product is made once for a matrix.
#include "spmm_peer.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <vector>

#ifndef NAME
#define NAME "peer_on_device"
#endif
#ifndef VALUE
#define VALUE float
#define DTYPE "float32"
#endif

namespace {

struct Product {
    bool narrow;
    int64_t m, nnz;
    int *indptr, *indices;
    VALUE* values;
};

cudaError_t last;

template <typename Sum>
__global__ void multiply(const int* indptr, const int* indices, const VALUE* values, const VALUE* b, VALUE* c,
                         int64_t m, int64_t n) {
    const int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (at >= m * n) return;
    Sum sum = 0.0f;
    for (int e = indptr[at / n]; e < indptr[at / n + 1]; e++) {
        sum = Sum(float(sum) + float(values[e]) * float(b[indices[e] * n + at % n]));
    }
    c[at] = VALUE(float(sum));
}

template <typename T>
T* on_device(const T* host, size_t count) {
    T* array = nullptr;
    if (last == cudaSuccess) last = cudaMalloc(&array, count * sizeof(T) + 1);
    if (last == cudaSuccess) last = cudaMemcpy(array, host, count * sizeof(T), cudaMemcpyHostToDevice);
    return array;
}

}  // namespace

#ifdef NARROW
int32_t spmm_peer_count() { return 2; }
#else
int32_t spmm_peer_count() { return 1; }
#endif

const spmm_peer_description* spmm_peer_about(int32_t kernel) {
    static const spmm_peer_description about[]{
        {SPMM_PEER_ABI_VERSION, 1, NAME, "a library of the tests", DTYPE, "float32", DTYPE, "cuda", 1},
        {SPMM_PEER_ABI_VERSION, 1, NAME "_narrow", "a library of the tests", DTYPE, DTYPE, DTYPE, "cuda", 1}};
    return &about[kernel];
}

void spmm_peer_destroy(void* handle) {
    auto* p = static_cast<Product*>(handle);
    cudaFree(p->indptr), cudaFree(p->indices), cudaFree(p->values);
    delete p;
}

int spmm_peer_create(void** handle, int32_t kernel, int64_t m, int64_t, int64_t nnz, const int32_t* indptr,
                     const int32_t* indices, const float* values, int64_t) {
    last = cudaSuccess;
    const std::vector<VALUE> rounded(values, values + nnz);
    auto* p = new Product{kernel == 1, m, nnz};
    p->indptr = on_device(indptr, m + 1);
    p->indices = on_device(indices, nnz);
    p->values = on_device(rounded.data(), nnz);
    if (last == cudaSuccess) {
        *handle = p;
        return SPMM_PEER_OK;
    }
    spmm_peer_destroy(p);
    return last == cudaErrorMemoryAllocation ? SPMM_PEER_OUT_OF_MEMORY : int(last) + 2;
}

int spmm_peer_run(void* handle, int64_t n, const void* b, void* c, void* stream) {
    const auto* p = static_cast<Product*>(handle);
#ifdef IGNORES_STREAM
    stream = nullptr;
#endif
    const unsigned blocks = (p->m * n + 255) / 256;
    const auto kernel = p->narrow ? multiply<VALUE> : multiply<float>;
    kernel<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(
        p->indptr, p->indices, p->values, static_cast<const VALUE*>(b), static_cast<VALUE*>(c), p->m, n);
    last = cudaGetLastError();
    return last == cudaSuccess ? SPMM_PEER_OK : int(last) + 2;
}

int64_t spmm_peer_bytes(const void* handle) {
    const auto* p = static_cast<const Product*>(handle);
    return (p->m + 1) * sizeof(int) + p->nnz * (sizeof(int) + sizeof(VALUE));
}

const char* spmm_peer_message() { return cudaGetErrorString(last); }
