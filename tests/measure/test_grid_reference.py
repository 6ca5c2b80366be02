"""The verdict on a stencil without entries is that of the same matrix in CSR, whatever the size of the slabs."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.csr import Csr
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.matrices.grids import GridOperator
from spmm_roofline.matrices.stencils import STENCILS, drawn_coefficients
from spmm_roofline.measure import grid_reference, verify, worker
from spmm_roofline.measure.verify import _decide, _summary, errors_of, summary_on_grid

CLASS = ("float64", "float64")
GRIDS = [(1, 1, 1), (7, 1, 1), (1, 9, 1), (2, 3, 1), (13, 11, 1), (33, 20, 1), (5, 4, 3), (9, 7, 12), (1, 1, 9)]
CASES = [(points, *grid) for points in STENCILS for grid in GRIDS if grid[2] == 1 or points.startswith("3")]


def operator(points, nx, ny, nz):
    return GridOperator(points, nx, ny, nz, drawn_coefficients(np.random.default_rng(), len(STENCILS[points].offsets)))


def listed(a):
    """The matrix with entries, as SciPy's CSR."""
    return FORMATS["stencil"].from_grid(a).to_csr()


def dense(values):
    """A column-major operand on the host, with a padding of NaN."""
    rows, columns = values.shape
    storage = np.full((columns + 1, rows + 3), np.nan)
    storage[:columns, :rows] = values.T
    return Dense(storage, rows, columns, True, "float64")


def power(csr, b, steps):
    for _ in range(steps):
        b = csr @ b
    return b


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_slabs_give_the_product_and_the_norms(case, steps):
    a, rng = operator(*case), np.random.default_rng()
    csr = listed(a)
    b = rng.random((a.shape[0], 2)) * 2 - 1
    expected = power(csr, b, steps)
    norms = np.sqrt((csr.power(2)).sum(axis=1))
    size = np.abs(csr).sum(axis=1).max() ** steps
    for most in (1, 50, 10**6):
        found = list(grid_reference.slabs(a, dense(b), steps, most))
        assert [row for slab in found for row in slab.rows] == list(range(a.shape[0]))
        assert np.abs(np.concatenate([slab.product for slab in found]) - expected).max() < 1e-15 * size * steps
        squares = sum(slab.input_square for slab in found)
        assert squares == pytest.approx((power(csr, b, steps - 1) ** 2).sum(), rel=1e-12)
        assert np.concatenate([grid_reference.row_norms(a, slab.rows) for slab in found]) == pytest.approx(norms)


def test_slabs_are_small():
    a = operator("3d7pt", 8, 8, 64)
    found = list(grid_reference.slabs(a, dense(np.ones((a.shape[0], 1))), 3, 256))
    assert {len(slab.rows) for slab in found} == {256}


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("points", STENCILS)
@pytest.mark.parametrize("fault", ["none", "rounding", "coefficient", "row", "poison"])
def test_the_verdict_is_that_of_the_entries(points, steps, fault):
    a, rng = operator(points, 9, 8, 7 if points.startswith("3") else 1), np.random.default_rng(1)
    csr, m = listed(a), a.shape[0]
    b = rng.random((m, 2)) * 2 - 1
    wrong = replace(a, coefficients=a.coefficients * np.where(np.arange(len(a.coefficients)) == 1, 1 + 1e-9, 1))
    c = power(listed(wrong) if fault == "coefficient" else csr, b, steps)
    row = int(rng.integers(m))
    if fault == "rounding":
        c *= 1 + 1e-15 * rng.random(c.shape)
    elif fault == "row":
        c[row] += 1e-8
    elif fault == "poison":
        c[row, 0] = np.nan
    exact = Csr(csr.shape, csr.nnz, "float64", csr.indptr, csr.indices, csr.data)
    by_entries = _decide(_summary(errors_of(exact, dense(b), dense(c), lambda x: csr @ x, steps)), *CLASS)
    for most in (1, 60, 10**6):
        found = _decide(summary_on_grid(a, dense(b), dense(c), steps, most), *CLASS)
        assert found.rel_error == pytest.approx(by_entries.rel_error, rel=1e-2, abs=1e-15, nan_ok=True)
        assert found.max_row_error == pytest.approx(by_entries.max_row_error, rel=1e-2, abs=1e-15, nan_ok=True)
        assert bool(found.wrong) == bool(by_entries.wrong) == (fault not in ("none", "rounding"))
        if fault == "poison":
            assert found.wrong == f"1 of {m} rows of C hold NaN: not written, or wrongly"


def test_the_row_that_is_wrong_is_named():
    a = operator("2d5pt", 16, 40, 1)
    b = np.random.default_rng().random((640, 1)) * 2 - 1
    c = listed(a) @ b
    c[517] += 1e-11
    found = summary_on_grid(a, dense(b), dense(c), 1, 100)
    assert found.worst_row == 517
    verdict = _decide(replace(found, error_square=0.0), *CLASS)
    assert "of row 517 is above" in verdict.wrong


def test_the_definition_is_asked_about_random_rows(monkeypatch):
    a = operator("3d27pt", 6, 6, 6)
    b = np.random.default_rng().random((216, 1)) * 2 - 1
    c = listed(a) @ b
    assert not verify.verify(a, dense(b), dense(c), "float64").wrong
    applied = grid_reference._applied

    def off(*arguments):
        result = applied(*arguments)
        result[1:5] *= 1 + 1e-11
        return result

    monkeypatch.setattr(grid_reference, "_applied", off)
    with pytest.raises(AssertionError, match=r"the float64 reference is off by .* in row \d+; no row can be verified"):
        verify.verify(a, dense(b), dense(c), "float64")


