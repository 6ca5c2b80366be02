/* A library that was built with version 1 of the ABI: one kernel, and a product for each width. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct {
    int32_t abi_version, n_multiple;
    const char *name, *source, *dtype, *dtype_sums, *dtype_c, *unit;
} description;

typedef struct {
    int64_t m, n;
    int32_t *indptr, *indices;
    float* values;
} product;

EXPORTED const description* spmm_peer_about(void) {
    static const description about = {1, 1, "peer_of_version_1", NULL, "float32", "float32", "float32", NULL};
    return &about;
}

static void* copy(const void* from, size_t bytes) { return memcpy(malloc(bytes + 1), from, bytes); }

EXPORTED int spmm_peer_create(void** handle, int64_t m, int64_t k, int64_t nnz, const int32_t* indptr,
                              const int32_t* indices, const float* values, int64_t n) {
    product* p = *handle = malloc(sizeof *p);
    p->m = m, p->n = n;
    p->indptr = copy(indptr, (m + 1) * sizeof *indptr);
    p->indices = copy(indices, nnz * sizeof *indices);
    p->values = copy(values, nnz * sizeof *values);
    return 0;
}

EXPORTED int spmm_peer_run(void* handle, const void* b, void* c, void* stream) {
    const product* p = handle;
    float* out = memset(c, 0, p->m * p->n * sizeof *out);
    for (int64_t i = 0; i < p->m; i++)
        for (int32_t e = p->indptr[i]; e < p->indptr[i + 1]; e++)
            for (int64_t j = 0; j < p->n; j++)
                out[i * p->n + j] += p->values[e] * ((const float*)b)[p->indices[e] * p->n + j];
    return 0;
}

EXPORTED int64_t spmm_peer_bytes(const void* handle) { return ((const product*)handle)->m; }

EXPORTED const char* spmm_peer_message(void) { return NULL; }

EXPORTED void spmm_peer_destroy(void* handle) {
    product* p = handle;
    free(p->indptr), free(p->indices), free(p->values), free(p);
}
