"""SpMM as programs use it: planned once and multiplied often."""

import ctypes
import mmap
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, diags_array

from spmm_roofline.formats.values import widened
from spmm_roofline.kernels import registry
from spmm_roofline.kernels.choose import GENERAL, costed
from spmm_roofline.kernels.launch import Unsupported
from spmm_roofline.paths import KERNELS
from tests.multiply.operands import TOLERANCE, check, dense, general_kernels, nan, sparse, vector

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 31, 32, 100, 128, 200, 512])
def test_any_width_of_b(dtype, n):
    from spmm_roofline import SpMM

    a = sparse(301, 517, 0.05)
    b, exact = dense(517, n, dtype)
    check(SpMM(a, dtype)(b), a, exact, dtype)


@pytest.mark.parametrize("shape, density", [((1, 1), 1.0), ((1, 5000), 0.9), ((5000, 3), 0.3), ((9, 20_000), 1.0)])
def test_any_shape(shape, density):
    from spmm_roofline import SpMM

    a = sparse(*shape, density)
    b, exact = dense(shape[1], 40, "float16")
    multiply = SpMM(a, "float16")
    for _ in range(3):  # split windows count their partial sums anew in every call
        check(multiply(b), a, exact, "float16")


@pytest.mark.parametrize("n", [4, 40, 300])
def test_every_general_kernel_on_rows_of_all_lengths(n, device):
    from spmm_roofline import SpMM

    if device == "emulated" and n != 40:
        pytest.skip("other widths take the emulation a minute")
    # The emulated device has three multiprocessors: rows are split as on a GPU, with fewer of them and of columns.
    m, k = (700, 6000) if device == "gpu" else (200, 600)
    rng = np.random.default_rng(n)
    pattern = rng.random((m, k)) < rng.choice([0, 6 / k, 60 / k], (m, 1))
    pattern[[0, m // 2, m // 2 + 1, m - 1]] = rng.random((4, k)) < 0.9
    a = csr_array(pattern * (rng.random(pattern.shape) - 0.5))
    for head in general_kernels():
        dtype = head.dtype["a"]
        b, exact = dense(k, n, dtype)
        multiply = SpMM(a, dtype, kernel=head.name)
        for _ in range(3):  # split rows and windows count their partial sums anew in every call
            check(multiply(b), a, exact, dtype)
        # On the host, compilations take most of the time: of twins in two dtypes one is enough, and one epilogue.
        if device == "gpu":
            out, before = dense(m, n, dtype, seed=2)
            check(multiply(b, out=out, alpha=0.5, beta=-2.0), a, exact, dtype, 0.5, -2.0 * before)
        elif costed(head.name) != head.name:
            continue
        bias, added = vector(n, dtype)
        out, before = dense(m, n, dtype, seed=2)
        multiply(b, out=out, alpha=0.5, beta=-2.0, bias=bias, relu=True)
        check(out, a, exact, dtype, 0.5, (added, -2.0 * before), relu=True)


def test_every_general_kernel_takes_other_values(device):
    import cupy

    from spmm_roofline import SpMM

    a = sparse(150, 140, 0.1)
    other = csr_array((np.random.default_rng(4).random(a.nnz) - 0.5, a.indices, a.indptr), a.shape)
    for head in general_kernels():
        dtype = head.dtype["a"]
        multiply = SpMM(a, dtype, kernel=head.name)
        (b, exact), (x, exact_x) = dense(140, 40, dtype), dense(150, 40, dtype, 2)
        multiply(b), multiply.T(x)
        multiply.update(cupy.asarray(other.data))
        check(multiply(b), other, exact, dtype)
        check(multiply.T(x), csr_array(other.T), exact_x, dtype)


def test_a_strip_that_shared_memory_does_not_hold_is_refused(device):
    from spmm_roofline import SpMM

    a = sparse(20, 20_000, 0.01)
    b, _ = dense(20_000, 8, "float16")
    with pytest.raises(Unsupported, match=r"a CTA of strips_f16 needs 320,\d\d\d bytes of shared memory, of "):
        SpMM(a, "float16", kernel="strips_f16")(b)


def test_every_kernel_of_partitions_in_waves(device, monkeypatch):
    from spmm_roofline import SpMM
    from tests.emulation import device as emulated

    # L2 holds few of the rows of B: on a GPU because there are many, on the emulated device because it is small.
    monkeypatch.setattr(emulated, "L2_BYTES", 1 << 14)
    m, n = (1_000_000, 8) if device == "gpu" else (500, 24)
    rng = np.random.default_rng(m)
    rows, columns = rng.integers(m, size=(2, 12 * m))
    rows[: m // 2] = m // 3  # a row so long that several partitions have a section of it
    a = csr_array((rng.random(12 * m) - 0.5, (rows, columns)), shape=(m, m))
    partitioned = [head for head in general_kernels() if "wave_columns" in head.format_options]
    assert len(partitioned) > 10
    for head in partitioned:
        dtype = head.dtype["a"]
        b, exact = dense(m, n, dtype)
        multiply = SpMM(a, dtype, kernel=head.name)
        for _ in range(2):
            check(multiply(b), a, exact, dtype)
        (packed,) = multiply._packed.values()
        assert packed.counts()["partitions"] > head.tile["ctas"] * multiprocessors(), head.name


def multiprocessors():
    import cupy

    return cupy.cuda.Device().attributes["MultiProcessorCount"]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_operands_of_any_strides(dtype):
    import cupy

    from spmm_roofline import SpMM

    a = sparse(70, 90, 0.1)
    multiply = SpMM(a, dtype)
    wide, exact = dense(90, 200, dtype)
    turned, of_turned = dense(40, 90, dtype)
    for columns in (slice(0, 64), slice(64, 128), slice(136, 200), slice(3, 44), slice(0, 128), slice(0, 90, 3)):
        check(multiply(wide[:, columns]), a, exact[:, columns], dtype)
    for columns in (slice(0, 200), slice(0, 128)):
        check(multiply(wide[::-1, columns]), a, exact[::-1, columns], dtype)
    check(multiply(turned.T), a, of_turned.T, dtype)
    out, before = dense(70, 200, dtype, seed=2)
    for columns in (slice(0, 128), slice(8, 72), slice(3, 44)):
        multiply(wide[:, columns], out=out[:, columns], beta=0.5)
        check(out[:, columns], a, exact[:, columns], dtype, more=0.5 * before[:, columns])
        out, before = dense(70, 200, dtype, seed=2)
    assert cupy.asarray(multiply(wide[:, 5])).shape == (70,)


def test_an_operand_is_not_copied_where_a_kernel_can_read_it(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    a = sparse(70, 90, 0.1)
    multiply = SpMM(a, "float16")
    wide, exact = dense(90, 328, "float16")
    monkeypatch.setattr(plan, "padded_copy", None)
    check(multiply(wide[:, :48]), a, exact[:, :48], "float16")
    check(multiply(wide[:, 72:]), a, exact[:, 72:], "float16")  # rows whose padding would end behind the array


#: Kernels that take unaligned rows, by dtype.
UNALIGNED = {
    "float32": ("split_fma", "rows_fma", "narrow_fma", "narrow_fma_single", "dealt_rows_fma"),
    "tf32": ("split_fma_tf32", "rows_fma_tf32", "narrow_fma_tf32", "narrow_fma_tf32_single", "dealt_rows_fma_tf32"),
    "float64": ("split_fma_f64", "rows_fma_f64", "narrow_fma_f64", "narrow_fma_f64_single", "dealt_rows_fma_f64"),
}
#: The same for dtypes in which other kernels do not.
UNALIGNED_16 = {
    "float16": ("narrow_fma_f16", "narrow_fma_f16_single", "dealt_rows_fma_f16"),
    "bfloat16": ("narrow_fma_bf16", "narrow_fma_bf16_single", "dealt_rows_fma_bf16"),
}


@pytest.fixture
def uncopied(monkeypatch):
    """No operand is copied, whatever that costs."""
    from spmm_roofline.kernels import choose
    from spmm_roofline.multiply import plan

    for limit in ("COPY_PAYS", "COPY_PAYS_FOR_FULL_SLABS", "COPY_PAYS_FOR_WINDOWS"):
        monkeypatch.setattr(choose, limit, float("inf"))
    monkeypatch.setattr(plan, "padded_copy", None)


def uneven(m, k, seed=0):
    """Rows of all lengths, empty ones and ones that are split between CTAs included."""
    rng = np.random.default_rng(seed)
    pattern = rng.random((m, k)) < rng.choice([0, 2 / k, 20 / k], (m, 1))
    pattern[[0, m // 2, m // 2 + 1, m - 1]] = rng.random((4, k)) < 0.9
    return csr_array(pattern * (rng.random(pattern.shape) - 0.5))


@pytest.mark.parametrize("dtype", UNALIGNED | UNALIGNED_16)
@pytest.mark.parametrize("n", [*range(1, 10), 31, 33, 41, 47, 63, 131])
def test_unaligned_rows_of_any_width_are_not_copied(dtype, n, uncopied, device):
    from spmm_roofline import SpMM

    if device == "emulated" and dtype in ("bfloat16", "tf32"):
        pytest.skip("on the host, compilations take most of the time: of twins in two dtypes one is enough")
    a = uneven(120, 230)
    b, exact = dense(230, n, dtype)
    # Where all else is aligned, so must be the bias.
    first = 0 if n * b.itemsize % 16 == 0 else 1
    bias, added = vector(n + first, dtype)
    for kernel in (UNALIGNED | UNALIGNED_16)[dtype]:
        multiply = SpMM(a, dtype, kernel=kernel)
        for _ in range(2):  # split rows count their partial sums anew in every call
            check(multiply(b), a, exact, dtype)
        out, before = dense(120, n, dtype, seed=2)
        assert multiply(b, out=out) is out
        check(out, a, exact, dtype)
        out, before = dense(120, n, dtype, seed=2)
        multiply(b, out=out, alpha=0.5, beta=-2.0, bias=bias[first:], relu=True)
        check(out, a, exact, dtype, 0.5, added[first:] - 2.0 * before, relu=True)


@pytest.mark.parametrize(("kernel", "dtype"), [
    ("narrow_fma_single", "float32"), ("narrow_fma_f64_single", "float64"), ("narrow_fma_f16", "float16"),
])  # fmt: skip
def test_a_row_may_span_more_ctas_than_a_warp_has_lanes(kernel, dtype, monkeypatch):
    """All lanes of a warp add up the partial sums of a row of few columns, each lane more than one of them."""
    from spmm_roofline import SpMM
    from tests.emulation import device

    monkeypatch.setattr(device, "MULTIPROCESSORS", 132)
    a = sparse(3, 24_000, 0.9)
    multiply = SpMM(a, dtype, kernel=kernel)
    b, exact = dense(24_000, 1, dtype)
    for _ in range(2):
        check(multiply(b), a, exact, dtype)
    (packed,) = multiply._packed.values()
    assert packed.counts()["partials"] > 3 * 32


@pytest.mark.parametrize("kernel", ["narrow_fma_single", "narrow_fma", "narrow_fma_f64_single", "narrow_fma_f64"])
def test_a_partial_sum_may_be_a_nan_with_all_bits_set(device, kernel, monkeypatch):
    """All bits say that a partial sum is not there yet; arithmetic of some processors keeps the bits of a NaN."""
    from spmm_roofline import SpMM
    from tests.emulation import device as emulated

    monkeypatch.setattr(emulated, "MULTIPROCESSORS", 132)
    cupy = sys.modules["cupy"]
    multiply = SpMM(sparse(3, 24_000, 0.9), "float64" if "f64" in kernel else "float32", kernel=kernel)
    b = np.ones((24_000, 2), multiply.dtype)
    b[:, 0].view(f"u{b.itemsize}")[:] = ~np.zeros(1, f"u{b.itemsize}")
    for _ in range(2):
        c = multiply(cupy.asarray(b[:, :1] if "single" in kernel else b)).get()
        assert np.isnan(c[:, 0]).all() and np.isfinite(c[:, 1:]).all()
    (packed,) = multiply._packed.values()
    assert packed.counts()["partials"] > 1


@pytest.mark.parametrize("sets", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_are_dealt_to_any_number_of_sets(dtype, sets, monkeypatch):
    """Small matrices have as many sets as fit a warp; large ones, with rows of few entries, have a single one."""
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import expressions

    asked = []

    def lanes(m, n, nnz, columns, share, threads):
        asked.append(n)
        return min(32, sets * expressions.power_of_two(expressions.ceil_div(n, columns)))

    monkeypatch.setitem(expressions.FUNCTIONS, "lanes_of_row", lanes)
    kernel = next(name for name in (UNALIGNED | UNALIGNED_16)[dtype] if name.startswith("dealt_rows_fma"))
    a = uneven(61, 150)
    multiply = SpMM(a, dtype, kernel=kernel)
    # With and without 16-byte rows; two slabs in the end.
    for n in (1, 3, 8, 9, 24, 40, 136, 264):
        b, exact = dense(150, n, dtype)
        check(multiply(b), a, exact, dtype)
    assert set(asked) == {1, 3, 8, 9, 24, 40, 136, 264}


@pytest.mark.parametrize("dtype", UNALIGNED)
def test_slices_at_any_element_are_not_copied(dtype, uncopied):
    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import widened

    a = uneven(90, 150)
    wide, exact = dense(150, 203, dtype)
    for kernel in (None, *UNALIGNED[dtype]):
        multiply = SpMM(a, dtype, kernel=kernel)
        for columns in (slice(3, 44), slice(1, 33), slice(2, 10), slice(202, 203), slice(5, 140)):
            check(multiply(wide[:, columns]), a, exact[:, columns], dtype)
            for places in (columns, slice(columns.start + 1, columns.stop + 1)):
                out, before = dense(90, 205, dtype, seed=2)
                multiply(wide[:, columns], out=out[:, places], alpha=2.0, beta=0.5)
                check(out[:, places], a, exact[:, columns], dtype, 2.0, 0.5 * before[:, places])
                after = widened(out, dtype).get()
                after[:, places] = before[:, places]
                assert (after == before).all(), "columns beside the view were written"


@pytest.mark.parametrize("n", [128, 256, 384])
def test_nothing_is_written_beside_a_slice_of_whole_lines(n, device):
    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import widened

    if device == "emulated" and n != 128:
        pytest.skip("other widths take the emulation half a minute")
    a = uneven(90, 150)
    for head in general_kernels():
        dtype = head.dtype["a"]
        wide, exact = dense(150, 768, dtype)
        out, before = dense(90, 768, dtype, seed=2)
        columns = slice(128, 128 + n)
        SpMM(a, dtype, kernel=head.name)(wide[:, columns], out=out[:, columns])
        check(out[:, columns], a, exact[:, columns], dtype)
        after = widened(out, dtype).get()
        after[:, columns] = before[:, columns]
        assert (after == before).all(), f"{head.name} wrote columns beside the view"


@pytest.mark.parametrize(
    ("dtype", "n"), [(dtype, n) for dtype in TOLERANCE for n in (1, 2, 4) if n == 1 or "16" not in dtype]
)
def test_few_columns_of_any_rows_are_not_copied(dtype, n, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    monkeypatch.setattr(plan, "copy_rows", None)
    a = uneven(120, 230)
    multiply = SpMM(a, dtype)
    wide, exact = dense(230, 9, dtype)
    for columns in (slice(0, n), slice(3, 3 + n)):
        check(multiply(wide[:, columns]), a, exact[:, columns], dtype)
    out, before = dense(120, 9, dtype, seed=2)
    multiply(wide[:, :n], out=out[:, 5 : 5 + n], beta=0.5)
    check(out[:, 5 : 5 + n], a, exact[:, :n], dtype, more=0.5 * before[:, 5 : 5 + n])
    of_vector = multiply(wide[:, 7])
    assert of_vector.shape == (120,) and of_vector.strides == (of_vector.itemsize,)
    check(of_vector[:, None], a, exact[:, 7:8], dtype)


def test_unaligned_rows_are_repeated_without_planning(monkeypatch, uncopied):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    a = sparse(50, 60, 0.2)
    multiply = SpMM(a, "float32")
    wide, exact = dense(60, 48, "float32")
    aligned, odd = slice(0, 40), slice(3, 43)
    out, before = dense(50, 50, "float32", seed=2)
    for columns in (aligned, odd):  # their shapes and strides are equal
        multiply(wide[:, columns])
    multiply(wide[:, odd], out=out[:, 9:49], beta=1.0)
    monkeypatch.setattr(plan, "prepare", None)
    monkeypatch.setattr(SpMM, "_multiply", None)
    for columns in (aligned, odd, aligned):
        check(multiply(wide[:, columns]), a, exact[:, columns], "float32")
    out, before = dense(50, 50, "float32", seed=2)
    multiply(wide[:, odd], out=out[:, 9:49], beta=1.0)
    check(out[:, 9:49], a, exact[:, odd], "float32", more=before[:, 9:49])


def test_rows_are_copied_where_that_pays_or_where_a_kernel_needs_it(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import choose
    from spmm_roofline.multiply import plan

    copied = []
    copy = plan.padded_copy
    monkeypatch.setattr(plan, "padded_copy", lambda view, *given: copied.append(view.columns) or copy(view, *given))
    few, many = sparse(300, 400, 0.01), sparse(300, 80, 0.9)
    b, exact = dense(400, 33, "float32")
    check(SpMM(few, "float32")(b), few, exact, "float32")
    assert not copied
    for kernel in (None, "split_fma"):
        check(SpMM(many, "float32", kernel=kernel)(b[:80]), many, exact[:80], "float32")
    check(SpMM(few, "float32", kernel="window_fma")(b), few, exact, "float32")
    half, of_half = dense(400, 33, "float16")
    check(SpMM(few, "float16")(half), few, of_half, "float16")
    check(SpMM(few, "float32")(b[:, ::2]), few, exact[:, ::2], "float32")
    tuned = SpMM(few, "float32", tune=True)
    for _ in range(2):
        check(tuned(b), few, exact, "float32")
    assert copied[:6] == [33] * 4 + [17, 33]
    monkeypatch.setattr(choose, "COPY_PAYS", 0)
    check(SpMM(few, "float32")(b), few, exact, "float32")
    assert copied[-1] == 33


@pytest.mark.parametrize("n, wide", [(31, 32), (33, 64), (47, 64), (57, 64), (65, 72)])
def test_a_copy_of_b_has_rows_of_a_line_where_windows_read_lines(n, wide, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    copied = []
    copy = plan.padded_copy
    monkeypatch.setattr(plan, "padded_copy", lambda *given: copied.append(copy(*given)) or copied[-1])
    many, few = sparse(90, 80, 0.3), sparse(90, 80, 0.05)
    b, exact = dense(80, n, "float16")
    for a, kernel, columns in (
        (many, "staged_f16_medium", wide),
        (few, "staged_f16_medium", -(-n // 8) * 8),
        (many, "split_f16_medium", -(-n // 8) * 8),
    ):
        check(SpMM(a, "float16", kernel=kernel)(b), a, exact, "float16")
        assert copied[-1].ld == columns, (kernel, a.nnz)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8, 15, 41, 300, 2100])
def test_rows_are_copied_between_any_elements(dtype, n, device):
    import cupy

    from spmm_roofline.multiply.arrays import library_of
    from spmm_roofline.multiply.copies import copy_rows

    stream, rng = cupy.cuda.get_current_stream(), np.random.default_rng(n)
    unit = 16 // np.dtype(dtype).itemsize
    padded = -(-n // unit) * unit
    gap = padded - n
    # Rows, then elements before the first one and between two of them: of the source, and of the target.
    for rows, of_source, of_target, copied in (
        (37, (1, 0), (0, gap), padded),  # a copy of B
        (37, (0, gap), (0, 0), n),  # to rows of C without a gap
        (37, (3, 5), (1, 0), n),
        (37, (0, 0), (2, 3), n),
        (1, (1, 0), (1, 0), n),
    ):
        source, target = (
            cupy.asarray(rng.random(first + rows * (n + between)).astype(dtype))
            for first, between in (of_source, of_target)
        )
        given, whole_target = source.get()[of_source[0] :].reshape(rows, -1), target.get()
        expected = whole_target[of_target[0] :].reshape(rows, -1)
        expected[:, :n], expected[:, n:copied] = given[:, :n], 0
        tables = (x[first:].reshape(rows, -1)[:, :n] for x, (first, _) in ((source, of_source), (target, of_target)))
        copy_rows(*(library_of(table, "b").view(table, "b") for table in tables), n, copied, stream)
        assert (target.get() == whole_target).all(), (rows, of_source, of_target)


@pytest.mark.parametrize("dtype", UNALIGNED | UNALIGNED_16)
def test_nothing_beside_unaligned_operands_is_read(dtype, device, uncopied):
    from spmm_roofline import SpMM

    if device == "gpu":
        pytest.skip("the memory of a GPU has no pages that this test could protect")
    a = uneven(40, 70)
    for n in (1, 5, 31, 33, 131):
        values, exact = dense(70, n, dtype)
        bias, added = vector(n, dtype)
        for at_end in (False, True):
            guarded, own_bias = (_guarded(array, at_end) for array in (values, bias))
            for kernel in (UNALIGNED | UNALIGNED_16)[dtype]:
                multiply = SpMM(a, dtype, kernel=kernel)
                check(multiply(guarded), a, exact, dtype)
                check(multiply(guarded, bias=own_bias), a, exact, dtype, more=added)


@pytest.mark.parametrize("kernel", ["rows_fma", "window_fma", "staged_f16"])
def test_a_slice_that_ends_with_its_memory_is_copied_though_others_like_it_are_not(kernel, device):
    from spmm_roofline import SpMM

    if device == "gpu":
        pytest.skip("the memory of a GPU has no pages that this test could protect")
    a, dtype = sparse(64, 64, 0.3), registry.head(kernel, KERNELS).dtype["a"]
    values, exact = dense(64, 64, dtype)
    wide = _guarded(values, at_end=True)
    multiply = SpMM(a, dtype, kernel=kernel)
    for first in (0, 16, 48):
        columns = slice(first, first + 12)
        check(multiply(wide[:, columns]), a, exact[:, columns], dtype)


def _guarded(array, at_end):
    """A copy between two pages that nobody may read, at the end of its own pages or at their beginning."""
    page = mmap.PAGESIZE
    whole = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, whole + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (start, start + page + whole):
        assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    first = page + (whole - array.nbytes if at_end else 0)
    view = np.frombuffer(memory, dtype=array.dtype, count=array.size, offset=first).reshape(array.shape)
    view[...] = array
    return view.view(type(array))


def test_a_launch_that_is_repeated_has_its_scratch(device):
    import gc

    from spmm_roofline import SpMM
    from spmm_roofline.multiply.launches import MOST

    a = sparse(40, 600, 0.5)
    multiply = SpMM(a, "float32", kernel="rows_fma")
    b, exact = dense(600, 8 * MOST, "float32")
    for n in range(4, 4 * MOST, 4):
        multiply(b[:, :n])
    gc.collect()
    for repeat, *_, call in multiply._ready.values():
        assert call.repeat is repeat and any(getattr(kept, "nbytes", 0) for kept in call.keeps)
    check(multiply(b[:, :4]), a, exact[:, :4], "float32")


def test_results_lie_on_the_gpu_of_the_operands(device, monkeypatch):
    import cupy

    from spmm_roofline import SpMM

    if device == "gpu":
        pytest.skip("another GPU is the current one only in the emulation")
    a = sparse(40, 50, 0.1)
    multiply = SpMM(a, "float32")
    b, exact = dense(50, 8, "float32")
    x, _ = dense(40, 8, "float32")
    entered = []

    class Device(cupy.cuda.Device):
        def __enter__(self):
            entered.append(self.id)
            return super().__enter__()

    multiply(b), multiply.sample(x, b)
    monkeypatch.setattr(cupy.cuda, "Device", Device)
    monkeypatch.setattr(cupy.cuda.runtime, "getDevice", lambda: 1)
    check(multiply(b), a, exact, "float32")
    multiply.sample(x, b)
    assert entered == [0, 0], "an allocation each, on the GPU of A"


@pytest.mark.parametrize("way", ["csr", "arrays"])
def test_new_values_have_the_order_of_rows_that_are_not_sorted(way, device):
    import cupy

    from spmm_roofline import SpMM

    a = sparse(40, 50, 0.2)
    rng = np.random.default_rng(1)
    mixed = np.concatenate([rng.permutation(np.arange(*ends)) for ends in pairwise(a.indptr)])
    given = csr_array((a.data[mixed], a.indices[mixed], a.indptr), shape=a.shape)
    multiply = SpMM(given if way == "csr" else (given.indptr, given.indices, given.data), "float32", shape=a.shape)
    new = rng.random(a.nnz)
    multiply.update(cupy.asarray(new))
    b, exact = dense(50, 16, "float32")
    check(multiply(b), csr_array((new, given.indices, given.indptr), shape=a.shape), exact, "float32")


def test_a_matrix_wider_than_a_grid_is_multiplied_in_strips(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    monkeypatch.setattr(plan, "WIDEST", 128)
    a = sparse(30, 40, 0.2)
    b, exact = dense(40, 300, "float16")
    multiply = SpMM(a, "float16")
    check(multiply(b), a, exact, "float16")
    out, before = dense(30, 300, "float16", seed=2)
    check(multiply(b, out=out, alpha=2.0, beta=1.0), a, exact, "float16", 2.0, before)
    bias, added = vector(300, "float16")
    check(multiply(b, bias=bias, relu=True), a, exact, "float16", more=added, relu=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_sparse_matrix_on_the_right(dtype):
    from spmm_roofline import SpMM

    a = sparse(70, 90, 0.1)
    multiply = SpMM(a, dtype)
    x, exact = dense(33, 70, dtype)
    found = x @ multiply
    assert found.shape == (33, 90)
    check(found.T, a.T.tocsr(), exact.T, dtype)


@pytest.mark.parametrize("n", [24, 64, 136])  # column slabs of each width
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_alpha_and_beta(dtype, n):
    from spmm_roofline import SpMM

    a = sparse(100, 90, 0.1)
    b, exact = dense(90, n, dtype)
    out, before = dense(100, n, dtype, seed=2)
    result = SpMM(a, dtype)(b, out=out, alpha=0.5, beta=-2.0)
    assert result is out
    check(out, a, exact, dtype, 0.5, -2.0 * before)


@pytest.mark.parametrize("n", [1, 13, 64, 136])  # padded or not, column slabs of each width
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_bias_and_relu(dtype, n):
    from spmm_roofline import SpMM

    a = sparse(100, 90, 0.1)
    multiply = SpMM(a, dtype)
    b, exact = dense(90, n, dtype)
    bias, added = vector(n, dtype)
    check(multiply(b, bias=bias), a, exact, dtype, more=added)
    check(multiply(b, relu=True), a, exact, dtype, relu=True)
    out, before = dense(100, n, dtype, seed=2)
    assert multiply(b, out=out, alpha=0.5, beta=-2.0, bias=bias, relu=True) is out
    check(out, a, exact, dtype, 0.5, (added, -2.0 * before), relu=True)
    check(multiply(b[:, 0], bias=bias[:1])[:, None], a, exact[:, :1], dtype, more=added[:1])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_bias_of_any_strides(dtype):
    from spmm_roofline import SpMM

    a = sparse(70, 90, 0.1)
    multiply = SpMM(a, dtype)
    b, exact = dense(90, 40, dtype)
    values, added = vector(200, dtype)
    for places in (slice(0, 40), slice(3, 43), slice(0, 120, 3), slice(39, None, -1), slice(160, 200)):
        check(multiply(b, bias=values[places]), a, exact, dtype, more=added[places])


def test_another_bias_needs_no_other_launch(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    a = sparse(50, 60, 0.2)
    multiply = SpMM(a, "float32")
    b, exact = dense(60, 40, "float32")
    biases = [vector(40, "float32", seed) for seed in range(3)]
    multiply(b, bias=biases[0][0])
    multiply(b, bias=biases[0][0], relu=True)
    for name in ("prepare", "padded_copy"):
        monkeypatch.setattr(plan, name, None)
    monkeypatch.setattr(SpMM, "_multiply", None)
    for bias, added in biases:
        check(multiply(b, bias=bias), a, exact, "float32", more=added)
        check(multiply(b, bias=bias, relu=True), a, exact, "float32", more=added, relu=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_relu_keeps_what_is_not_a_number(dtype):
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import rounded, widened

    bias = rounded(cupy.asarray(np.array([np.nan, 1.0, -1.0, 0.5] * 4)), dtype)
    c = SpMM(csr_array((9, 5)), dtype)(dense(5, 16, dtype)[0], bias=bias, relu=True)
    expected = np.tile([np.nan, 1.0, 0.0, 0.5] * 4, (9, 1))
    np.testing.assert_array_equal(widened(c, dtype).get(), expected)


def test_nan_and_infinity_come_out_where_they_belong(device):
    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import rounded, widened

    cupy = sys.modules["cupy"]
    a = sparse(150, 140, 0.05)
    a.data += 0.5
    a = a + csr_array(([1.0, 1.0], ([40, 40], [3, 100])), shape=a.shape)  # a row with both columns
    a.sort_indices()
    exact = np.random.default_rng(5).random((140, 40)) + 0.5
    touched = abs(a[:, [3]]).toarray()[:, 0] > 0
    assert 2 < touched.sum() < 20
    for head in general_kernels():
        dtype = head.dtype["a"]
        for special in (np.nan, np.inf):
            values = a.copy()
            values.data[values.indptr[40]] = special
            c = widened(SpMM(values, dtype, kernel=head.name)(rounded(cupy.asarray(exact), dtype)), dtype).get()
            wrong = ~np.isfinite(c)
            assert wrong[40].all() and wrong.sum() == 40, (head.name, "A", special)
            b = exact.copy()
            b[3] = special
            c = widened(SpMM(a, dtype, kernel=head.name)(rounded(cupy.asarray(b), dtype)), dtype).get()
            wrong = ~np.isfinite(c)
            assert wrong[touched].all(), (head.name, "B", special)
            if not any("of B" in deviation for deviation in head.deviations):
                assert not wrong[~touched].any(), (head.name, "B", special)


def test_arrays_of_any_library(device, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import arrays, plan

    if device == "gpu":
        pytest.skip("arrays of the emulated device are those of NumPy, a library with DLPack")
    monkeypatch.setattr(arrays, "DEVICES", (1,))
    monkeypatch.setattr(plan, "WIDEST", 128)
    a, b = sparse(30, 20, 0.2), np.random.default_rng(0).random((20, 300)).astype("float32")
    multiply = SpMM(a, "float32")
    for columns in (40, 300):
        c = multiply(b[:, :columns])
        assert type(c) is np.ndarray
        check(sys.modules["cupy"].asarray(c), a, b[:, :columns].astype(np.float64), "float32")
    out, x = np.ones((30, 40), "float32"), np.ones((30, 300), "float32")
    assert multiply(b[:, :40], out=out, beta=2.0, bias=b[0, :40]) is out
    more = 2.0 + b[0, :40].astype(np.float64)
    check(sys.modules["cupy"].asarray(out), a, b[:, :40].astype(np.float64), "float32", more=more)
    assert type(multiply.sample(x, b)) is np.ndarray
    # Once they are CuPy's, such arrays are multiplied as directly as those.
    narrow = np.ascontiguousarray(b[:, :40])
    expected = multiply(narrow)
    monkeypatch.setattr(SpMM, "_multiply", None)
    np.testing.assert_array_equal(multiply(narrow), expected)


def test_what_is_there_does_not_matter_without_beta():
    import cupy

    from spmm_roofline import SpMM

    a = sparse(64, 64, 0.1)
    b, exact = dense(64, 16, "float16")
    out = cupy.full((64, 16), cupy.nan, dtype="float16")
    check(SpMM(a)(b, out=out, alpha=2.0), a, exact, "float16", 2.0)


def test_views_and_vectors():
    import cupy

    from spmm_roofline import SpMM

    a = sparse(80, 60, 0.2)
    wide, exact = dense(60, 50, "float32")
    multiply = SpMM(a, "float32")
    check(multiply(wide[:, 3:17]), a, exact[:, 3:17], "float32")
    check(multiply(cupy.asfortranarray(wide)), a, exact, "float32")
    out = cupy.zeros((80, 20), dtype="float32")
    multiply(wide[:, :13], out=out[:, 2:15])
    check(out[:, 2:15], a, exact[:, :13], "float32")
    assert not out[:, :2].any() and not out[:, 15:].any(), "columns beside the view were written"
    assert multiply(wide[:, 0]).shape == (80,)


def test_a_may_be_in_any_form():
    from cupyx.scipy.sparse import csr_matrix

    from spmm_roofline import SpMM

    twice = coo_array(([1.0, 2.0, 3.0], ([0, 0, 2], [1, 1, 0])), shape=(4, 3))
    b, exact = dense(3, 8, "float32")
    for a in (twice, twice.tocsc(), csr_matrix(twice.tocsr()), twice.astype(int)):
        check(SpMM(a, "float32")(b), twice.tocsr(), exact, "float32")


@pytest.mark.parametrize("n", [8, 128])
def test_tuned(n):
    from spmm_roofline import SpMM

    a = sparse(300, 200, 0.05)
    b, exact = dense(200, n, "float16")
    multiply = SpMM(a, tune=True)
    for _ in range(2):
        check(multiply(b), a, exact, "float16")


def test_the_kernel_for_a_width_has_a_name():
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import registry
    from spmm_roofline.paths import KERNELS

    a = sparse(900, 700, 0.02)
    assert SpMM(a, "float32", kernel="split_fma").kernel_for(512) == "split_fma"
    for dtype in TOLERANCE:
        assert registry.head(SpMM(a, dtype).kernel_for(32), str(KERNELS)).dtype["a"] == dtype


#: Kernels of the studies that multiply row-major operands of any height, beside the general ones.
OF_STUDIES = [
    name
    for name, head in registry.heads(str(KERNELS)).items()
    if not head.vendor
    and head.study != GENERAL
    and head.format != "none"
    and head.dtype["a"] in TOLERANCE
    and set(head.layout.values()) == {"row_major"}
    and head.takes_leading_dimensions
]


@pytest.mark.parametrize("name", OF_STUDIES)
def test_kernels_of_studies_take_rows_of_b_and_c_of_any_length(name, device):
    from spmm_roofline import SpMM
    from spmm_roofline.kernels.arch import supports
    from spmm_roofline.kernels.cubins import device_target

    head = registry.head(name, KERNELS)
    if not supports(device_target(), head.min_arch):
        pytest.skip(f"{name} needs {head.min_arch}")
    if device == "emulated" and head.study != "scalar":
        pytest.skip("some of its instructions, or what packs it, are not emulated")
    dtype = head.dtype["a"]
    a = csr_array(diags_array([0.5] * 130, shape=(130, 130)))
    # Rows of B are longer than those of C, then shorter; what lies beside either is not read into C, nor written.
    for n, of_b, of_c in ((40, 64, 40), (256, 256, 320)):
        given, exact = dense(130, of_b, dtype)
        whole, before = dense(131, of_c, dtype, seed=2)
        exact[:, n:], given[:, n:] = np.nan, nan(dtype)
        multiply = SpMM(a, dtype, kernel=name, n=n)
        check(multiply(given[:, :n], out=whole[:130, :n]), a, exact[:, :n], dtype)
        after = widened(whole, dtype).get()
        assert np.array_equal(after[:, n:], before[:, n:]) and np.array_equal(after[130], before[130]), name


@pytest.mark.parametrize("device", [pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize("name", ["cusparse_csr_alg3", "cusparse_csr_alg3_f16", "cusparse_coo_alg4", "cublas_gemm"])
@pytest.mark.parametrize(("n", "ld"), [(8, 11), (256, 257), (41, 41)])
def test_a_library_takes_rows_that_do_not_begin_at_vectors(name, n, ld, device):
    from spmm_roofline import SpMM

    a, dtype = sparse(33, 32, 0.1), registry.head(name, KERNELS).dtype["a"]
    b, exact = dense(33, ld, dtype)
    out, before = dense(34, ld, dtype, seed=2)
    check(SpMM(a, dtype, kernel=name)(b[:32, :n], out=out[:33, :n]), a, exact[:32, :n], dtype)
    after = widened(out, dtype).get()
    assert np.array_equal(after[:, n:], before[:, n:]) and np.array_equal(after[33], before[33])


@pytest.mark.parametrize("name", ["cusparselt_search", "cusparselt_search_f16", "scale_cc", "scale_tc"])
def test_a_kernel_whose_operands_have_a_layout_of_their_own_is_refused(name):
    from spmm_roofline import SpMM

    with pytest.raises(ValueError, match=f"^{name} takes B and C in memory of its own layout"):
        SpMM(sparse(20, 30, 0.05), registry.head(name, KERNELS).dtype["a"], kernel=name)


@pytest.mark.parametrize("device", [pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize("vendor", ["cublas", "cusparse"])
def test_the_product_of_a_library(vendor, device):
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import heads
    from spmm_roofline.paths import KERNELS

    a = sparse(300, 200, 0.1)
    known = [head for head in heads(str(KERNELS)).values() if head.vendor == vendor and head.dtype["a"] in TOLERANCE]
    able = [head for head in known if set(head.layout.values()) == {"row_major"}]
    assert len(able) > 3
    for head in able:
        b, exact = dense(200, 64, head.dtype["a"])
        multiply = SpMM(a, head.dtype["a"], kernel=head.name)
        check(multiply(b), a, exact, head.dtype["a"])
        for asked in ({"alpha": 2.0}, {"relu": True}, {"bias": b[0]}):
            with pytest.raises(ValueError, match=r"only A·B"):
                multiply(b, **asked)


def test_every_call_without_a_place_gives_an_array_of_its_own():
    from spmm_roofline import SpMM

    a = sparse(50, 60, 0.2)
    multiply = SpMM(a, "float32")
    pairs = [dense(60, 16, "float32", seed) for seed in range(3)]
    for c, (_, exact) in zip([multiply(b) for b, _ in pairs], pairs, strict=True):
        check(c, a, exact, "float32")


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        ("rows_fma", "float32"),
        ("split_fma", "float32"),
        ("window_fma", "float32"),
        ("rows_fma_f64", "float64"),
        ("split_fma_f64", "float64"),
        ("even_rows_fma_f64", "float64"),
        ("spread_rows_fma_f64_deep", "float64"),
    ],
)
def test_a_launch_serves_other_arrays_and_factors(kernel, dtype):
    from spmm_roofline import SpMM

    a = sparse(50, 6000, 0.2)
    multiply = SpMM(a, dtype, kernel=kernel)
    for seed, (alpha, beta) in enumerate([(1.0, 0.0), (0.5, -2.0), (2.0, 1.0), (1.0, 0.0), (-1.0, 0.0)]):
        b, exact = dense(6000, 40, dtype, seed)
        out, before = dense(50, 40, dtype, seed + 10)
        check(multiply(b, out=out, alpha=alpha, beta=beta), a, exact, dtype, alpha, beta * before)


def test_streams_do_not_mix_partial_sums(device):
    import cupy

    from spmm_roofline import SpMM

    # Rows split over all CTAs, in products that take long enough to overlap, each with its own B.
    k = 200_000 if device == "gpu" else 20_000
    a = sparse(8, k, 0.5)
    multiply = SpMM(a, "float32", kernel="rows_fma")
    pairs = [dense(k, 128, "float32", seed) for seed in range(3)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in pairs]
    results = []
    cupy.cuda.Device().synchronize()
    for _ in range(4):
        for stream, (b, exact) in zip(streams, pairs, strict=True):
            with stream:
                results.append((multiply(b), exact))
    cupy.cuda.Device().synchronize()
    for c, exact in results:
        check(c, a, exact, "float32")


def test_an_empty_product():
    import cupy

    from spmm_roofline import SpMM

    assert SpMM(csr_array((0, 5)))(cupy.zeros((5, 8), "float16")).shape == (0, 8)
    for dtype in ("float16", "float32", "float64"):
        for n in (8, 9, 131):
            assert not SpMM(csr_array((7, 5)), dtype)(cupy.ones((5, n), dtype)).any()
    assert SpMM(csr_array((7, 5)))(cupy.ones((5, 0), "float16")).shape == (7, 0)
    assert not SpMM(csr_array((7, 0)))(cupy.ones((0, 8), "float16")).any()


def test_what_does_not_fit_is_refused():
    import cupy

    from spmm_roofline import SpMM

    a = sparse(10, 20, 0.5)
    multiply = SpMM(a)
    for b, message in (
        (cupy.zeros((20, 8), "float32"), "takes arrays of float16"),
        (np.zeros((20, 8), "float16").tolist(), "takes arrays of CuPy, PyTorch or DLPack"),
        (cupy.zeros((10, 8), "float16"), "must have 20 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            multiply(b)
    b = cupy.zeros((20, 8), "float16")
    for bias, message in (
        (cupy.zeros(7, "float16"), "bias must have 8 values"),
        (cupy.zeros((8, 1), "float16"), "bias must have 8 values"),
        (cupy.zeros(8, "float32"), "bias is float32; a product in float16 takes arrays of float16"),
        (np.zeros(8, "float16").tolist(), "bias is list"),
    ):
        with pytest.raises(ValueError, match=message):
            multiply(b, bias=bias)
    with pytest.raises(ValueError, match="no out is given"):
        multiply(cupy.zeros((20, 8), "float16"), beta=1.0)
    with pytest.raises(ValueError, match="multiply in"):
        SpMM(a, "float8_e4m3")
    with pytest.raises(ValueError, match="no kernel that multiplies"):
        SpMM(a, kernel="nobody")
    with pytest.raises(ValueError, match="real numbers"):
        SpMM(a.astype(complex))
    with pytest.raises(ValueError, match="must be a sparse matrix"):
        SpMM(np.eye(3))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_a_capture_may_follow_the_first_product_of_a_width_that_is_tuned(dtype, monkeypatch):
    import cupy

    from spmm_roofline import SpMM

    a = sparse(40, 50, 0.05)
    multiply = SpMM(a, dtype, tune=True)
    b, exact = dense(50, 41, dtype)
    out = dense(40, 43, dtype)[0][:, :41]
    multiply(b, out=out)
    monkeypatch.setattr(cupy.cuda.runtime, "streamIsCapturing", lambda stream: True)
    check(multiply(b, out=out), a, exact, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_capture_may_renew_values_after_one_product_of_a_width(dtype, monkeypatch):
    import cupy

    from spmm_roofline import SpMM

    a = sparse(40, 50, 0.1)
    values = cupy.asarray(a.data)
    for n in (8, 24, 128):
        multiply = SpMM(a, dtype, n=1)
        multiply.update(values)
        multiply(dense(50, n, dtype)[0])
        with monkeypatch.context() as patch:
            patch.setattr(cupy.cuda.runtime, "streamIsCapturing", lambda stream: True)
            multiply.update(values)


def test_what_a_capture_cannot_hold_is_refused_before_it_is_enqueued(monkeypatch):
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.kernels.launch import DriverLaunch

    a = sparse(40, 50, 0.1)
    multiply = SpMM(a, "float16")
    b, wider = (cupy.zeros((50, n), dtype="float16") for n in (16, 32))
    values, bias = cupy.ones(a.nnz, dtype="float32"), cupy.zeros(33, dtype="float16")
    of_bias = bias[1:17]  # copied, because it is not aligned
    multiply(b)
    multiply(b, bias=bias[:16])
    multiply(b[:, :11])
    multiply.sample(b[:40], b)
    multiply.sample(b[:40, :11], b[:, :11])
    monkeypatch.setattr(cupy.cuda.runtime, "streamIsCapturing", lambda stream: True)
    multiply(b)
    multiply(b[:, :11])
    multiply.sample(b[:40], b)
    multiply.sample(b[:40, :11], b[:, :11])
    monkeypatch.setattr(DriverLaunch, "__call__", None)
    for first in (
        lambda: multiply(wider),
        lambda: multiply(wider[:, :21]),
        lambda: multiply(wider[:, ::2]),
        lambda: multiply(b, bias=of_bias),
        lambda: multiply.T,
        lambda: multiply.sample(wider[:40], wider),
        lambda: multiply.sample(wider[:40, :21], wider[:, :21]),
        lambda: multiply.update(values),
    ):
        with pytest.raises(ValueError, match="multiply once before"):
            first()
    with pytest.raises(ValueError, match="plan before the capture"):
        SpMM(a, "float16")


def test_plan_ms_is_all_that_the_host_waits_for(monkeypatch):
    import time

    from spmm_roofline import SpMM
    from spmm_roofline.kernels import choose
    from spmm_roofline.multiply import plan

    def slowly(function):
        def slow(*arguments, **options):
            time.sleep(0.03)
            return function(*arguments, **options)

        return slow

    a = sparse(40, 50, 0.1)
    for name in ("matrix_of", "pack"):
        monkeypatch.setattr(plan, name, slowly(getattr(plan, name)))
    monkeypatch.setattr(choose, "choose", slowly(choose.choose))
    multiply = SpMM(a, "float32")
    assert multiply.plan_ms >= 90, "the copy, the choice and packing"
    assert multiply.T.plan_ms >= 60, "A is here already"


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_another_stream_gets_scratch_that_it_fills(dtype, device, monkeypatch):
    import cupy

    from spmm_roofline import SpMM

    # One row is split between CTAs, which count their arrivals in scratch.
    a = sparse(60, 900, 0.02).tolil()
    a[7] = 1.0
    a, (b, exact) = a.tocsr(), dense(900, 40, dtype)
    multiply = SpMM(a, dtype)
    check(multiply(b), a, exact, dtype)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    if device == "emulated":
        stream.ptr = 7
        monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda device=0: stream)
    # What memory holds is nobody's promise.
    monkeypatch.setattr(cupy, "empty", lambda *given, **options: cupy.zeros(*given, **options))
    with stream:
        for _ in range(2):
            check(multiply(b), a, exact, dtype)


#: How a caller may give A on the device, from its arrays.
FORMS = {
    "a matrix": lambda sparse, arrays, shape: sparse.csr_matrix((arrays[2], *arrays[1::-1]), shape=shape),
    "arrays": lambda sparse, arrays, shape: arrays,
    "rows in another order": lambda sparse, arrays, shape: (arrays[0], arrays[1][::-1], arrays[2][::-1]),
    "a pattern": lambda sparse, arrays, shape: arrays[:2],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_may_change_after_it_was_planned(form, dtype):
    """Its values, columns and row pointers: neither what is planned later nor a sampled product reads them."""
    import cupy
    from cupyx.scipy import sparse as device_sparse

    from spmm_roofline import SpMM

    a = sparse(60, 90, 0.1).tolil()
    if form == "rows in another order":
        a[1:] = 0  # entries of a row in any order are its own
    a = csr_array(a)
    given = "float64" if dtype == "float64" else "float32"
    arrays = [cupy.array(a.indptr), cupy.array(a.indices), cupy.array(a.data.astype(given))]
    multiply = SpMM(FORMS[form](device_sparse, tuple(arrays), a.shape), dtype, n=24, shape=a.shape)
    (b, exact), (x, exact_x) = dense(90, 24, dtype), dense(60, 24, dtype, 2)
    before = multiply.sample(x, b)
    for array in arrays:
        array[...] = 10_000  # beyond every row and column
    values = np.ones(a.nnz) if form == "a pattern" else a.data.astype(given).astype(float)
    exact_a = csr_array((values, a.indices, a.indptr), a.shape)
    check(multiply(b), exact_a, exact, dtype)
    check(multiply.T(x), csr_array(exact_a.T), exact_x, dtype)
    assert bool((multiply.sample(x, b) == before).all())
    wide, exact_wide = dense(90, 512, dtype)
    check(multiply(wide), exact_a, exact_wide, dtype)
    multiply.update(cupy.array(a.data * 2) if form != "rows in another order" else cupy.array(a.data[::-1] * 2))
    doubled = csr_array((a.data * 2, a.indices, a.indptr), a.shape)
    check(multiply(b), doubled, exact, dtype)
    check(multiply.T(x), csr_array(doubled.T), exact_x, dtype)


def split_rows():
    """A whose full rows, and windows with them, several CTAs share: their partial sums arrive in any order."""
    a = sparse(3000, 4000, 0.02)
    a[[5, 700]] = 1.0
    return a.tocsr()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equal_operands_give_equal_bits(dtype, device):
    import cupy

    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("the emulated device runs CTAs in one order")
    multiply = SpMM(split_rows(), dtype)
    for n in (24, 128):
        b, _ = dense(4000, n, dtype)
        first, of_sample = multiply(b).copy(), multiply.sample(multiply(b), b)
        cupy.cuda.Device().synchronize()
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
        for i in range(100):
            with streams[i % 4]:
                assert (multiply(b).view("uint8") == first.view("uint8")).all()
                assert (multiply.sample(first, b).view("uint8") == of_sample.view("uint8")).all()


@pytest.mark.gpu
@pytest.mark.parametrize("n", [24, 128, 512])
def test_every_general_kernel_gives_equal_bits(n, device):
    import cupy

    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("the emulated device runs CTAs in one order")
    a = split_rows()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    for head in general_kernels():
        multiply = SpMM(a, head.dtype["a"], head.name)
        b, _ = dense(4000, n, head.dtype["a"])
        first = multiply(b).view("uint8")
        cupy.cuda.Device().synchronize()
        found = []
        for i in range(100):
            with streams[i % 4]:
                found.append((multiply(b).view("uint8") == first).all())
        cupy.cuda.Device().synchronize()
        assert all(map(bool, found)), head.name


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equal_values_give_equal_bits_after_every_update(dtype, device):
    import cupy

    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("the emulated device runs CTAs in one order")
    a = split_rows()
    multiply = SpMM(a, dtype)
    (b, _), (x, _) = dense(4000, 128, dtype), dense(3000, 128, dtype, 2)
    drawn = [cupy.array(np.random.default_rng(seed).random(a.nnz) - 0.5, dtype="float32") for seed in range(2)]
    expected = []
    for i in range(100):
        multiply.update(drawn[i % 2])
        found = [multiply(b), multiply.T(x)]
        if i < 2:
            expected.append(found)
        for one, first in zip(found, expected[i % 2], strict=True):
            assert (one.view("uint8") == first.view("uint8")).all(), i


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_replay_of_a_graph_gives_equal_bits(dtype, device):
    import cupy

    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("CUDA graphs need a GPU")
    multiply = SpMM(split_rows(), dtype)
    b, _ = dense(4000, 128, dtype)
    c = cupy.empty((3000, 128), dtype=b.dtype)
    expected = multiply(b, out=c).copy()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        multiply(b, out=c)  # with scratch of this stream
        stream.begin_capture()
        multiply(b, out=c)
        graph = stream.end_capture()
        for i in range(100):
            c[...] = 0
            graph.launch(stream)
            assert (c.view("uint8") == expected.view("uint8")).all(), i
