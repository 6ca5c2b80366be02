"""Kernels whose lane groups stage entries of A (tile/staged_row.cuh, rolling_row.cuh), on the host: ragged rows."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.launch import prepare
from spmm_roofline.kernels.operands import Dense
from tests import emulation

TOLERANCE = {"float16": 2e-3, "float32": 2e-6}


def uneven():
    """Empty rows, short ones that begin at every alignment, and rows around the sizes of a batch and of a segment."""
    rng = np.random.default_rng(0)
    lengths = np.concatenate(
        [rng.integers(0, 6, 50), [1500, 513, 512, 129, 33, 32, 31], np.zeros(20, int), [999, 4, 1]]
    )
    indices = np.concatenate([np.sort(rng.choice(2000, length, replace=False)) for length in lengths])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = np.float16(rng.random(len(indices)) + 0.5)
    return csr_array((values.astype(np.float64), indices, indptr), shape=(len(lengths), 2000))


def check(cupy, head, a, n, spare):
    """C = A·B for random B with ``spare`` columns after its own, and infinite rows where A has no entry."""
    (m, k), dtype = a.shape, head.dtype["a"]
    used = np.zeros(k, bool)
    used[a.indices] = True
    width = -(-n // head.pads["n"]) * head.pads["n"] + spare
    b = Dense(cupy.empty((k, width), dtype), k, n, False, dtype)
    b.fill(np.random.default_rng(n).random((k, n)) - 0.5)
    exact = np.where(used[:, None], np.asarray(b.widened()), 0.0)
    np.asarray(b.view)[~used] = np.inf
    c = Dense(cupy.empty((m, width), dtype), m, n, False, dtype)
    c.poison()
    packed = FORMATS[head.format].from_csr(emulation.device.csr_matrix(a), dtype, **head.options(3, 1 << 20))
    prepare(head, emulation.host_code(head), packed, b, c)(cupy.cuda.get_current_stream())
    room = abs(a) @ abs(exact) + 2.0**-14
    worst = np.max(np.abs(np.asarray(c.widened()) - a @ exact) / room, initial=0.0)
    assert worst < TOLERANCE[dtype], f"{head.name}, {a.shape}, N = {n}: {worst:.2g}"
    assert np.isnan(np.asarray(c.storage)[:, width - spare :].astype(float)).all()


#: Smaller than the head says, as it says, and larger. The order matters: shared memory of the first is too small for
#: the others.
TILES = [{"lanes": 8, "fours": 2, "threads": 32}, {}, {"lanes": 32, "fours": 4}]


@pytest.mark.parametrize("name", ["sputnik", "sputnik_f16", "sputnik_short", "sputnik_short_f16", "rode"])
def test_staged_rows_are_right_on_ragged_rows(name, cupy):
    head = heads()[name]
    empty = csr_array((4, 3), dtype=np.float64)
    for tile in TILES:
        tiled = dataclasses.replace(head, tile={**head.tile, **tile})
        for n in (1, 20, 32, 40, 136):
            check(cupy, tiled, uneven(), n, spare=0)
            check(cupy, tiled, uneven(), n, spare=8)
            check(cupy, tiled, empty, n, spare=0)
            check(cupy, tiled, empty[:0], n, spare=0)
