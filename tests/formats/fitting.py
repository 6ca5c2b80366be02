"""Matrices for tests of formats: reduced to what a format can hold, and skewed ones."""

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline.formats.arrays import row_of_entry
from spmm_roofline.formats.banked_8x32 import MOST_COLUMNS


def two_in_four(a):
    """``a`` with two non-zeros kept in each group of four."""
    rows = row_of_entry(a.indptr, a.nnz)
    group = rows * (a.shape[1] // 4 + 1) + a.indices // 4
    kept = np.ones(a.nnz, bool)
    kept[2:] = group[2:] != group[:-2]
    indptr = np.append(0, np.cumsum(np.bincount(rows[kept], minlength=a.shape[0])))
    return csr_array((a.data[kept], a.indices[kept], indptr.astype(np.int32)), shape=a.shape)


def scaled_identity(a):
    """The identity with the same number of rows, times the first value of ``a`` if it has one."""
    m = a.shape[0]
    value = a.data[0] if a.nnz and a.data[0] else 1.0
    return csr_array((np.full(m, value), np.arange(m, dtype=np.int32), np.arange(m + 1, dtype=np.int32)), shape=(m, m))


FITTING = {
    "sparse24": two_in_four,
    "sparse24_fragments": two_in_four,
    "scaled_identity": scaled_identity,
    "banked_8x32": lambda a: a[:, :MOST_COLUMNS],
}


def fitting(name, a):
    """``a``, reduced to a structure that the format ``name`` can hold."""
    return FITTING[name](a) if name in FITTING else a


@st.composite
def skewed(draw):
    """Up to 300 rows of lengths of every size, many of them empty, up to 4000 columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, k = draw(st.integers(1, 300)), draw(st.integers(1, 4000))
    lengths = np.minimum(rng.pareto(draw(st.floats(0.3, 3)), m) * draw(st.floats(0, 20)), k).astype(np.int64)
    indptr = np.append(0, np.cumsum(lengths))
    indices = np.concatenate([np.sort(rng.choice(k, length, replace=False)) for length in lengths])
    return csr_array((rng.random(indptr[-1]) + 0.5, indices, indptr), shape=(m, k))
