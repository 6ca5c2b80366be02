"""A measure job on a device, end to end."""

import re
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import pytest

from spmm_roofline import contracts, matrices
from spmm_roofline.formats.pack import describe
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.compile import compile_kernel, cubin_of
from spmm_roofline.measure import device, run
from spmm_roofline.measure.job import Job
from spmm_roofline.plan import MEASURING_KERNELS
from tests.kernels.external.build import on_device

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """``measured(kernel, n, l2)``: the table of a job on four small matrices, one without a single non-zero."""
    folder = tmp_path_factory.mktemp("job")
    empty = folder / "empty.mtx"
    empty.write_text("%%MatrixMarket matrix coordinate real general\n50 30 0\n")
    suite = {
        "name": "s",
        "matrices": {
            "file": [{"path": str(empty)}],
            "generated": [
                {"generator": "uniform", "name": "tall", "rows": 900, "columns": 200, "nnz_per_row": 3},
                {"generator": "uniform", "name": "wide", "rows": 33, "columns": 2000, "nnz_per_row": 90},
                {"generator": "mesh2d", "name": "mesh", "nodes": 30},
            ],
        },
    }
    arch = device.visible()[0].arch
    names = []
    for spec in matrices.expand(suite, {}):
        names.append(spec["matrix"])
        matrices.build(spec, {}, f"{folder}/{names[-1]}.npz", f"{folder}/{names[-1]}.json")

    def compiled(*kernels):
        for name in kernels:
            if not (folder / f"{name}.cubin").exists():
                compile_kernel(heads()[name], {arch: (folder / f"{name}.cubin", folder / f"{name}.kernel.json")})

    compiled(*MEASURING_KERNELS.values())
    clock = folder / "dram_read.cubin", folder / "dram_copy.cubin"
    # In a process that ends: with a context of its own, this one would disturb the worker, which then times rows anew.
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        other.submit(device.describe, "h200", arch, *clock, folder / "device.json").result()

    def task(kernel, n, l2="cold", external=(), cubin=None, **options):
        head = heads(external=external)[kernel]
        compiled(*[] if head.vendor else [kernel])
        formats = [f"{folder}/{name}.{head.format}.json" for name in names]
        for name, row in zip(names, formats, strict=True):
            describe(head.format, f"{folder}/{name}.npz", f"{folder}/{name}.json", row)
        described = Job(
            suite="s", kernel=kernel, device="h200", arch=arch, n=n, l2=l2,
            matrices=[(f"{folder}/{name}.npz", f"{folder}/{name}.json") for name in names], formats=formats,
            kernel_row=None if head.vendor or cubin else f"{folder}/{kernel}.kernel.json",
            cubin=None if head.vendor else str(cubin or folder / f"{kernel}.cubin"),
            read_cubin=str(clock[0]), copy_cubin=str(clock[1]), check_cubin=f"{folder}/check.cubin",
            device_record=f"{folder}/device.json",
            options={"repeat_cap": 60, "time_cap_ms": 200, "case_timeout_s": 60, **options}, external=external,
        )  # fmt: skip
        return run.Task(described, folder / f"{kernel}.csv", folder / f".{kernel}.journal")

    def job(kernels, *arguments, **options):
        tasks = [task(kernel, *arguments, **options) for kernel in ([kernels] if isinstance(kernels, str) else kernels)]
        run.run(tasks)
        return contracts.read_all([task.csv for task in tasks], "measure").set_index(["matrix", "n"])

    return job


def test_any_shape_and_width_gives_a_row(measured):
    rows = measured("mma_bt", [1, 8, 33])
    assert (rows.status.xs(8, level="n") == "ok").all()
    assert (rows.status.drop(8, level="n") == "unsupported").all()
    assert rows.message["tall", 33] == "mma_bt needs n to be a multiple of 8, not 33"


def test_a_library_takes_any_width(measured):
    rows = measured("cusparse_csr", [1, 33], "warm")
    assert (rows.status == "ok").all(), rows.message.tolist()
    assert rows.cuda.str.startswith("cuSPARSE").all()
    assert (rows.useful_gflops["empty"] == 0).all()


