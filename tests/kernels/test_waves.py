"""Waves of CTAs: their number follows from the width and from the compiled kernel, and the work list from them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.hrpb import virtual_panels
from spmm_roofline.kernels import expressions, heads
from spmm_roofline.kernels.launch import scheduled

CUTESPMM = [name for name, head in heads().items() if head.format == "hrpb"]


def with_a_heavy_panel(panels, blocks, tm=16):
    """A matrix whose first panel has ``blocks`` blocks of 16 columns and whose other panels have one."""
    rows = np.append(np.zeros(16 * blocks, int), tm * np.arange(1, panels))
    columns = np.append(np.arange(16 * blocks), np.zeros(panels - 1, int))
    a = csr_array((np.ones(len(rows)), (rows, columns)), shape=(tm * panels, 16 * blocks))
    a.sort_indices()
    return a


def names(head, n, panels, multiprocessors, resident):
    """What an expression of ``waves`` may name, on a device that is not here."""
    return {
        "n": n,
        "a": expressions.namespace(panels=panels),
        "tile": expressions.namespace(**head.tile),
        "device": expressions.namespace(multiprocessors=multiprocessors),
        "resident": expressions.namespace(clear=1, cutespmm=resident),
    }


@pytest.mark.parametrize(
    ("n", "multiprocessors", "resident", "waves"),
    [
        (128, 100, 1, 10),  # section 5: ceil(991 / 100)
        (1, 100, 1, 10),
        (129, 100, 1, 20),  # two slabs of 128 columns: ceil(1982 / 100)
        (512, 100, 1, 40),
        (128, 100, 9, 2),
        (128, 100, 10, 1),
        (512, 100, 10, 4),
        (512, 132, 27, 2),
    ],
)
def test_the_number_of_waves_of_the_papers_example(n, multiprocessors, resident, waves):
    head = heads()["cutespmm"]
    assert expressions.evaluate(head.waves, names(head, n, 991, multiprocessors, resident)) == [waves]


@pytest.mark.parametrize(
    ("n", "resident", "heavy"),
    [(128, 1, [10]), (512, 1, [10]), (128, 10, [1] * 10), (256, 10, [2] * 5), (512, 10, [5, 5]), (2048, 10, [10])],
)
def test_the_work_list_depends_on_width_and_residency(n, resident, heavy):
    # 9.91 loads over 10, 40, 1, 2, 4 and 16 waves.
    head = heads()["cutespmm"]
    packed = FORMATS["hrpb"].from_csr(with_a_heavy_panel(991, 10), **head.options(100))
    made = scheduled(head, packed, names(head, n, packed.counts()["panels"], 100, resident))
    assert made.chunks[:, 1].tolist() == heavy + [1] * 990
    assert made.clear_panels.tolist() == [0] * (len(heavy) > 1)
    assert made.packed is packed.packed


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("cutespmm_unsplit", [1, 1, 6]),
        ("cutespmm_sorted", [6, 1, 1]),
        ("cutespmm_averaged", [1, 1, 3, 3]),  # 6 blocks over an average of 8 / 3
    ],
)
def test_the_schedules_that_the_paper_rejects_ignore_width_and_residency(name, blocks):
    head = heads()[name]
    a = with_a_heavy_panel(3, 6)[::-1]
    packed = FORMATS["hrpb"].from_csr(csr_array(a), **head.options(100))
    for n, resident in ((1, 1), (128, 1), (4096, 1), (128, 16)):
        made = scheduled(head, packed, names(head, n, 3, 1, resident))
        assert made.chunks[:, 1].tolist() == blocks


@pytest.mark.parametrize("name", CUTESPMM)
def test_kernels_of_one_machine_code_differ_in_their_schedule_alone(name):
    head, base = heads()[name], heads()["cutespmm"]
    assert head.launches == base.launches and head.waves == base.waves
    if head.tile == base.tile:
        assert head.defines() == base.defines()
        assert name == base.name or head.format_options["schedule"] != base.format_options["schedule"]


# --- on a device ----------------------------------------------------------------------------------------------------


def resident_by_rule(attributes, capability, registers, shared, warps):
    """The CUDA occupancy rule: the scarcest of registers, shared memory, warps and CTAs of a multiprocessor.

    Registers are allocated to a warp in units of 256, to each of four schedulers; shared memory in units of 128 bytes,
    of which the system reserves 1 KB a CTA (CUDA C++ Programming Guide, table of technical specifications).
    """
    most_ctas, most_warps, shared_bytes = {
        "80": (32, 64, 164 << 10),
        "86": (16, 48, 100 << 10),
        "89": (24, 48, 100 << 10),
        "90": (32, 64, 228 << 10),
    }[capability]
    assert attributes["MaxThreadsPerMultiProcessor"] == 32 * most_warps
    by_registers = 65536 // (-(-registers * 32 // 256) * 256) // 4 * 4 // warps
    by_shared = shared_bytes // (-(-(shared + 1024) // 128) * 128)
    return min(most_ctas, most_warps // warps, by_registers, by_shared)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cutespmm", "cutespmm_tm32"])
@pytest.mark.parametrize("n", [8, 32, 64, 96, 128, 512])
def test_the_driver_counts_resident_ctas_by_the_rule_of_occupancy(name, n):
    import cupy

    from spmm_roofline.kernels.cubins import machine_code
    from spmm_roofline.kernels.launch import _resident, load

    device = cupy.cuda.Device()
    if device.compute_capability not in ("80", "86", "89", "90"):
        pytest.skip(f"the limits of compute capability {device.compute_capability} are not in this test")
    head, module = heads()[name], load(machine_code(heads()[name]))
    known = {"n": n, "tile": expressions.namespace(**head.tile)}
    launch = head.launches[1]
    function = module.get_function(launch.entry)
    (smem,) = expressions.evaluate(launch.smem, known)
    expected = resident_by_rule(
        device.attributes, device.compute_capability, function.num_regs, smem + function.shared_size_bytes,
        min(4, -(-n // 32)),
    )  # fmt: skip
    assert _resident(launch, module, known) == expected


def call_of(head, cubin, a, n):
    """A verified call on ``a`` at width ``n``, and A as the launch reads it."""
    import cupy

    from spmm_roofline.formats.csr import Csr
    from spmm_roofline.formats.values import rounded, widened
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import allocate
    from spmm_roofline.kernels.packers import pack
    from spmm_roofline.measure.verify import verify

    rng = cupy.random.default_rng()
    exact = Csr(a.shape, a.nnz, "float64", *(cupy.asarray(x, "int32") for x in (a.indptr, a.indices)), cupy.empty(0))
    exact = replace(exact, data=widened(rounded(rng.random(a.nnz) + 0.5, "tf32"), "tf32"))
    packed = pack(FORMATS["hrpb"], exact, "tf32", head.options(1), None)
    b, c = allocate(head, "b", a.shape[1], n), allocate(head, "c", a.shape[0], n)
    b.fill(rng.random((a.shape[1], n)) * 2 - 1)
    call = prepare(head, cubin, packed, b, c)
    c.poison()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    call(stream)
    stream.synchronize()
    verdict = verify(exact, b, c, head.dtype_of_sums)
    assert not verdict.wrong, f"{head.name} n {n}: {verdict.wrong}"
    return call, call.keeps[1]


@pytest.mark.gpu
@pytest.mark.parametrize("name", CUTESPMM)
def test_a_launch_has_the_work_list_of_its_width(name):
    import cupy

    from spmm_roofline.kernels.cubins import machine_code
    from spmm_roofline.kernels.launch import _resident, load

    head, cubin = heads()[name], machine_code(heads()[name])
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
    # Enough panels for two waves even of 32 CTAs a multiprocessor.
    a = with_a_heavy_panel(40 * multiprocessors, 200, head.tile["m"])
    chunks = []
    for n in (32, 128, 512):
        call, used = call_of(head, cubin, a, n)
        known = {"n": n, "tile": expressions.namespace(**head.tile)}
        resident = _resident(head.launches[1], load(cubin), known)
        panels = used.counts()["panels"]
        (waves,) = expressions.evaluate(head.waves, names(head, n, panels, multiprocessors, resident))
        expected = virtual_panels(used.block_row_ptr, head.format_options["schedule"], waves)
        assert used.chunks[:, 0].tolist() == expected[0].tolist()
        assert used.clear_panels.tolist() == expected[3].tolist()
        assert call.format_bytes == used.nbytes and call.preprocess_ms > 0
        chunks.append(len(used.chunks))
    by_waves = head.format_options["schedule"] == "waves"
    # More CTAs in more waves: the heavy panel is cut less often.
    assert (chunks[0] > chunks[1] > chunks[2]) if by_waves else (chunks[0] == chunks[1] == chunks[2])


@pytest.mark.gpu
def test_a_program_packs_once_for_all_widths():
    import cupy

    from spmm_roofline import SpMM

    a = with_a_heavy_panel(500, 40)
    multiply = SpMM(a, "tf32", kernel="cutespmm")
    for n in (8, 128, 500):
        b = cupy.random.default_rng(n).integers(-8, 9, (a.shape[1], n)).astype("float32")
        assert cupy.array_equal(multiply(b), cupy.asarray(a @ b.get(), "float32"))
    assert len(multiply._packed) == 1
