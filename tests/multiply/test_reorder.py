"""Products whose rows are multiplied in another order than the caller's."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from spmm_roofline.kernels.choose import costed
from spmm_roofline.matrices.generated import GENERATORS
from tests.multiply.operands import TOLERANCE, as_stored, check, dense, general_kernels, sparse, vector

pytestmark = pytest.mark.usefixtures("device")

#: Kernels that take unaligned rows, by dtype.
UNALIGNED = {"float32": ("split_fma", "rows_fma"), "float64": ("split_fma_f64", "rows_fma_f64")}


def mesh(nodes=18, seed=0, longest=0.9):
    """A mesh whose points are numbered at random, with empty rows and three with so many of the columns."""
    rng = np.random.default_rng(seed)
    entries = GENERATORS["mesh2d"].make(rng, nodes=nodes, shuffled=True)
    m = nodes * nodes
    rows, columns = np.asarray(entries.rows), np.asarray(entries.columns)
    keep = ~np.isin(rows, [0, 5, m - 1])
    count = int(longest * m)
    long = np.repeat([7, 8, m // 2], count), np.concatenate([rng.permutation(m)[:count] for _ in range(3)])
    rows, columns = np.concatenate([rows[keep], long[0]]), np.concatenate([columns[keep], long[1]])
    a = csr_array((np.ones(len(rows)), (rows, columns)), shape=(m, m))
    a.data = rng.random(a.nnz) - 0.5
    return a


def given(a):
    """The arrays of A with its entries in no order within a row, and their positions in it."""
    rng = np.random.default_rng(5)
    order = np.concatenate([begin + rng.permutation(end - begin) for begin, end in pairwise(a.indptr)])
    return (a.indptr, a.indices[order], a.data[order]), order


@pytest.fixture
def always(monkeypatch):
    """Orders that read fewer rows of B are taken, whatever is predicted."""
    from spmm_roofline.multiply import reorder

    monkeypatch.setattr(reorder, "LEAST_SPEEDUP", 0.0)


def heads():
    return [head for head in general_kernels() if head.takes_reordered]


@pytest.mark.parametrize("n", [40, 300])
def test_every_general_kernel_puts_rows_of_c_back(n, device, monkeypatch):
    from spmm_roofline import SpMM
    from tests.emulation import device as emulated

    if device == "emulated" and n != 40:
        pytest.skip("other widths take the emulation a minute")
    # Partitions are many on a GPU, and on an emulated device whose L2 holds few of the rows of B.
    monkeypatch.setattr(emulated, "L2_BYTES", 1 << 14)
    a = mesh(70 if device == "gpu" else 24)
    m = a.shape[0]
    assert len(heads()) >= 20
    split = set()  # kernels in which several CTAs share a row
    # On the host, compilations take most of the time: of twins in two dtypes one is enough.
    for head in (head for head in heads() if device == "gpu" or costed(head.name) == head.name):
        dtype = head.dtype["a"]
        b, exact = dense(m, n, dtype)
        multiply = SpMM(a, dtype, kernel=head.name, reorder="rows")
        assert multiply.reordered and multiply.kernel_for(n) == head.name
        if device == "gpu":
            check(multiply(b), a, exact, dtype)
        bias, added = vector(n, dtype)
        for _ in range(2):  # split rows and windows count their partial sums anew in every call
            out, before = dense(m, n, dtype, seed=2)
            assert multiply(b, out=out, alpha=0.5, beta=-2.0, bias=bias, relu=True) is out
            check(out, a, exact, dtype, 0.5, added - 2.0 * before, relu=True)
        (packed,) = multiply._packed.values()
        if packed.counts().get("partials"):
            split.add(head.path.stem)
    assert split >= {"rows_fma", "split_fma", "split_f16", "window_fma", "window_f16", "window_tf32", "staged_f16"}


@pytest.mark.parametrize("dtype", UNALIGNED)
def test_rows_that_begin_at_any_element(dtype, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import choose
    from spmm_roofline.multiply import plan

    for limit in ("COPY_PAYS", "COPY_PAYS_FOR_FULL_SLABS", "COPY_PAYS_FOR_WINDOWS"):
        monkeypatch.setattr(choose, limit, float("inf"))
    monkeypatch.setattr(plan, "padded_copy", None)
    a = mesh()
    for kernel in UNALIGNED[dtype]:
        multiply = SpMM(a, dtype, kernel=kernel, reorder="rows")
        for n in (3, 33):
            b, exact = dense(a.shape[1], n, dtype)
            out, before = dense(a.shape[0], n, dtype, seed=2)
            check(multiply(b), a, exact, dtype)
            check(multiply(b, out=out, alpha=0.5, beta=-2.0), a, exact, dtype, 0.5, -2.0 * before)


def test_in_waves(device, monkeypatch):
    from spmm_roofline import SpMM
    from tests.emulation import device as emulated

    # L2 holds few of the rows of B: on a GPU because there are many.
    monkeypatch.setattr(emulated, "L2_BYTES", 1 << 14)
    a = mesh(800 if device == "gpu" else 22)
    for kernel in ("rows_fma", "split_fma", "window_fma", "staged_f16", "split_f16"):
        dtype = "float16" if kernel.endswith("f16") else "float32"
        b, exact = dense(a.shape[1], 24, dtype)
        multiply = SpMM(a, dtype, kernel=kernel, reorder="rows")
        for _ in range(2):
            check(multiply(b), a, exact, dtype)
        (packed,) = multiply._packed.values()
        assert multiply.reordered and packed.counts()["partitions"] > 6, kernel


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_all_that_a_product_gives_has_the_order_of_the_caller(dtype):
    """Products, the transpose, samples, new values, other dtypes and values of one call."""
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import rounded, widened

    a = mesh(14)
    arrays, order = given(a)
    multiply = SpMM(tuple(map(cupy.asarray, arrays)), dtype, shape=a.shape, reorder="rows")
    plain = SpMM(tuple(map(cupy.asarray, arrays)), dtype, shape=a.shape)
    assert multiply.reordered and not plain.reordered
    b, exact = dense(a.shape[1], 24, dtype)
    x, of_x = dense(a.shape[0], 24, dtype, seed=4)
    check(multiply(b), a, exact, dtype)
    check(multiply.T(x), csr_array(a.T), of_x, dtype)
    assert multiply.T.reordered and multiply.T.T is multiply
    check((x.T @ multiply).T, csr_array(a.T), of_x, dtype)
    samples, wanted = (widened(each.sample(x, b), dtype).get() for each in (multiply, plain))
    assert (samples == wanted).all()
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    by_hand = (of_x[rows] * exact[a.indices]).sum(axis=1)[order]
    assert np.abs(samples - by_hand).max() < 20 * TOLERANCE[dtype]
    for seed in (6, 7):
        values = np.random.default_rng(seed).random(a.nnz) - 0.5
        multiply.update(cupy.asarray(values))
        own = np.empty(a.nnz)
        own[order] = values
        other = csr_array((own, a.indices, a.indptr), shape=a.shape)
        check(multiply(b), other, exact, dtype)
        check(multiply.T(x), csr_array(other.T), of_x, dtype)
    relative = multiply.relative(dtype="float64" if dtype != "float64" else "float32")
    of_b = rounded(cupy.asarray(exact), relative.dtype)
    assert relative.reordered
    check(relative(of_b), other, as_stored(exact, relative.dtype), relative.dtype)
    own, plain = (SpMM(a, dtype, kernel=multiply.kernel_for(24), reorder=order) for order in ("rows", None))
    assert own.reordered and own.plan_bytes > plain.plan_bytes


@pytest.mark.usefixtures("always")
def test_gradients_and_values_of_a_call(torch):
    from spmm_roofline import SpMM, sddmm, spmm

    a = mesh(12)
    multiply = SpMM(a, "float64", reorder="rows")
    plain = SpMM(a, "float64")
    assert multiply.reordered
    rng = np.random.default_rng(2)
    x = torch.tensor(rng.random((a.shape[1], 8)), requires_grad=True)
    values = torch.tensor(rng.random((2, a.nnz)), requires_grad=True)
    bias = torch.tensor(rng.random(8) - 5, requires_grad=True)
    found = []
    for each in (multiply, plain):
        for leaf in (x, values, bias):
            leaf.grad = None
        result = spmm(each, x, values, bias=bias, relu=True)
        loss = result.square().sum() + sddmm(each, result[0], x).square().sum()
        loss.backward()
        found.append((result.detach().clone(), *(leaf.grad.clone() for leaf in (x, values, bias))))
    for own, wanted in zip(*found, strict=True):
        assert torch.allclose(own, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("always")
def test_row_blocks_are_reordered_each_for_itself(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import blocks

    monkeypatch.setattr(blocks, "MOST_SLOTS", 900)
    a = mesh(14)
    multiply = SpMM(a, "float32", reorder="rows")
    assert len(multiply._blocks) > 1 and multiply.reordered
    b, exact = dense(a.shape[1], 16, "float32")
    x, of_x = dense(a.shape[0], 16, "float32", seed=4)
    check(multiply(b), a, exact, "float32")
    check(multiply.T(x), csr_array(a.T), of_x, "float32")


@pytest.mark.usefixtures("always")
def test_duplicates_and_many_shapes():
    from spmm_roofline import SpMM

    rng = np.random.default_rng(3)
    for m, k, count in ((1, 1, 1), (7, 300, 90), (300, 7, 900), (500, 40, 0), (0, 5, 0), (400, 400, 1200)):
        rows, columns = (rng.integers(max(size, 1), size=count) for size in (m, k))
        a = coo_array((rng.random(count) - 0.5, (rows, columns)), shape=(m, k))
        b, exact = dense(k, 16, "float32")
        check(SpMM(a, "float32", reorder="rows")(b), csr_array(a), exact, "float32")


@pytest.mark.parametrize("n", [32, 512])
def test_predicted_times_of_both_orders_decide(n, monkeypatch):
    """They are those of the planned width, each for the kernels that can multiply in its order."""
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan, reorder

    a, asked = mesh(14), []
    plain = SpMM(a, "float32", n=n)

    def pays(given_us, ordered_us):
        asked.append((given_us, ordered_us))
        return answer

    monkeypatch.setattr(plan, "pays", pays)
    for answer in (False, True):
        multiply = SpMM(a, "float32", n=n, reorder="rows")
        assert multiply.reordered == answer
        assert asked[-1] == (plain._choice.least_us(n), asked[0][1])
        if answer:
            assert multiply._choice.least_us(n) == asked[-1][1] != asked[-1][0]
        b, exact = dense(a.shape[1], n, "float32")
        check(multiply(b), a, exact, "float32")
    assert reorder.pays(112, 100) and not reorder.pays(109, 100)
    assert not reorder.pays(float("inf"), float("inf")), "kernels without predictions keep the given order"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_solid_that_is_numbered_at_random_gets_another_order(dtype, device):
    from spmm_roofline import SpMM

    # On a GPU a small one takes as long as a launch.
    nodes = 21 if device == "gpu" else 10
    entries = GENERATORS["fem3d"].make(np.random.default_rng(0), nodes=nodes)
    number = np.random.default_rng(1).permutation(entries.shape[0])
    values = np.random.default_rng(2).random(len(entries.rows)) - 0.5
    for rows, columns in ((entries.rows, entries.columns), (number[entries.rows], number[entries.columns])):
        a = csr_array((values, (rows, columns)), shape=entries.shape)
        multiply = SpMM(a, dtype, n=512, reorder="rows")
        assert multiply.reordered == (rows is not entries.rows)
        b, exact = dense(a.shape[1], 512 if device == "gpu" else 8, dtype)
        check(multiply(b), a, exact, dtype)


@pytest.mark.usefixtures("always")
def test_an_order_that_does_not_read_less_is_not_taken():
    from spmm_roofline import SpMM

    rows = np.repeat(np.arange(300), 3)
    columns = np.clip(rows + np.tile([-1, 0, 1], 300), 0, 299)
    band = csr_array((np.ones(900), (rows, columns)), shape=(300, 300))
    multiply = SpMM(band, "float32", reorder="rows")
    b, exact = dense(300, 16, "float32")
    check(multiply(b), band, exact, "float32")
    assert not multiply.reordered


def test_what_cannot_be_reordered_is_refused():
    from spmm_roofline import SpMM

    a = sparse(50, 60, 0.1)
    with pytest.raises(ValueError, match="reorder is 'columns'; it may be None or 'rows'"):
        SpMM(a, reorder="columns")
    with pytest.raises(ValueError, match="gespmm_seq_row cannot put rows of C back in order; leave reorder out"):
        SpMM(a, "float32", kernel="gespmm_seq_row", reorder="rows")


def test_clusters_and_orders():
    """Every row comes once; clusters of a chain of rows are connected and near the size that is asked for."""
    import cupy
    import cupyx.scipy.sparse as sparse_of_cupy

    from spmm_roofline.multiply import reorder

    m = 1000
    rng = np.random.default_rng(1)
    number = rng.permutation(m)
    # A chain: rows i and i + 1 have a column in common, and are numbered at random.
    rows, columns = np.concatenate([number, number[1:]]), np.concatenate([np.arange(m), np.arange(m - 1)])
    a = csr_array((np.ones(2 * m - 1), (rows, columns)), shape=(m, m))
    entries = reorder.entries_of(sparse_of_cupy.csr_matrix(a))
    of_row = reorder.clusters(entries, 8).get()
    along = of_row[number]
    runs = 1 + np.count_nonzero(along[1:] != along[:-1])
    reached = len(np.unique(of_row))
    assert reached <= m // 8 and runs == reached, "a cluster of a chain is an interval of it"
    assert np.bincount(of_row).max() <= 2 * reorder.MOST_ROUNDS + 1
    order = reorder.best_order(sparse_of_cupy.csr_matrix(a))
    assert sorted(order.rows.get()) == list(range(m)) and order.reads < 0.75
    given = reorder.reads(entries, cupy.arange(m, dtype="int32"))
    assert order.reads == reorder.reads(entries, order.rows) / given


def test_reads_counts_distinct_columns_of_windows_and_panels():
    import cupy
    import cupyx.scipy.sparse as sparse_of_cupy

    from spmm_roofline.multiply import reorder

    a = sparse(500, 90, 0.05)
    rows = np.random.default_rng(8).permutation(500).astype(np.int32)
    entries = reorder.entries_of(sparse_of_cupy.csr_matrix(a))
    moved = csr_array(a[rows])
    wanted = sum(
        len(np.unique(moved.indices[moved.indptr[first] : moved.indptr[min(first + panel, 500)]]))
        for panel in reorder.PANELS
        for first in range(0, 500, panel)
    )
    assert reorder.reads(entries, cupy.asarray(rows)) == wanted / a.nnz


def test_reads_of_some_of_the_panels_are_near_those_of_all(monkeypatch):
    import cupy
    import cupyx.scipy.sparse as sparse_of_cupy

    from spmm_roofline.multiply import reorder

    a = mesh(60, longest=0)
    entries, rows = reorder.entries_of(sparse_of_cupy.csr_matrix(a)), cupy.arange(a.shape[0], dtype="int32")
    of_all = reorder.reads(entries, rows)
    monkeypatch.setattr(reorder, "COUNTED_ENTRIES", 1 << 12)
    of_some = reorder.reads(entries, rows)
    assert of_some != of_all and of_some == pytest.approx(of_all, rel=0.05)
