"""The launches that SpMM keeps for later calls: host code, with stand-ins for launches and arrays."""

from contextlib import nullcontext
from threading import Thread

import pytest

from spmm_roofline.kernels.launch import Call
from spmm_roofline.kernels.registry import head
from spmm_roofline.multiply import launches as module
from spmm_roofline.multiply.arrays import View
from spmm_roofline.multiply.launches import MOST, Launches, Operands
from spmm_roofline.paths import KERNELS


class Stream(nullcontext):
    def __init__(self, ptr):
        super().__init__()
        self.ptr = ptr


FREE, ANOTHER = Stream(0), Stream(7)


def array(pointer, rows=10, columns=32):
    return View(pointer, rows, columns, columns, 1, "float32", 0, 0, None)


class Product:
    """Launches that log what is prepared, and what is launched with which arrays and factors."""

    def __init__(self):
        self.worked_out, self.launched = [], []
        self.launches = Launches(self.make)

    def make(self, head, on):
        self.worked_out.append(head.name)

        def call(empty):
            scratch = empty(1)

            def repeat(stream, *given):
                self.launched.append((scratch, *given))

            return Call(lambda stream: repeat(stream, *on.given), repeat=None if head.vendor else repeat, again=call)

        return call(lambda size: len(self.worked_out) - 1)


@pytest.fixture
def product(monkeypatch):
    monkeypatch.setattr(module, "capturing", lambda: False)
    return Product()


def enqueue(
    product, b, c, alpha=1.0, beta=0.0, bias=0, relu=False, unaligned=False, keep=True, stream=FREE, kernel="rows_fma"
):
    on = Operands(b, c, c.columns, alpha, beta, bias, relu, unaligned)
    product.launches.enqueue(head(kernel, KERNELS), on, stream, lambda size: f"{size} bytes of {stream.ptr}", keep)
    return product.launched[-1]


def test_other_arrays_of_the_same_shapes_and_other_factors_are_launched_as_they_are(product):
    for pointer, alpha in enumerate([0.5, 2.0, -1.0]):
        b, c = array(pointer), array(10 + pointer)
        expected = 0, b.pointer, c.pointer, alpha, 1.0, 0, False
        assert enqueue(product, b, c, alpha, 1.0, keep=pointer > 0) == expected
    assert enqueue(product, b, c)[0] == 1, "code without factors is another"
    assert enqueue(product, array(1, 10, 64), array(2, 10, 64))[0] == 2, "and so is a grid for another width"
    assert len(product.worked_out) == 3


def test_a_launch_with_an_epilogue_serves_any_bias_and_relu(product):
    b, c = array(1), array(2)
    for bias, relu in [(16, False), (32, True), (0, True)]:
        assert enqueue(product, b, c, bias=bias, relu=relu) == (0, 1, 2, 1.0, 0.0, bias, relu)
    assert enqueue(product, b, c, alpha=2.0)[0] == 1, "code without an epilogue is another"
    assert enqueue(product, b, c, alpha=2.0, unaligned=True)[0] == 2, "and so is code for unaligned rows"


def test_streams_and_threads_have_a_scratch_each(product):
    b, c = array(1), array(2)
    own = [enqueue(product, b, c, stream=stream)[0] for stream in (FREE, ANOTHER, FREE)]
    other = Thread(target=enqueue, args=(product, b, c))
    other.start()
    other.join()
    assert [*own, product.launched[-1][0]] == [0, "1 bytes of 7", 0, "1 bytes of 0"]
    assert len(product.worked_out) == 1, "a launch is repeated there, not prepared anew"


def test_scratch_that_a_graph_fills_serves_that_graph_alone(product, monkeypatch):
    b, c = array(1), array(2)
    number = [0]
    monkeypatch.setattr(module, "capturing", lambda: number[0] > 0)
    monkeypatch.setattr(module, "capture_of", lambda stream: number[0])
    enqueue(product, b, c)
    of_graphs = []
    for number[0] in (1, 1, 2, 0):
        enqueue(product, b, c, stream=ANOTHER)
        of_graphs.append(next(reversed(product.launches._kept)))
    first, again, second, after = of_graphs
    assert first == again and len({first, second, after}) == 3
    for number[0] in (3, 0):
        assert enqueue(product, b, c)[0] == 0, "what was filled before a capture may be captured"


def test_captures_push_out_no_other_launches(product, monkeypatch):
    number = [0]
    monkeypatch.setattr(module, "capturing", lambda: number[0] > 0)
    monkeypatch.setattr(module, "capture_of", lambda stream: number[0])
    for columns in (8, 16):
        enqueue(product, array(1, 10, columns), array(2, 10, columns))
    for number[0] in range(1, MOST + 2):
        enqueue(product, array(1, 10, 8), array(2, 10, 8), stream=ANOTHER)
    before = len(product.worked_out)
    enqueue(product, array(1, 10, 16), array(2, 10, 16), stream=ANOTHER)
    assert len(product.worked_out) == before


def test_the_call_of_a_library_serves_its_very_arrays_and_keeps_no_others_alive(product):
    b, c, other = array(1), array(2), array(3)
    scratches = [
        enqueue(product, b, to, keep=keep, kernel="cublas_gemm_f16")[0]
        for to, keep in [(c, False), (c, True), (c, True), (other, True)]
    ]
    assert scratches == [0, 1, 1, 2]
    assert len(product.launches._kept) == 2


def test_the_oldest_launches_are_dropped(product):
    # Each is kept for its stream and thread, and for others.
    most = MOST // 2
    for columns in range(1, most + 2):
        enqueue(product, array(1, 10, columns), array(2, 10, columns))
    assert len(product.launches._kept) == MOST
    before = len(product.worked_out)
    enqueue(product, array(1, 10, 2), array(2, 10, 2))
    assert len(product.worked_out) == before
    enqueue(product, array(1, 10, 1), array(2, 10, 1))
    assert len(product.worked_out) == before + 1
