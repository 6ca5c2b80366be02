"""ptx/wgmma*.cuh for operands of 16 bits and TF32, and fence_async.cuh: the layouts in their comments, against NumPy.

They contain wgmma_descriptor, fence_proxy_async, wgmma_fence, wgmma_commit, wgmma_wait and the products
wgmma_m64n128k16_f32_f16, wgmma_m64n128k16_f32_bf16, wgmma_m64n128k8_f32_tf32, wgmma_sp_m64n256k32_f32_f16 and
wgmma_sp_m64n256k32_f32_bf16, and wgmma_rows_descriptor with its products
wgmma_m64n128k16_f32_f16_rows, wgmma_m64n128k16_f32_bf16_rows, wgmma_m64n256k16_f32_f16_rows,
wgmma_m64n256k16_f32_bf16_rows and wgmma_sp_m64n256k32_f32_bf16_rows, and wgmma_columns_64_descriptor with the products
wgmma_m64n64k16_f16_f16_registers, wgmma_m64n128k16_f16_f16_registers, wgmma_m64n128k16_f32_f16_registers,
wgmma_sp_m64n64k32_f16_f16, wgmma_sp_m64n128k32_f16_f16 and wgmma_sp_m64n128k32_f32_f16, and in ptx/wgmma_tf32.cuh
wgmma_columns_32_descriptor with wgmma_m64n64k8_f32_tf32_registers; the model of 2:4 fragments is tested with
ptx/mma_sp.cuh.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from spmm_roofline.formats import two_four

pytestmark = pytest.mark.gpu

THREAD = np.arange(128)
WARP, G, T = THREAD // 32, THREAD % 32 // 4, THREAD % 4

DENSE = """
#include "ptx/wgmma.cuh"
extern "C" __global__ void probe(const uint4* a, const uint4* b, float* d) {
    __shared__ alignas(128) uint4 of_a[128], of_b[256];
    for (int i = threadIdx.x; i < 128; i += 128) of_a[i] = a[i];
    for (int i = threadIdx.x; i < 256; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async();
    __syncthreads();
    float fd[64];
    for (int i = 0; i < 64; ++i) fd[i] = d[64 * threadIdx.x + i];
    ptx::wgmma_fence();
    ptx::PRODUCT(fd, ptx::wgmma_descriptor(of_a, 128, 256), ptx::wgmma_descriptor(of_b, 128, 256));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < 64; ++i) d[64 * threadIdx.x + i] = fd[i];
}
"""

SPARSE = """
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_sp.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* metadata, const uint4* b, float* d) {
    __shared__ alignas(128) uint4 of_b[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async();
    __syncthreads();
    unsigned fa[4];
    for (int i = 0; i < 4; ++i) fa[i] = a[4 * threadIdx.x + i];
    float fd[128];
    for (int i = 0; i < 128; ++i) fd[i] = d[128 * threadIdx.x + i];
    ptx::wgmma_fence();
    ptx::PRODUCT<SELECTOR>(fd, fa, ptx::wgmma_descriptor(of_b, 128, 512), metadata[threadIdx.x]);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < 128; ++i) d[128 * threadIdx.x + i] = fd[i];
}
"""


def core_matrices(rows, dtype=np.float16):
    """Words of an operand [rows, k]: contiguous core matrices of 8 rows of 16 bytes, along k, then along the rows."""
    (r, k), values = rows.shape, 16 // np.dtype(dtype).itemsize
    cores = rows.reshape(r // 8, 8, k // values, values).swapaxes(1, 2)
    return np.ascontiguousarray(cores.astype(dtype)).view(np.uint32).ravel()


def boxes(b, dtype):
    """Words of the rows of B in boxes of 64 columns; unit u of row r of a box lies at position u ^ (r % 8)."""
    k, n = b.shape
    units = b.astype(dtype).reshape(k, n // 64, 8, 8).swapaxes(0, 1)
    row = np.arange(k)[:, None]
    return np.ascontiguousarray(units[:, row, np.arange(8) ^ row % 8]).view(np.uint32).ravel()


def by_thread(d):
    """The elements of a 64×n matrix that each thread holds, [128, n / 2]."""
    columns = range(0, d.shape[1], 8)
    return np.stack(
        [d[16 * WARP + G + 8 * low, j + 2 * T + i] for j in columns for low in range(2) for i in range(2)], axis=1
    )


def sparse_operand(rng, selector, dtype):
    """A 64×32 tile with any two of every four columns occupied, its fragments as words, and its metadata."""
    occupied = np.argsort(rng.random((64, 8, 4)), axis=-1).argsort(axis=-1) < 2
    tile = occupied.reshape(64, 32) * rng.integers(1, 8, (64, 32))
    fragments = np.empty((128, 4, 2), dtype)
    metadata = rng.integers(2**32, size=128, dtype=np.uint32)
    for warp in range(4):
        rows = slice(16 * warp, 16 * warp + 16)
        packed, nibbles = two_four.compress(tile[None, rows].astype(np.float32), occupied.reshape(64, 32)[None, rows])
        (words,) = two_four.metadata_words(nibbles)
        pairs, (g, t) = packed[0].reshape(16, 8, 2), (G[:32], T[:32])
        fragments[32 * warp : 32 * warp + 32] = np.stack(
            [pairs[g + 8 * half, t + 4 * part] for part in range(2) for half in range(2)], axis=1
        )
        for row, part in itertools.product(range(8), range(2)):
            metadata[32 * warp + 4 * row + 2 * selector + part] = words[row, part]
    return tile, fragments.view(np.uint32).ravel(), metadata


@pytest.mark.parametrize(
    ("product", "k", "dtype"),
    [
        ("wgmma_m64n128k16_f32_f16", 16, np.float16),
        ("wgmma_m64n128k16_f32_bf16", 16, ml_dtypes.bfloat16),
        ("wgmma_m64n128k8_f32_tf32", 8, np.float32),
    ],
)
def test_a_dense_product_is_added_to_the_sums(hopper_function, product, k, dtype):
    import cupy

    rng = np.random.default_rng()
    a, b, d = (rng.integers(-8, 8, shape) for shape in ((64, k), (k, 128), (64, 128)))
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    operands = (cupy.asarray(core_matrices(rows, dtype)) for rows in (a, b.T))
    hopper_function(DENSE.replace("PRODUCT", product))((1,), (128,), (*operands, sums))
    assert np.array_equal(sums.get(), by_thread(d + a @ b)), "these integers and their sums are exact"


@pytest.mark.parametrize("selector", [0, 1])
@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_a_sparse_product_is_added_to_the_sums(hopper_function, name, dtype, selector):
    import cupy

    rng = np.random.default_rng()
    tile, bits, metadata = sparse_operand(rng, selector, dtype)
    b, d = rng.integers(-8, 8, (32, 256)), rng.integers(-8, 8, (64, 256))
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    source = SPARSE.replace("PRODUCT", f"wgmma_sp_m64n256k32_f32_{name}").replace("SELECTOR", str(selector))
    function = hopper_function(source)
    arguments = (cupy.asarray(bits), cupy.asarray(metadata), cupy.asarray(core_matrices(b.T, dtype)), sums)
    function((1,), (128,), arguments)
    assert np.array_equal(sums.get(), by_thread(d + tile @ b)), "these integers and their sums are exact"


ROWS = """
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"
#include "ptx/wgmma_sp.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* metadata, const uint4* b, float* d, bool add) {
    __shared__ alignas(1024) uint4 of_b[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async();
    __syncthreads();
    unsigned fa[4];
    for (int i = 0; i < 4; ++i) fa[i] = a[4 * threadIdx.x + i];
    float fd[128];
    for (int i = 0; i < 128; ++i) fd[i] = d[128 * threadIdx.x + i];
    ptx::wgmma_fence();
    ptx::wgmma_sp_m64n256k32_f32_bf16_rows<SELECTOR>(
        fd, fa, ptx::wgmma_rows_descriptor(of_b, 4096), metadata[threadIdx.x], add);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < 128; ++i) d[128 * threadIdx.x + i] = fd[i];
}
"""


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("selector", [0, 1])
def test_a_sparse_product_with_rows_of_b(hopper_function, selector, add):
    import cupy

    rng = np.random.default_rng()
    tile, bits, metadata = sparse_operand(rng, selector, ml_dtypes.bfloat16)
    b, d = rng.integers(-8, 8, (32, 256)), rng.integers(-8, 8, (64, 256))
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    arguments = (cupy.asarray(bits), cupy.asarray(metadata), cupy.asarray(boxes(b, ml_dtypes.bfloat16)), sums)
    hopper_function(ROWS.replace("SELECTOR", str(selector)))((1,), (128,), (*arguments, np.bool_(add)))
    assert np.array_equal(sums.get(), by_thread(add * d + tile @ b)), "these integers and their sums are exact"


DENSE_ROWS = """
#include "ptx/fence_async.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"
extern "C" __global__ void probe(const uint4* a, const uint4* b, float* d, bool add) {
    __shared__ alignas(1024) uint4 of_b[K * N / 8];
    __shared__ alignas(128) uint4 of_a[64 * K / 8];
    for (int i = threadIdx.x; i < 64 * K / 8; i += 128) of_a[i] = a[i];
    for (int i = threadIdx.x; i < K * N / 8; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    float fd[N / 2];
    for (int i = 0; i < N / 2; ++i) fd[i] = d[N / 2 * threadIdx.x + i];
    ptx::wgmma_fence();
    for (int i = 0; i < K / 16; ++i) {
        ptx::PRODUCT(
            fd, ptx::wgmma_descriptor(of_a + 16 * i, 128, 16 * K),
            ptx::wgmma_rows_descriptor(of_b + 128 * i, 128 * K), add || i > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < N / 2; ++i) d[N / 2 * threadIdx.x + i] = fd[i];
}
"""


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("n", [128, 256])
@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_a_dense_product_with_rows_of_b(hopper_function, name, dtype, n, add):
    import cupy

    rng, k = np.random.default_rng(), 32
    a, b, d = (rng.integers(-8, 8, shape) for shape in ((64, k), (k, n), (64, n)))
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    source = DENSE_ROWS.replace("PRODUCT", f"wgmma_m64n{n}k16_f32_{name}_rows")
    source = f"#define K {k}\n#define N {n}\n" + source
    operands = cupy.asarray(core_matrices(a, dtype)), cupy.asarray(boxes(b, dtype))
    hopper_function(source)((1,), (128,), (*operands, sums, np.bool_(add)))
    assert np.array_equal(sums.get(), by_thread(add * d + a @ b)), "these integers and their sums are exact"


COLUMNS = """
#include "ptx/fence_async.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_columns.cuh"
#include "ptx/wgmma_registers.cuh"
#include "ptx/wgmma_sp_columns.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* metadata, const uint4* b, SUM* d) {
    __shared__ alignas(512) uint4 of_b[4 * N];
    for (int i = threadIdx.x; i < 4 * N; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    unsigned fa[2][4];
    for (int i = 0; i < 8; ++i) fa[i / 4][i % 4] = a[8 * threadIdx.x + i];
    constexpr int SUMS = N * sizeof(VALUE) / 8;
    SUM fd[SUMS];
    for (int i = 0; i < SUMS; ++i) fd[i] = d[SUMS * threadIdx.x + i];
    ptx::wgmma_fence();
    PRODUCTS
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < SUMS; ++i) d[SUMS * threadIdx.x + i] = fd[i];
}
"""
#: The two dense products of 32 columns of A, whose right half begins 32 bytes along each column of B; a sparse one.
TWO_DENSE = """
    ptx::PRODUCT(fd, fa[0], ptx::wgmma_columns_64_descriptor(of_b));
    ptx::PRODUCT(fd, fa[1], ptx::wgmma_columns_64_descriptor(reinterpret_cast<const char*>(of_b) + 32));
"""
ONE_SPARSE = "ptx::PRODUCT<SELECTOR>(fd, fa[0], ptx::wgmma_columns_64_descriptor(of_b), metadata[threadIdx.x]);"


def swizzled_columns(b):
    """Words of the columns of B, 32×n, in boxes of 64 bytes a column; unit u of column c lies at u ^ (c / 2 % 4)."""
    units = b.T.astype(np.float16).reshape(-1, 4, 8)
    column = np.arange(len(units))[:, None]
    return np.ascontiguousarray(units[column, np.arange(4) ^ column // 2 % 4]).view(np.uint32).ravel()


def dense_operand(rng):
    """A 64×32 tile, and the registers of both of its halves as words, [128, 8]."""
    tile = rng.integers(-8, 8, (64, 32))
    row, pair = 16 * WARP + G, 2 * T[:, None] + np.arange(2)
    registers = [
        tile[(row + 8 * lower)[:, None], 16 * half + 8 * right + pair]
        for half in range(2)
        for right in range(2)
        for lower in range(2)
    ]
    return tile, np.ascontiguousarray(np.stack(registers, axis=1).astype(np.float16)).view(np.uint32).ravel()


@pytest.mark.parametrize("selector", [None, 0, 1])
@pytest.mark.parametrize(("n", "sums"), [(64, "f16"), (128, "f16"), (128, "f32")])
def test_a_product_of_registers_with_columns_of_b(hopper_function, n, sums, selector):
    import cupy

    rng = np.random.default_rng()
    metadata = np.zeros(128, dtype=np.uint32)
    if selector is None:
        tile, bits = dense_operand(rng)
        products = TWO_DENSE.replace("PRODUCT", f"wgmma_m64n{n}k16_{sums}_f16_registers")
    else:
        tile, words, metadata = sparse_operand(rng, selector, np.float16)
        bits = np.concatenate([words.reshape(128, 4), np.zeros((128, 4), np.uint32)], axis=1).ravel()
        products = ONE_SPARSE.replace("PRODUCT", f"wgmma_sp_m64n{n}k32_{sums}_f16").replace("SELECTOR", str(selector))
    # Integers so small that FP16 adds them exactly.
    b, d = rng.integers(-4, 4, (32, n)), rng.integers(-8, 8, (64, n))
    types = {"f16": ("unsigned", "unsigned short"), "f32": ("float", "float")}[sums]
    source = COLUMNS.replace("PRODUCTS", products).replace("SUMS = N", f"SUMS = {n}").replace("4 * N", str(4 * n))
    source = source.replace("VALUE", types[1]).replace("SUM*", types[0] + "*").replace("SUM fd", types[0] + " fd")
    dtype = {"f16": np.float16, "f32": np.float32}[sums]
    held = cupy.asarray(by_thread(d).astype(dtype))
    arguments = (cupy.asarray(bits), cupy.asarray(metadata), cupy.asarray(swizzled_columns(b)), held)
    hopper_function(source)((1,), (128,), arguments)
    assert np.array_equal(held.get(), by_thread(d + tile @ b).astype(dtype)), "these integers and their sums are exact"


TF32_ROWS = """
#include "ptx/fence_async.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_tf32.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, float* d, bool add) {
    __shared__ alignas(256) unsigned of_b[2 * 64 * 8];
    for (int i = threadIdx.x; i < 2 * 64 * 8; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    float fd[32];
    for (int i = 0; i < 32; ++i) fd[i] = d[32 * threadIdx.x + i];
    unsigned fa[2][4];
    for (int i = 0; i < 8; ++i) fa[i / 4][i % 4] = a[8 * threadIdx.x + i];
    ptx::wgmma_fence();
    for (int i = 0; i < 2; ++i) {
        // Eight columns of one product lie between those of the other.
        ptx::wgmma_m64n64k8_f32_tf32_registers(
            fd, fa[i], ptx::wgmma_columns_32_descriptor(of_b + 64 * i, 512), add || i > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < 32; ++i) d[32 * threadIdx.x + i] = fd[i];
}
"""


@pytest.mark.parametrize("add", [True, False])
def test_a_tf32_product_with_a_in_registers(hopper_function, add):
    import cupy

    rng = np.random.default_rng()
    a, b, d = (rng.integers(-8, 8, shape) for shape in ((64, 16), (16, 64), (64, 64)))
    rows = 16 * WARP + G
    words = np.stack([a[rows + 8 * (i % 2), 8 * k + T + i // 2 * 4] for k in range(2) for i in range(4)], axis=1)
    # The last 13 bits of an operand count for nothing.
    last = np.where(words != 0, rng.integers(0, 2**13, words.shape), 0).astype(np.uint32)
    words = words.astype(np.float32).view(np.uint32) | last
    columns = b.T.astype(np.float32).view(np.uint32).reshape(8, 8, 2, 2, 4)
    halves = np.arange(2) ^ np.arange(8)[:, None] // 4
    # Eight columns, their products of eight rows, then columns, whose halves are swizzled.
    laid = columns.transpose(0, 2, 1, 3, 4)[:, :, np.arange(8)[:, None], halves]
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    hopper_function(TF32_ROWS)((1,), (128,), (cupy.asarray(words), cupy.asarray(laid.ravel()), sums, np.bool_(add)))
    assert np.array_equal(sums.get(), by_thread(add * d + a @ b)), "these integers and their sums are exact"
