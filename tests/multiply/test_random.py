"""Products of random matrices, by random kernels, of operands that lie anywhere in poisoned memory."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.kernels import heads
from spmm_roofline.kernels.choose import GENERAL
from tests.multiply.operands import TOLERANCE, as_stored, check, dense, general_kernels, nan, vector

pytestmark = pytest.mark.usefixtures("device")

SIZES = {"gpu": [1, 2, 7, 8, 9, 16, 31, 64, 65, 129, 300, 777, 2500], "emulated": [1, 2, 8, 9, 16, 33, 65]}
WIDTHS = {
    "gpu": [1, 2, 3, 4, 7, 8, 12, 16, 31, 33, 41, 64, 96, 100, 128, 200, 256, 300, 512],
    "emulated": [1, 4, 8, 9, 41],
}
#: Matrices that a run draws, each from a seed of its own.
SEEDS = {"gpu": 60, "emulated": 12}


def matrix(rng, sizes):
    """A random matrix whose entries are scattered, in rows of all lengths, in a band, in blocks, or hardly there."""
    m, k = rng.choice(sizes, 2)
    kind = rng.choice(["scattered", "uneven", "band", "blocks", "few"])
    rows, columns = np.arange(m)[:, None], np.arange(k)
    if kind == "scattered":
        pattern = rng.random((m, k)) < 10 ** rng.uniform(-3, -0.3)
    elif kind == "uneven":
        pattern = rng.random((m, k)) < rng.choice([0, 0.01, 0.1, 0.9], (m, 1), p=[0.3, 0.4, 0.2, 0.1])
    elif kind == "band":
        pattern = abs(rows * k // m - columns) <= rng.integers(30)
    elif kind == "blocks":
        whole = rng.random((-(-m // 16), -(-k // 16))) < 0.2
        pattern = np.kron(whole, np.ones((16, 16), bool))[:m, :k] & (rng.random((m, k)) < 0.7)
    else:
        pattern = rng.random((m, k)) < 2 / (m * k)
    return csr_array(pattern * (rng.random((m, k)) - 0.5))


def placed(rng, rows, columns, dtype):
    """A random matrix as a part of an array of NaN: the part, the array, and its values as float64 on the host."""
    import cupy

    values, exact = dense(rows, columns, dtype, int(rng.integers(1 << 30)))
    unit = 16 // values.dtype.itemsize
    places = {
        "next to each other": ((rows + 1, columns), np.s_[:rows]),
        "padded": ((rows, -(-columns // unit) * unit + unit * int(rng.integers(3))), np.s_[:, :columns]),
        "longer": ((rows, columns + int(rng.integers(1, 9))), np.s_[:, :columns]),
        "shifted": ((rows, columns + 9), np.s_[:, 3 : 3 + columns]),
        "every second row": ((2 * rows, columns), np.s_[::2]),
        "every second column": ((rows, 2 * columns), np.s_[:, ::2]),
        "turned": ((columns, rows + 1), np.s_[:, :rows]),
    }
    place = rng.choice(list(places))
    shape, part = places[place]
    whole = cupy.empty(shape, values.dtype)
    whole[...] = nan(dtype)
    own = whole[part].T if place == "turned" else whole[part]
    own[...] = values
    return own, whole, exact


def beside(own, whole):
    """The bits of an array on the host, with zeros for those of the part ``own``."""
    kept = own.copy()
    own[...] = 0
    bits = whole.get().view(f"u{whole.dtype.itemsize}")
    own[...] = kept
    return bits


def drawn(seed, device):
    """Make one matrix, and some products with it."""
    from spmm_roofline import SpMM

    rng = np.random.default_rng(seed)
    a, dtype = matrix(rng, SIZES[device]), str(rng.choice(list(TOLERANCE)))
    takers = [head for head in general_kernels() if head.dtype["a"] == dtype]
    if device == "gpu":
        takers += [head for head in heads().values() if head.study == "scalar" and head.dtype["a"] == dtype]
        takers = [head for head in takers if set(head.layout.values()) == {"row_major"}]
    head = rng.choice(takers) if rng.random() < 0.6 else None
    options = {} if head is None else {"kernel": head.name}
    options |= {"tune": True} if device == "gpu" and head is None and rng.random() < 0.1 else {}
    can_reorder = head is None or (head.study == GENERAL and head.takes_reordered)
    options |= {"reorder": "rows"} if can_reorder and rng.random() < 0.2 else {}
    multiply = SpMM(a, dtype, **options)
    own = csr_array((as_stored(a.data, dtype), a.indices, a.indptr), shape=a.shape)
    scales = head is None or head.takes_factors
    for _ in range(3):
        n = int(rng.choice(WIDTHS[device]))
        product, of = (multiply.T, own.T.tocsr()) if can_reorder and rng.random() < 0.3 else (multiply, own)
        b, _, exact = placed(rng, of.shape[1], n, dtype)
        out, whole, before = placed(rng, of.shape[0], n, dtype)
        was = beside(out, whole)
        alpha, beta = (float(rng.choice([1.0, -0.5])), float(rng.choice([0.0, 2.0]))) if scales else (1.0, 0.0)
        bias, added = vector(n, dtype, int(rng.integers(1 << 30))) if scales and rng.random() < 0.3 else (None, 0.0)
        if beta == 0:
            out[...] = nan(dtype)
        product(b, out=out, alpha=alpha, beta=beta, bias=bias)
        check(out, of, exact, dtype, alpha, (beta * before if beta else 0.0, added))
        assert np.array_equal(beside(out, whole), was), "something was written beside C"
        check(product(b), of, exact, dtype)


def test_random_products_agree_with_float64_and_write_nothing_beside_c(device):
    first = int(np.random.default_rng().integers(1 << 30)) if device == "gpu" else 0
    for seed in range(first, first + SEEDS[device]):
        try:
            drawn(seed, device)
        except Exception as error:
            raise AssertionError(f"drawn({seed}, {device!r}): {error}") from error
