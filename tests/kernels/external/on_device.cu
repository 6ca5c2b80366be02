// A library of the ABI, as an author would write one: a thread sums one element of C.
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
    int64_t m, n, nnz;
    int *indptr, *indices;
    VALUE* values;
};

cudaError_t last;

__global__ void multiply(const int* indptr, const int* indices, const VALUE* values, const VALUE* b, VALUE* c,
                         int64_t m, int64_t n) {
    const int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (at >= m * n) return;
    float sum = 0;
    for (int e = indptr[at / n]; e < indptr[at / n + 1]; e++) sum += float(values[e]) * float(b[indices[e] * n + at % n]);
    c[at] = VALUE(sum);
}

template <typename T>
T* on_device(const T* host, size_t count) {
    T* array = nullptr;
    if (last == cudaSuccess) last = cudaMalloc(&array, count * sizeof(T) + 1);
    if (last == cudaSuccess) last = cudaMemcpy(array, host, count * sizeof(T), cudaMemcpyHostToDevice);
    return array;
}

}  // namespace

const spmm_peer_description* spmm_peer_about() {
    static const spmm_peer_description about{
        SPMM_PEER_ABI_VERSION, 1, NAME, "a library of the tests", DTYPE, "float32", DTYPE, "cuda"};
    return &about;
}

void spmm_peer_destroy(void* handle) {
    auto* p = static_cast<Product*>(handle);
    cudaFree(p->indptr), cudaFree(p->indices), cudaFree(p->values);
    delete p;
}

int spmm_peer_create(void** handle, int64_t m, int64_t, int64_t nnz, const int32_t* indptr, const int32_t* indices,
                     const float* values, int64_t n) {
    last = cudaSuccess;
    const std::vector<VALUE> rounded(values, values + nnz);
    auto* p = new Product{m, n, nnz};
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

int spmm_peer_run(void* handle, const void* b, void* c, void* stream) {
    const auto* p = static_cast<Product*>(handle);
#ifdef IGNORES_STREAM
    stream = nullptr;
#endif
    const unsigned blocks = (p->m * p->n + 255) / 256;
    multiply<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(
        p->indptr, p->indices, p->values, static_cast<const VALUE*>(b), static_cast<VALUE*>(c), p->m, p->n);
    last = cudaGetLastError();
    return last == cudaSuccess ? SPMM_PEER_OK : int(last) + 2;
}

int64_t spmm_peer_bytes(const void* handle) {
    const auto* p = static_cast<const Product*>(handle);
    return (p->m + 1) * sizeof(int) + p->nnz * (sizeof(int) + sizeof(VALUE));
}

const char* spmm_peer_message() { return cudaGetErrorString(last); }