def test_an_external_library_gives_rows(measured, tmp_path):
    path = on_device(tmp_path / "libmine.so", device.visible()[0].arch)
    rows = measured("peer_on_device", [1, 33], external=(str(path),))
    assert (rows.status == "ok").all(), rows.message.tolist()
    assert (rows.study == "external").all() and (rows.cuda == "libmine.so").all()
    assert (rows.format_bytes == (rows.m + 1) * 4 + rows.nnz * 8).all()


def test_work_beside_the_stream_is_wrong_and_not_fast(measured, tmp_path):
    path = on_device(tmp_path / "libmine.so", device.visible()[0].arch, IGNORES_STREAM=1)
    rows = measured("peer_on_device", [8], external=(str(path),))
    assert (rows.status == "wrong").all() and rows.time_ms.isna().all()
    assert rows.message.str.contains(r"after \d+ calls: .* rows of C hold NaN").all(), rows.message.tolist()


def test_a_device_out_of_memory_is_a_row(measured, monkeypatch):
    # Enough for the clock's two buffers and a little more.
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", str((1 << 30) + (64 << 20)))
    rows = measured("cusparse_csr", [8, 200_000])
    assert (rows.status.xs(8, level="n") == "ok").all()
    assert rows.status["wide", 200_000] == "out_of_memory"


@pytest.fixture
def faulty(tmp_path):
    """mma_bt that does not end at N = 16, writes where there is nothing at N = 24 and changes B a little at N = 40."""
    head = heads()["mma_bt"]
    faults = """
    if (gridDim.x == 2) while (true) __nanosleep(100);
    if (gridDim.x == 3) *reinterpret_cast<volatile int*>(1ull << 46) = 1;
    if (gridDim.x == 5 && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        ++reinterpret_cast<unsigned short*>(const_cast<half*>(b))[0];
    """
    source = head.path.read_text()
    entry = re.search(r"void[^;{]*\bmma_bt\([^{]*\{", source).end()
    code, _ = cubin_of(
        source[:entry] + faults + source[entry:],
        head.name,
        device.visible()[0].arch,
        head.defines(),
        head.path.parents[1] / "include",
    )
    (tmp_path / "faulty.cubin").write_bytes(code)
    return tmp_path / "faulty.cubin"


def test_a_kernel_that_hangs_or_writes_anywhere_costs_its_cases(measured, faulty):
    rows = measured("mma_bt", [8, 16, 24, 32], cubin=faulty, case_timeout_s=8)
    statuses = {n: set(rows.status.xs(n, level="n").drop("empty")) for n in (8, 16, 24, 32)}
    assert statuses == {8: {"ok"}, 16: {"timeout"}, 24: {"launch_failed"}, 32: {"ok"}}
    assert rows.message["mesh", 16] == "no answer within 8 s"
    assert "illegal" in rows.message["mesh", 24].lower()


def test_a_kernel_that_changes_what_it_only_reads_is_wrong(measured, faulty):
    with pytest.raises(run.WrongResult, match=r"4 of 8 cases are wrong, .* wrote outside of C: 1 arrays"):
        measured("mma_bt", [8, 40], cubin=faulty)


def test_kernels_that_share_a_worker_get_their_own_rows(measured):
    together = measured(["cusparse_csr", "mma_bt", "gespmm_seq_row"], [8, 32])
    assert len(together) == 3 * 2 * 4 and (together.status == "ok").all(), together.message.tolist()
    assert (together.look_ms + together.pack_ms - together.preprocess_ms).abs().max() < 1e-6
    assert (together.time_low_ms <= together.time_ms).all() and (together.time_ms <= together.time_high_ms).all()


def test_a_gpu_that_disappeared_is_an_error_that_says_so(measured, monkeypatch):
    @contextmanager
    def leased(**_):
        yield device.Gpu("GPU-00000000-0000-0000-0000-000000000000", "NVIDIA H200", (9, 0), "1")

    monkeypatch.setattr(device, "lease", leased)
    with pytest.raises(RuntimeError, match=r"the worker does not start: .*[Dd]evice"):
        measured("mma_bt", [24])  # a width of which no other test has left rows
