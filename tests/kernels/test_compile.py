"""Every kernel is compiled for the three architectures, without a GPU; what the compiler refuses becomes a row."""

import hashlib
import shutil
from pathlib import Path

import pytest

from spmm_roofline import contracts
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.arch import obstacle
from spmm_roofline.kernels.compile import CompileError, compile_kernel, cubin_of, resources
from spmm_roofline.kernels.front_matter import read

ARCHS = ["sm_80", "sm_89", "sm_90a"]
COMPILED = [name for name, head in heads().items() if not head.vendor]


def compiled(head, folder, archs=ARCHS):
    """Rows of the table ``kernels`` and cubins of one kernel, by architecture."""
    files = {arch: (folder / arch / f"{head.name}.cubin", folder / arch / f"{head.name}.json") for arch in archs}
    compile_kernel(head, files)
    rows = contracts.read_rows([row for _, row in files.values()], "kernels").set_index("arch")
    return rows, {arch: cubin.read_bytes() for arch, (cubin, _) in files.items()}


def able(head):
    """The architectures that have all instructions of a kernel."""
    return [arch for arch in ARCHS if not obstacle(arch, head.min_arch, head.features)]


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_spills_and_to_the_same_bytes(name, tmp_path):
    archs = able(heads()[name])
    rows, cubins = compiled(heads()[name], tmp_path / "first", archs)
    assert len(archs) and (rows.status == "ok").all(), rows.message.tolist()
    assert rows.registers.between(1, 255).all()
    assert (rows[["spill_store_bytes", "spill_load_bytes"]] == 0).all(axis=None), f"{name} spills registers"
    assert (rows.message == "").all(), f"{name}: {rows.message.tolist()}"
    assert [hashlib.sha256(cubins[arch]).hexdigest() for arch in archs] == rows.cubin_sha256[archs].tolist()
    _, again = compiled(heads()[name], tmp_path / "second", archs)
    assert again == cubins


@pytest.mark.parametrize("name", [name for name in COMPILED if "scaled" in heads()[name].constants])
def test_kernels_that_scale_compile_without_spills(name, tmp_path):
    head = heads()[name]
    rows, _ = compiled(head.scaled(), tmp_path, able(head))
    assert (rows.status == "ok").all(), rows.message.tolist()
    # Alpha and beta are needed where a window ends; a kernel at its limit of registers may spill a few bytes there.
    assert rows.spill_store_bytes.max() <= 16, f"{name} spills registers"


@pytest.mark.parametrize("name", [name for name in COMPILED if "scaled" in heads()[name].constants])
def test_kernels_with_an_epilogue_compile_without_spills(name, tmp_path):
    rows, _ = compiled(heads()[name].scaled(epilogue=True), tmp_path, able(heads()[name]))
    assert (rows.status == "ok").all(), rows.message.tolist()
    # Where a row ends, narrow_fma_f16 has two sums of eight columns at its limit of registers.
    most = 8 if name == "narrow_fma_f16" else 0
    assert rows.spill_store_bytes.max() <= most, f"{name} spills registers"


@pytest.mark.parametrize("name", [name for name in COMPILED if heads()[name].takes_unaligned])
def test_kernels_for_unaligned_rows_compile_without_spills(name, tmp_path):
    head = heads()[name]
    for option in (head, head.scaled(), head.scaled(epilogue=True)):
        rows, _ = compiled(option.unaligned(), tmp_path)
        assert (rows.status == "ok").all(), rows.message.tolist()
        # At its limit of registers, rows_fma spills a few bytes where it fetches the next 32 entries.
        assert rows.spill_store_bytes.max() <= 32, f"{name} spills registers"


@pytest.mark.parametrize("name", ["dram_read", "dram_copy"])
def test_kernels_that_every_measurement_needs_compile_for_older_devices(name, tmp_path):
    rows, _ = compiled(heads()[name], tmp_path, ["sm_75"])
    assert rows.status["sm_75"] == "ok", rows.message["sm_75"]


@pytest.fixture
def edit(tmp_path):
    """``edit(old, new)``: the head of mma_bt in a tree with this edit."""
    shutil.copytree(Path("kernels"), tmp_path / "kernels")

    def edited(old, new):
        path = tmp_path / "kernels/smat/mma_bt.cu"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return read(path)[0]

    return edited


def test_what_the_compiler_refuses_is_a_row_with_its_words(edit, tmp_path):
    rows, cubins = compiled(edit("const int lane = threadIdx.x;", "const int lane = threadIdy.x;"), tmp_path, ["sm_80"])
    assert rows.status["sm_80"] == "compile_failed" and 'identifier "threadIdy" is undefined' in rows.message["sm_80"]
    assert cubins["sm_80"] == b""


def test_neither_a_comment_nor_the_folder_changes_a_byte(edit, tmp_path):
    here, there = heads()["mma_bt"], edit("    tile::SUMS sums;", "    tile::SUMS sums;  // of one tile")
    _, cubins = compiled(here, tmp_path / "here", ["sm_90a"])
    _, others = compiled(there, tmp_path / "there", ["sm_90a"])
    assert cubins == others, "the cubin contains the folder or a comment"


def test_a_wrong_tile_is_refused_by_a_sentence(edit, tmp_path):
    rows, _ = compiled(edit("tile: {m: 16, n: 8, k: 16}", "tile: {m: 16, n: 16, k: 16}"), tmp_path, ["sm_80"])
    assert "the SMaT tile is one m16n8k16 product" in rows.message["sm_80"]


def test_an_older_architecture_is_unsupported(edit, tmp_path):
    rows, _ = compiled(edit("min_arch: sm_80", "min_arch: sm_90a"), tmp_path)
    assert rows.status[ARCHS].tolist() == ["unsupported", "unsupported", "ok"]
    assert rows.message["sm_80"] == "mma_bt needs sm_90a"


SERIAL = """
#include "ptx/wgmma.cuh"
extern "C" __global__ void serial(float* d, int products) {
    __shared__ alignas(128) char operands[8192];
    float sums[64] = {};
    for (int i = 0; i < products; ++i) {
        ptx::wgmma_fence();
        ptx::wgmma_m64n128k16_f32_f16(
            sums, ptx::wgmma_descriptor(operands, 128, 256), ptx::wgmma_descriptor(operands, 128, 256));
        ptx::wgmma_commit();
        EARLY
        ptx::wgmma_wait<0>();
        for (int j = 0; j < 64; ++j) d[64 * i + j] = sums[j];
    }
}
"""


@pytest.mark.parametrize(("early", "waits"), [("", False), ("d[products] = sums[0];", True)])
def test_products_that_the_assembler_waits_for_are_reported(early, waits):
    source = SERIAL.replace("EARLY", early)
    _, report = cubin_of(source, "serial", "sm_90a", {}, Path("kernels/include"))
    assert ("warpgroup.wait is injected" in report.get("message", "")) == waits


def test_a_report_without_resources_is_an_error():
    with pytest.raises(CompileError, match="no resource lines"):
        resources("ptxas info: nothing to say")
