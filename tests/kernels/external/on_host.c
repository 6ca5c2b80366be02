/* A library of the ABI without a GPU: "device pointers" are the host's own. The widths 961 to 963 are refused.
 *
 * With KERNELS=2 it has a second kernel, SECOND, that makes one product for every width. */
#include "spmm_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ABI
#define ABI SPMM_PEER_ABI_VERSION
#endif
#ifndef NAME
#define NAME "peer_on_host"
#endif
#ifndef DTYPE
#define DTYPE "float32"
#endif
#ifndef DTYPE_C
#define DTYPE_C "float32"
#endif
#ifndef KERNELS
#define KERNELS 1
#endif
#ifndef SECOND
#define SECOND "peer_of_every_width"
#endif
#ifndef N_MULTIPLE
#define N_MULTIPLE 1
#endif
#ifndef UNIT
#define UNIT "cuda"
#endif
#ifndef FACTOR
#define FACTOR 1.0f
#endif

typedef struct {
    int64_t m, k, nnz, n;
    int32_t *indptr, *indices;
    float* values;
} product;

static char message[200];
static int alive, created;

__attribute__((visibility("default"))) int on_host_alive(void) { return alive; }
__attribute__((visibility("default"))) int on_host_created(void) { return created; }

#define COMMON                                                                                             \
    .abi_version = ABI, .n_multiple = N_MULTIPLE, .source = "a library of the tests", .dtype = DTYPE,      \
    .dtype_sums = "float32", .dtype_c = DTYPE_C, .unit = UNIT

#ifdef AT_LOAD
__attribute__((constructor)) static void at_load(void) { AT_LOAD; }
#endif

#ifndef WITHOUT_COUNT
int32_t spmm_peer_count(void) { return KERNELS; }
#endif

const spmm_peer_description* spmm_peer_about(int32_t kernel) {
    static const spmm_peer_description about[] = {
        {COMMON, .name = NAME},
        {COMMON, .name = SECOND, .any_n = 1},
    };
    return kernel < 2 ? &about[kernel] : NULL;
}

static void* copy(const void* from, size_t bytes) {
    void* to = malloc(bytes + 1);
    memcpy(to, from, bytes);
    return to;
}

int spmm_peer_create(void** handle, int32_t kernel, int64_t m, int64_t k, int64_t nnz, const int32_t* indptr,
                     const int32_t* indices, const float* values, int64_t n) {
    if ((kernel == 1) != (n == 0)) return 701;
    if (n >= 961 && n <= 963) {
        snprintf(message, sizeof message, "there is nothing for n = %d", (int)n);
        return n == 961 ? SPMM_PEER_UNSUPPORTED : n == 962 ? SPMM_PEER_OUT_OF_MEMORY : 700;
    }
    product* p = malloc(sizeof *p);
    p->m = m, p->k = k, p->nnz = nnz, p->n = n;
    p->indptr = copy(indptr, (m + 1) * sizeof *indptr);
    p->indices = copy(indices, nnz * sizeof *indices);
    p->values = copy(values, nnz * sizeof *values);
    alive++, created++;
    *handle = p;
    return SPMM_PEER_OK;
}

#ifndef WITHOUT_RUN
int spmm_peer_run(void* handle, int64_t n, const void* b, void* c, void* stream) {
    const product* p = handle;
    if (p->n && p->n != n) return 702;
    if (stream) {
        message[0] = '\0';
        return 1000;
    }
    float* out = c;
    memset(c, 0, p->m * n * sizeof *out);
    for (int64_t i = 0; i < p->m; i++)
        for (int32_t e = p->indptr[i]; e < p->indptr[i + 1]; e++)
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] += FACTOR * p->values[e] * ((const float*)b)[p->indices[e] * n + j];
    return SPMM_PEER_OK;
}
#endif

int64_t spmm_peer_bytes(const void* handle) {
    const product* p = handle;
    return (p->m + 1) * 4 + p->nnz * 8;
}

const char* spmm_peer_message(void) { return message[0] ? message : NULL; }

void spmm_peer_destroy(void* handle) {
    product* p = handle;
    free(p->indptr), free(p->indices), free(p->values), free(p);
    alive--;
}
