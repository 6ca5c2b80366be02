"""Launches of packers: arguments that go through one place reach the launch that they belong to."""

import numpy as np
import pytest

from spmm_roofline.formats import FormatError
from spmm_roofline.formats.partitions import PartitionRule
from spmm_roofline.kernels.launch import Unsupported
from spmm_roofline.kernels.packers import functions_of
from tests import emulation
from tests.threads import at_once


@pytest.fixture(params=[pytest.param("gpu", marks=pytest.mark.gpu), "emulated"])
def cupy(request):
    if request.param == "gpu":
        yield pytest.importorskip("cupy")
        return
    with emulation.emulated() as cupy:
        yield cupy


def replaced(cupy, values):
    """The values as a packer stores them, from double to single precision."""
    data = cupy.zeros(len(values), dtype="float32")
    functions_of("values")("replace_float64", 1, cupy.asarray(values), 0, len(values), data)
    return data


def test_every_launch_has_its_own_arguments(cupy):
    packs = functions_of("values")
    source, data = cupy.asarray(np.arange(9.0)), cupy.zeros((3, 9), dtype="float32")
    slots = cupy.asarray(np.arange(9, dtype="int32")[::-1])
    packs("replace_float64", 1, source, 0, 9, data[0])
    packs("replace_float64", 1, source.data.ptr, slots, np.int64(5), data[1])  # addresses, and numbers of NumPy
    packs("replace_float64", 0, source, 0, 9, data[2])  # without a CTA
    assert data.get().tolist() == [[*range(9)], [0, 0, 0, 0, 4, 3, 2, 1, 0], [0] * 9]


def test_a_struct_is_passed_by_its_bytes(cupy):
    begins = cupy.asarray(np.arange(0, 4000, 10, dtype="int32"))
    found = []
    for least in (1000, 100):
        work, cut = cupy.zeros((64, 4), dtype="int32"), cupy.zeros((128, 4), dtype="int32")
        counts, rule = cupy.zeros(3, dtype="int32"), PartitionRule(segment_cost=1, least_cost=least).argument
        functions_of("csr_split")("partition", 1, begins, 399, 64, rule, work, cut, counts, threads=1024)
        found.append(counts.get().tolist()[:2])
    assert found == [[3990, 4], [3990, 43]]


def test_threads_that_launch_the_same_function_get_what_they_asked_for(cupy):
    results = at_once(lambda number: replaced(cupy, np.full(100, float(number))))
    assert [set(result.get()) for result in results] == [{float(number)} for number in range(len(results))]


def test_a_number_that_does_not_fit_is_named(cupy):
    data = cupy.zeros(1)
    with pytest.raises(Unsupported, match="values takes argument 2 as int, and 4294967296 does not fit"):
        functions_of("values")("replace_float64", 1, data, 0, 2**32, data)


def test_a_function_that_a_packer_does_not_have_is_named(cupy):
    with pytest.raises(FormatError, match="packer values has no function replace_int8"):
        functions_of("values")("replace_int8", 1)
