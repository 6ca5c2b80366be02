/* The C ABI of an external library: what a shared library exports to be measured and verified as every kernel here.
 *
 *   C = A·B,  A (m×k) sparse,  B (k×n) and C (m×n) dense, row-major without gaps, on the device
 *
 * A library holds one kernel or several, which are measured one by one. For each matrix and width it is asked to `create`
 * a product from A's arrays on the host, to `run` it many times on B and C on the device, and to `destroy` it; a kernel
 * whose product serves every width (`any_n`) creates it once for a matrix. Everything is called from one thread, on the
 * GPU that is device 0 of the process, in the primary context that the CUDA runtime uses by itself.
 *
 *   mkdir -p build
 *   nvcc -O3 -arch=native -shared -Xcompiler -fPIC -I kernels/external -o build/libmine.so mine.cu
 *
 * and `external: [build/libmine.so]` under `kernels` in config/config.yaml. Whatever else it is linked to must be found
 * by the dynamic loader, also on a machine without a GPU, because a run is planned from what the library says of itself.
 *
 * Libraries that were built with version 1 of this header still load. Version 2 added `spmm_peer_count`, the number of a
 * kernel in `about` and `create`, n in `run`, and the last field of the description. A source of version 1 with one
 * kernel takes these arguments, ignores them, and returns 1 as the count.
 */
#ifndef SPMM_PEER_H
#define SPMM_PEER_H

#include <stdint.h>

#define SPMM_PEER_ABI_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* What `create` and `run` return; any other value is a failure, and the row gets the status `launch_failed`. */
enum {
    SPMM_PEER_OK = 0,
    SPMM_PEER_UNSUPPORTED = 1,   /* this matrix or width is not taken: status `unsupported` */
    SPMM_PEER_OUT_OF_MEMORY = 2, /* status `out_of_memory` */
};

/* What a kernel is. Texts are UTF-8 and live as long as the library is loaded; those said to may be NULL. */
typedef struct {
    int32_t abi_version;    /* SPMM_PEER_ABI_VERSION */
    int32_t n_multiple;     /* n is a multiple of this, 1 for any; other widths get the status `unsupported` */
    const char* name;       /* of the kernel, unlike any other: a small letter, then small letters, digits and _. The
                               project's own kernels have the plain names of the papers, so a paper's own code is
                               better called `cutespmm_authors`, for example, than `cutespmm` */
    const char* source;     /* paper, version, address, in a few words; may be NULL */
    const char* dtype;      /* of the factors, A and B: "float16", "bfloat16", "tf32" or "float32"; factors of TF32 are
                               stored as float32, and the kernel may round them */
    const char* dtype_sums; /* in which products are added: "float32", or "float16" if A and B are float16 */
    const char* dtype_c;    /* in which C is stored: "float32", or that of A and B if it has 16 bits; C of a product in
                               TF32 is "float32", never "tf32" */
    const char* unit;       /* that multiplies, for the roofline: "cuda" (cores), "tensor" (cores) or "tensor_sparse24"
                               (their 2:4 sparse products); NULL if not known, then its rows have no compute limit */
    int32_t any_n;          /* not 0: a product multiplies B of every width; `create` is then called once for a matrix,
                               with n = 0, and `run` with each width */
} spmm_peer_description;

/* Number of kernels in the library, at least 1. Needs no GPU. */
int32_t spmm_peer_count(void);

/* What kernel number `kernel` is, from 0 on. Needs no GPU; the description is the same at each call. */
const spmm_peer_description* spmm_peer_about(int32_t kernel);

/* Make a kernel's product of one matrix for width n and store what the library keeps of it in *handle; n is 0 if the
 * kernel takes `any_n`.
 *
 * A comes as canonical CSR on the host: indptr[m + 1], indices[nnz] ascending within a row, values[nnz] in float32,
 * rounded to `dtype`. nnz may be 0. The arrays may be gone when create returns, so that what is needed is copied to the
 * device, in whatever format. Its time, copies included, is part of the column preprocess_ms. A kernel's first product of
 * a process is destroyed and made again unless it took 2 s or more, and the second time counts, which leaves out the time
 * of loading code to the device. What fails leaves nothing to destroy. */
int spmm_peer_create(void** handle, int32_t kernel, int64_t m, int64_t k, int64_t nnz, const int32_t* indptr,
                     const int32_t* indices, const float* values, int64_t n);

/* Enqueue C = A·B for B of n columns on `stream` (a cudaStream_t) and return; n is that of create, unless the kernel
 * takes `any_n`. b and c are device pointers, aligned to 256 bytes.
 *
 * It is captured in a CUDA graph whose replays are timed: it must neither allocate, copy to or from the host, nor
 * synchronize. All work goes to `stream`, or to streams that were forked from it and are joined to it again by events;
 * work elsewhere is not in the graph and makes the result wrong. C holds NaN at first and the last result later: what
 * adds to C clears it here. A wrong result is a row of the status `wrong`; the kernel's other rows count. */
int spmm_peer_run(void* handle, int64_t n, const void* b, void* c, void* stream);

/* Bytes that A takes on the device, in the library's own format. */
int64_t spmm_peer_bytes(const void* handle);

/* Why the last create or run did not return SPMM_PEER_OK, in one sentence; may be NULL. */
const char* spmm_peer_message(void);

/* Free what create made; no work of it is under way any more. */
void spmm_peer_destroy(void* handle);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