def test_b_is_drawn_in_sections(monkeypatch):
    monkeypatch.setattr(worker, "DRAWN", 7)
    b = Dense(np.full((4, 55), np.nan), 50, 3, True, "float64")
    worker.fill_at_random(b, np.random.default_rng())
    assert np.abs(b.view).max() < 1 and len(np.unique(b.view)) == 150
    assert np.isnan(b.storage[3]).all() and np.isnan(b.storage[:, 50:]).all()


# --- on a device ------------------------------------------------------------------------------------------------------


def multiplied(name, extents, n=1, spoil=False):
    """Verdict on a launch on a grid without entries; ``spoil`` changes one coefficient slightly."""
    import cupy

    from spmm_roofline.kernels.cubins import machine_code
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import allocate

    head = heads()[name]
    a = operator(head.format_options["points"], *extents)
    a = replace(a, coefficients=cupy.asarray(a.coefficients))
    packed = FORMATS["stencil"].from_grid(a, **head.format_options)
    if spoil:
        for array in packed.arrays().values():
            array.ravel()[cupy.abs(array).argmax()] *= 1 + 1e-9
    b, c = allocate(head, "b", a.shape[1], n), allocate(head, "c", a.shape[0], n)
    worker.fill_at_random(b, cupy.random.default_rng())
    call = prepare(head, machine_code(head), packed, b, c)
    c.poison()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    call(stream)
    stream.synchronize()
    return verify.verify(a, b, c, head.dtype_of_sums, head.steps)


KERNELS = [name for name, head in heads().items() if head.format == "stencil"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_right_without_entries(name, monkeypatch):
    extents = (67, 40, 33) if "3d" in heads()[name].format_options["points"] else (131, 200, 1)
    # Several slabs.
    monkeypatch.setattr(verify, "summary_on_grid", partial(summary_on_grid, most=5000))
    for n in (1, 3):
        assert not multiplied(name, extents, n).wrong
    assert "above" in multiplied(name, extents, spoil=True).wrong


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_right_beyond_32_bit_offsets(name):
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    if cupy.cuda.runtime.memGetInfo()[0] < 34 << 30:
        pytest.skip("B, C and the check take 25 GB on the grids of the study")
    extents = (1024, 1024, 1024) if "3d" in heads()[name].format_options["points"] else (32768, 32768, 1)
    verdict = multiplied(name, extents)
    assert not verdict.wrong, verdict.wrong


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["stencil_cc_3d7pt", "stencil_tc_blocked_3d27pt", "stencil_lowrank_tc_2d49pt"])
def test_a_job_measures_a_grid_and_refuses_one_without_room(name, tmp_path, monkeypatch):
    from spmm_roofline import contracts, matrices
    from spmm_roofline.formats.pack import describe
    from spmm_roofline.kernels.compile import compile_kernel
    from spmm_roofline.measure import device, run
    from spmm_roofline.measure.job import Job

    points, arch = heads()[name].format_options["points"], device.visible()[0].arch
    small, large = ((300, 200, 90), (1024, 1024, 700)) if "3d" in points else ((900, 700, 1), (20480, 20480, 1))
    entries = [dict(zip(("points", "nx", "ny", "nz"), (points, *grid), strict=True)) for grid in (small, large)]
    files = []
    for spec in matrices.expand({"name": "s", "matrices": {"grids": entries}}, {}):
        files.append((f"{tmp_path}/{spec['matrix']}.npz", f"{tmp_path}/{spec['matrix']}.json"))
        matrices.build(spec, {}, *files[-1])
        describe("stencil", *files[-1], f"{tmp_path}/{len(files)}.json")

    def cubin(kernel):
        files = tmp_path / f"{kernel}.cubin", tmp_path / f"{kernel}.json"
        compile_kernel(heads()[kernel], {arch: tuple(map(str, files))})
        return files[0]

    clock = cubin("dram_read"), cubin("dram_copy")
    device.describe("h200", arch, *clock, tmp_path / "device.json")
    own = cubin(name)
    # Enough for the clock's two buffers and the small grid.
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", str((1 << 30) + (2 << 30)))
    job = Job(
        suite="s", kernel=name, device="h200", arch=arch, n=[1], l2="warm", matrices=files,
        formats=[f"{tmp_path}/1.json", f"{tmp_path}/2.json"], kernel_row=str(own.with_suffix(".json")),
        cubin=str(own), read_cubin=str(clock[0]), copy_cubin=str(clock[1]), check_cubin=str(cubin("check")),
        device_record=f"{tmp_path}/device.json",
        options={"repeat_cap": 60, "time_cap_ms": 200, "case_timeout_s": 60},
    )  # fmt: skip
    run.run([run.Task(job, tmp_path / "out.csv", tmp_path / ".journal")])
    rows = contracts.read(tmp_path / "out.csv", "measure")
    assert rows["status"].tolist() == ["ok", "out_of_memory"], rows["message"].tolist()
    assert rows["compulsory_bytes"].iloc[0] == 16 * rows["m"].iloc[0]
    assert rows["format_bytes"].iloc[0] < 2000 and rows["useful_gflops"].iloc[0] > 0
