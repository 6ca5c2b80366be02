"""Every kernel is compiled for the three architectures, without a GPU; what the compiler refuses becomes a row."""

import hashlib
import shutil
from pathlib import Path

import pytest

from spmm_roofline import contracts, paths
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.arch import obstacle
from spmm_roofline.kernels.choose import costed
from spmm_roofline.kernels.compile import CompileError, compile_kernel, compiler, cubin_of, record, resources
from spmm_roofline.kernels.front_matter import read

ARCHS = ["sm_80", "sm_89", "sm_90a"]
COMPILED = [name for name, head in heads().items() if not head.vendor]
#: Those whose variants are compiled too: others do the same in another dtype of their size.
WITH_VARIANTS = [name for name in COMPILED if costed(name) == name]


def compiled(head, folder, archs=ARCHS):
    """Rows of the table ``kernels`` and cubins of one kernel, by architecture."""
    files = {arch: (folder / arch / f"{head.name}.cubin", folder / arch / f"{head.name}.json") for arch in archs}
    compile_kernel(head, files)
    rows = contracts.read_rows([row for _, row in files.values()], "kernels").set_index("arch")
    return rows, {arch: cubin.read_bytes() for arch, (cubin, _) in files.items()}


def able(head):
    """The architectures that have all instructions of a kernel."""
    return [arch for arch in ARCHS if not obstacle(arch, head.min_arch, head.features)]


@pytest.fixture(scope="module")
def shipped():
    """The rows that ship, by kernel and architecture: those of another compiler are left out."""
    rows = contracts.read(paths.find(paths.COMPILED), "kernels").set_index(["kernel", "arch"])
    return rows[rows.compiler == compiler()]


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_spills_and_to_the_same_bytes(name, shipped, tmp_path):
    head = heads()[name]
    archs = able(head)
    rows, cubins = compiled(head, tmp_path / "first", archs)
    assert len(archs) and (rows.status == "ok").all(), rows.message.tolist()
    assert rows.registers.between(1, 255).all()
    assert (rows[["spill_store_bytes", "spill_load_bytes"]] == 0).all(axis=None), f"{name} spills registers"
    assert (rows.message == "").all(), f"{name}: {rows.message.tolist()}"
    assert [hashlib.sha256(cubins[arch]).hexdigest() for arch in archs] == rows.cubin_sha256[archs].tolist()
    for arch in archs:
        before = shipped.loc[name, arch] if (name, arch) in shipped.index else None
        if before is not None and before.kernel_sha256 == rows.kernel_sha256[arch]:
            assert before.cubin_sha256 == rows.cubin_sha256[arch], f"{arch}: another machine made other bytes"
        else:
            _, again = compiled(head, tmp_path / "second", [arch])
            assert again[arch] == cubins[arch]


def spilled(head, option, folder):
    """Bytes that a variant of a kernel spills on the newest architecture that it has."""
    rows, _ = compiled(option, folder, able(head)[-1:])
    assert (rows.status == "ok").all(), rows.message.tolist()
    return rows.spill_store_bytes.max()


@pytest.mark.parametrize("name", [name for name in WITH_VARIANTS if "scaled" in heads()[name].constants])
def test_kernels_with_factors_and_an_epilogue_compile_without_spills(name, tmp_path):
    head = heads()[name]
    # Alpha and beta are needed where a window ends; a kernel at its limit of registers may spill a few bytes there.
    assert spilled(head, head.scaled(), tmp_path) <= 16
    assert spilled(head, head.scaled(epilogue=True), tmp_path) == 0


@pytest.mark.parametrize("name", [name for name in WITH_VARIANTS if heads()[name].takes_unaligned])
def test_kernels_for_unaligned_rows_compile_without_spills(name, tmp_path):
    head = heads()[name]
    # At its limit of registers, rows_fma spills a few bytes where it fetches the next 32 entries.
    for option in (head, head.scaled(), head.scaled(epilogue=True)):
        assert spilled(head, option.unaligned(), tmp_path) <= 32


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
    assert cubins["sm_80"] == b"" and "\0" not in rows.message["sm_80"]
    with pytest.raises(CompileError, match="mma_bt did not compile, so nothing is stored"):
        record([str(path) for path in tmp_path.rglob("mma_bt.json")], tmp_path / "kernels.csv")
    assert not (tmp_path / "kernels.csv").exists()


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
