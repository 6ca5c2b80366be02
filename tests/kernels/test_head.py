"""Heads: every kernel has a valid one, and each contradiction to the code is found without a GPU."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spmm_roofline.contracts import ContractError
from spmm_roofline.kernels import HeadError, heads
from spmm_roofline.kernels.arch import supports
from spmm_roofline.kernels.front_matter import read
from spmm_roofline.kernels.includes import IncludeError, closure
from spmm_roofline.kernels.launch import Unsupported, check_case
from spmm_roofline.kernels.registry import LIBRARIES, registered
from spmm_roofline.kernels.registry import heads as registry

KERNELS = Path("kernels")


@pytest.fixture
def tree(tmp_path):
    """A copy of ``kernels/`` to edit."""
    shutil.copytree(KERNELS, tmp_path / "kernels")
    return tmp_path / "kernels"


def edited(tree, old, new, kernel="smat/mma_bt.cu", count=-1):
    path = tree / kernel
    text = path.read_text()
    assert old in text, f"{kernel} has no {old!r}"
    path.write_text(text.replace(old, new, count))
    return path


def test_all_heads_are_valid():
    assert {"mma_t", "mma_bt", "mma_bt_f32", "mma_cbt", "cusparse_csr_alg2", "cusparse_csr_alg2_bf16"} <= heads().keys()


def test_memory_is_named_if_and_only_if_work_counts_bytes(tree):
    path = edited(tree, "memory: {level: l2, result: sweeps}\n", "", "ceilings/l2_read.cu")
    with pytest.raises(HeadError, match="`memory` must name the level of memory if `work` counts bytes"):
        read(path)
    path = edited(tree, "features: []\n", "features: []\nmemory: {level: l2, result: sweeps}\n", "ceilings/fma_f32.cu")
    with pytest.raises(HeadError, match="and only then"):
        read(path)


def test_the_ladder_orders_each_kernel_after_the_one_it_builds_on():
    order = list(heads())
    assert all(order.index(head.after) < order.index(name) for name, head in heads().items() if head.after)


def test_a_variant_is_a_kernel_that_differs_as_it_says():
    base, twin = heads()["mma_bt"], heads()["mma_bt_f32"]
    assert twin.dtype == {**base.dtype, "accumulator": "float32"}
    assert twin.defines() == {**base.defines(), "SUMS": "SumsF32"}
    assert twin.path == base.path and twin.after == "mma_bt" and twin.launches == base.launches


def test_a_variant_may_leave_the_family_and_change_the_grid():
    base, other = heads()["gemm24"], heads()["gemm24_ca"]
    assert other.family is None and base.family and other.tile == base.tile and other.launches == base.launches
    base, other = heads()["xw_vectors"].launches[0], heads()["xw_vectors_z4"].launches[0]
    assert base.grid.startswith("m, n, ") and other == replace(base, grid="m, n, tile.z")


@pytest.mark.parametrize("name", ["rows_fma", "split_fma"])
def test_a_macro_may_name_the_type_of_a_parameter(tree, name):
    base, double = heads()[name], heads()[f"{name}_f64"]
    for head, number in ((base, "float"), (double, "double")):
        types = dict(zip(head.launches[0].args, head.launches[0].types, strict=True))
        assert types["alpha"] == types["beta"] == number
        assert types["a.data"] == types["b"] == f"const {number}* __restrict__" and types["a.partials"] == "int"
    assert "NUMBER" not in base.defines() and double.defines()["NUMBER"] == "double"
    with pytest.raises(HeadError, match=r"'a.data' is float64, but \w+ takes 'const float\* __restrict__'"):
        read(edited(tree, "constants: {number: double}", "constants: {scaled: 0}", f"flagship/{name}.cu"))


def test_an_epilogue_adds_two_arguments_where_it_is_compiled_in(tree):
    for base in (head for head in heads().values() if head.study == "flagship"):
        (plain,), (scaled,), (whole,) = (head.launches for head in (base, base.scaled(), base.scaled(epilogue=True)))
        assert scaled == plain and plain.args[-2:] == ("alpha", "beta") and len(plain.types) == len(plain.args)
        assert whole.args == (*plain.args, "bias", "relu")
        assert whole.types == (*plain.types, "const void*", "int")
        assert base.scaled().defines() == base.defines() | {"SCALED": "1"}
        assert base.scaled(epilogue=True).defines() == base.defines() | {"SCALED": "1", "EPILOGUE": "1"}


def test_unaligned_rows_add_one_argument_where_they_are_compiled_in():
    known = heads()
    able = [head for head in known.values() if head.takes_unaligned]
    of_columns = {"rows_fma", "split_fma", "short_rows_fma"}
    of_entries = {"narrow_fma", "dealt_rows_fma"}
    assert {head.name for head in able if head.path.stem not in of_entries} == {
        f"{name}{variant}" for name in of_columns for variant in ("", "_tf32", "_f64")
    }
    for name in of_entries:
        dtypes = {head.dtype["a"] for head in able if head.path.stem == name}
        assert dtypes == {"float16", "bfloat16", "tf32", "float32", "float64"}
    for base in able:
        (plain,), (own,) = base.launches, base.unaligned().launches
        assert own.args == ("n", *plain.args) and own.types == ("int", *plain.types)
        assert base.unaligned().defines() == base.defines() | {"UNALIGNED": "1"} and not base.unaligned().pads
        both, turned = base.scaled(epilogue=True).unaligned(), base.unaligned().scaled(epilogue=True)
        assert both == turned and both.launches[0].args == (*own.args, "bias", "relu")
    with pytest.raises(ValueError, match="window_fma takes only rows of B and C that begin at multiples of 16 bytes"):
        known["window_fma"].unaligned()


def test_a_library_may_compute_what_factors_and_an_epilogue_ask_for():
    known = heads()
    able = known["cublaslt_gemm_f16"]
    assert able.takes_factors and not able.takes_unaligned and not able.takes_reordered
    assert able.scaled(epilogue=True).constants == {"scaled": 1, "epilogue": 1}
    with pytest.raises(ValueError, match="cublas_gemm_f16 computes only A·B"):
        known["cublas_gemm_f16"].scaled()


def test_rows_of_c_in_another_order_add_one_argument_where_they_are_compiled_in():
    known = heads()
    able = [head for head in known.values() if head.takes_reordered]
    assert {head.name for head in able} >= {"rows_fma", "split_fma", "split_f16", "staged_f16", "window_fma_tf32"}
    for base in able:
        (plain,), (own,) = base.launches, base.reordered().launches
        assert own.args == (*plain.args, "rows") and own.types == (*plain.types, "const int* __restrict__")
        assert base.reordered().defines() == base.defines() | {"REORDERED": "1"}
        both, turned = base.scaled(epilogue=True).reordered(), base.reordered().scaled(epilogue=True)
        assert both == turned and both.launches[0].args == (*plain.args, "bias", "relu", "rows")
    with pytest.raises(ValueError, match="gespmm_seq_row takes rows of A and C in one order alone"):
        known["gespmm_seq_row"].reordered()


def test_what_a_kernel_does_not_compute_is_refused(tree):
    with pytest.raises(ValueError, match=r"mma_bt computes only A·B, with alpha 1"):
        heads()["mma_bt"].scaled()
    (head, *_) = read(edited(tree, "beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS)", "beta)", "flagship/window_fma.cu"))
    assert head.scaled().constants["scaled"] == 1
    with pytest.raises(ValueError, match=r"window_fma computes only alpha·A·B \+ beta·C, with no bias"):
        head.scaled(epilogue=True)


def test_a_macro_that_no_number_can_be_passed_as(tree):
    path = edited(tree, "#define NUMBER float", "#define NUMBER half", "flagship/rows_fma.cu")
    with pytest.raises(HeadError, match="takes 'alpha' as 'half'; numbers are passed as one of int, "):
        read(path)


def test_a_variant_changes_no_launch_of_several(tree):
    change = "variants: {wide: {launch: {block: 64}}}\ndeviations:\n"
    with pytest.raises(ContractError, match=r"variants\.wide: .*block"):
        read(edited(tree, "deviations:\n", change, "attention/xw_tiles_split.cu"))


CONTRADICTIONS = [
    ("args: a.indptr, a.indices,", "args: a.indptr,", "passes 6 arguments to mma_bt .* takes 7"),
    (
        "args: a.indptr, a.indices, a.data, b",
        "args: a.indptr, a.indices, b.ld, b",
        "a number, 'b.ld', for the parameter",
    ),
    ("b, c, b.ld, c.ld", "b, c, b.ld, a.indices", "an array, 'a.indices', for the parameter 'int'"),
    ("dtype: {a: float16, b: float16", "dtype: {a: float16, b: float32", "says that 'b' is float32, but mma_bt takes"),
    ("dtype: {a: float16", "dtype: {a: bfloat16", "says that 'a.data' is bfloat16"),
    ("c: float16}\nlayout", "c: float32}\nlayout", "says that 'c' is float32"),
    ("features: [ldmatrix, mma]", "features: [mma]", "the code includes the ptx headers"),
    ("features: [ldmatrix, mma]", "features: [cp_async, ldmatrix, mma]", "the code includes the ptx headers"),
    ("name: mma_bt\n", "name: mma_b\n", "a kernel has the name of its file"),
    ("study: smat", "study: sptc", "lies in the folder 'smat'"),
    ("/*---", "/* ---", "must open with its head"),
    ("idea: walk", "idea: walk: run", r"not valid YAML .*: line 5: mapping values are not allowed in this context$"),
    ("study: smat", "study: smat\nstudy: smat", "line 4: the key 'study' stands twice"),
    ("study: smat", "study: smat\nspeed: great", "'speed' was unexpected"),
    ('extern "C" __global__ void __launch_bounds__(32) mma_bt(', 'extern "C" __global__ void mma_bd(', "no extern"),
    ("const int* __restrict__ indptr", "const long long* __restrict__ indptr", "'a.indptr' is int32, but mma_bt takes"),
    ("const half* __restrict__ b,", "const int* __restrict__ b,", "'b' is float16, but mma_bt takes"),
    ("int ldb", "size_t ldb", "takes 'b.ld' as 'size_t'; numbers are passed as one of int, "),
    ("grid: ceil_div(n, tile.n), a.block_rows", "grid: n, m, k, nnz", "grid is .*, and must be one to 3 numbers"),
    ("grid: ceil_div(n, tile.n), a.block_rows", "grid: ''", "grid is '', and must be"),
    ("block: 32", "block: 32\n  smem: 4, 8", "smem is '4, 8', and must be one number"),
    ("study: smat", "scratch: 4, 8\nstudy: smat", "scratch is '4, 8', and must be one number of bytes"),
    ("study: smat", "waves: 4, 8\nstudy: smat", "waves is '4, 8', and must be one number"),
    ("study: smat", "waves: ceil_div(n, 8)\nstudy: smat", "but no work list of 'bcsr_16x16' depends on it"),
    ("dtype: {accumulator: float32}", "dtype: {b: float32}", "says that 'b' is float32"),
    ("/*---\n", "/*---\n- a\n---*/\n/*", "is not of type 'object'"),
    (
        "study: smat",
        "work: {bytes: 4}\nstudy: smat",
        "work.bytes is '4'; it must be one number, of a kernel without a format",
    ),
    (
        "study: smat",
        "work: {flops: 2, bytes: 4}\nstudy: smat",
        "has too many properties|does not have at most 1|too many",
    ),
    ("min_arch: sm_80\n", "", "not valid under any of the given schemas|'min_arch' is a required property"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), CONTRADICTIONS)
def test_a_contradiction_is_found(tree, old, new, sentence):
    path = edited(tree, old, new, count=1)
    with pytest.raises(ContractError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("grid: ceil_div(n, tile.n)", "grid: ceil_div(n, tile.o)", "unknown name 'tile.o'"),
        ("grid: ceil_div(n, tile.n)", "grid: ceil_dif(n, tile.n)", "unknown function 'ceil_dif'"),
        ("a.block_rows", "a.blockrows", "unknown name 'a.blockrows'"),
        ("block: 32", "block: 32 +", "'32 [+]' is not an expression"),
        ("args: a.indptr,", "args: a.indptr +,", "is not an expression"),
        ("format: bcsr_16x16", "format: bsr", "no format is called 'bsr'"),
        ("format: bcsr_16x16", "format: bcsr_16x16\nformat_options: {colour: red}", "'colour'"),
        ("format: bcsr_16x16", "format: bcsr_16x16\nformat_options: {block_map: tile.o}", "'tile.o' does not evaluate"),
        ("grid: ceil_div(n, tile.n), a.block_rows", "grid: b", "'b' is an array, and 'b' must be made of numbers"),
        ("a.block_rows", "a.indptr", "'a.indptr' is an array"),
        ("b.ld, c.ld", "b + 1, c.ld", "'b' is an array"),
        ("study: smat", "work: {flops: a.data}\nstudy: smat", "'a.data' is an array"),
        ("study: smat", "scratch: 8 * c\nstudy: smat", "'c' is an array"),
        ("study: smat", "waves: m // resident.mma\nstudy: smat", "unknown name 'resident.mma'"),
        ("b.ld, c.ld", "resident.mma_bt, c.ld", "unknown name 'resident.mma_bt'"),
        ("b.ld, c.ld", "scratch, c.ld", "unknown name 'scratch'"),
        ("b.ld, c.ld", "'8', c.ld", "'8' in .* is no number"),
        ("ceil_div(n, tile.n)", "n / tile.n", "divide by ceil_div or //"),
        ("b.ld, c.ld", "b.ld / 2, c.ld", "divide by ceil_div or //"),
        ("block: 32", "block: __import__('os').getpid()", "unknown"),
    ],
)
def test_an_unknown_name_fails_at_planning(tree, old, new, sentence):
    path = edited(tree, old, new, count=1)
    with pytest.raises(HeadError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_an_unknown_argument_is_told_the_arrays_too(tree):
    path = edited(tree, "a.indptr", "a.pointers")
    with pytest.raises(HeadError, match=r"unknown name 'a\.pointers' .* known: .*a\.indptr, .*\bb, b\.ld"):
        read(path)


def test_a_launch_may_name_an_expression(tree):
    before = heads()["mma_bt"]
    old = "grid: ceil_div(n, tile.n), a.block_rows"
    (head, *_) = read(edited(tree, old, "names: {tiles: 'ceil_div(n, tile.n)'}\n  grid: tiles, a.block_rows"))
    assert head.functional() == before.functional()
    (head, *_) = read(edited(tree, "{tiles: 'ceil_div(n, tile.n)'}", "{wide: tile.n, tiles: 'ceil_div(n, wide)'}"))
    assert head.functional() == before.functional() and head.sha256() == before.sha256()


def test_a_launch_gives_no_name_that_means_something_else(tree):
    with pytest.raises(HeadError, match="a launch cannot give the name b, which has a meaning already"):
        read(edited(tree, "grid: ceil_div", "names: {b: m}\n  grid: ceil_div", count=1))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("{tiles: 'm, n'}", "tiles of a launch stands for 'm, n', and must for one expression"),
        ("{tiles: m, tile_rows: n}", "a launch gives the name tile_rows, and nothing uses it"),
    ],
)
def test_a_name_of_a_launch_is_one_expression_that_something_uses(tree, names, sentence):
    with pytest.raises(HeadError, match=sentence):
        read(edited(tree, "grid: ceil_div(n, tile.n), a.block_rows", f"names: {names}\n  grid: tiles, a.block_rows"))


def test_scratch_is_part_of_what_is_launched(tree):
    before = heads()["mma_bt"]
    head = read(edited(tree, "study: smat", "scratch: 8*n\nstudy: smat"))[0]
    assert "scratch" not in before.functional()
    assert head.functional() == {**before.functional(), "scratch": "8 * n"} and head.sha256() != before.sha256()


def test_waves_are_part_of_what_is_launched_and_of_no_machine_code(tree):
    assert [head.name for head in heads().values() if "waves" in head.functional()] == [
        name for name, head in heads().items() if head.format == "hrpb"
    ]
    before = read(tree / "cutespmm/cutespmm.cu")[0]
    after = read(edited(tree, "ceil_div(a.panels *", "ceil_div(2 * a.panels *", "cutespmm/cutespmm.cu"))[0]
    assert after.launch_sha256() != before.launch_sha256() and after.defines() == before.defines()


def test_steps_enter_the_code_and_the_fingerprint(tree):
    once = read(tree / "smat/mma_bt.cu")[0]
    thrice = read(edited(tree, "study: smat", "steps: 3\nstudy: smat", count=1))[0]
    assert once.steps == 1 and "steps" not in once.functional() and "STEPS" not in once.defines()
    assert thrice.steps == 3 and thrice.defines() == {"STEPS": "3", **once.defines()}
    assert thrice.launch_sha256() != once.launch_sha256()
    check_case(thrice, 16, 8, 16)
    with pytest.raises(Unsupported, match="A must be square, not 16 x 32"):
        check_case(thrice, 16, 8, 32)


def test_general_kernels_of_one_dtype_want_the_same_rows_of_b():
    # A program's product pads B once for all of them.
    general = [head for head in heads().values() if head.study == "flagship"]
    wanted = {(head.dtype["a"], head.pads.get("n", 1)) for head in general}
    assert len(wanted) == len({dtype for dtype, _ in wanted}) == 5


def test_options_of_the_format_follow_tile_and_device():
    head = heads()["spmv_csr_cc"]
    wider = replace(head, tile={**head.tile, "batch": 2 * head.tile["batch"]})
    options, twice = head.options(10), wider.options(20)
    assert options == {"items": head.tile["threads"] * head.tile["batch"], "chunks": 10 * head.tile["ctas"]}
    assert twice == {name: 2 * value for name, value in options.items()}


def test_an_array_that_the_format_makes_on_request_must_be_requested(tree):
    with pytest.raises(HeadError, match=r"unknown name 'a\.block_map'"):
        read(edited(tree, "format_options: {block_map: true}\n", "", "smat/mma_t.cu"))


def test_a_ladder_without_its_rung_or_with_a_cycle_is_refused(tree):
    edited(tree, "after: mma_t", "after: mma_x", count=1)
    with pytest.raises(HeadError, match="'mma_x', which is no kernel"):
        registry(str(tree))
    edited(tree, "after: mma_x", "after: mma_cbt", count=1)
    registered.cache_clear()
    with pytest.raises(HeadError, match=r"the ladder has a cycle: .*mma_bt"):
        registry(str(tree))


def test_two_kernels_of_one_name_are_refused(tree):
    twin = (tree / "smat/mma_t.cu").read_text().replace("study: smat", "study: sptc")
    (tree / "sptc/mma_t.cu").write_text(twin)
    with pytest.raises(HeadError, match="'mma_t' exists already"):
        registry(str(tree))


def test_a_file_that_is_not_utf_8_is_named(tree):
    path = tree / "smat/mma_t.cu"
    path.write_bytes(path.read_bytes().replace(b"idea:", b"idea: \xff", 1))
    with pytest.raises(HeadError, match=r"mma_t\.cu: byte \d+ is not UTF-8; save the file as UTF-8"):
        registry(str(tree))


def test_a_kernel_is_not_called_by_a_word_of_its_languages(tree):
    text = (tree / "smat/mma_t.cu").read_text()
    (tree / "smat/register.cu").write_text(text.replace("name: mma_t\n", "name: register\n"))
    with pytest.raises(HeadError, match="'register' is a word of C\\+\\+ or Python"):
        registry(str(tree))


def test_all_errors_of_a_head_are_found_at_once(tree):
    edited(tree, "source: ", "sauce: ", count=1)
    edited(tree, "study: smat", "study: sptc", count=1)
    edited(tree, "block: 32", "block: 4096", count=1)
    edited(tree, "features: [ldmatrix, mma]", "features: [mma]")
    path = edited(tree, "args: a.indptr, a.indices,", "args: a.indptr,", count=1)
    with pytest.raises(HeadError) as caught:
        read(path)
    first, *others = str(caught.value).splitlines()
    assert first == f"{path}: the head has 6 errors:"
    for line, sentence in zip(
        others,
        (
            "('sauce' was unexpected); did you mean 'source'? The keys are name, study, source, ",
            "'source' is a required property: paper and section that describe the kernel",
            "names the study 'sptc' but lies in the folder 'smat'",
            "passes 6 arguments to mma_bt",
            "block is '4096', 4096 threads; a CTA has 1 to 1024 threads",
            "features says ['mma'], but the code includes the ptx headers",
        ),
        strict=True,
    ):
        assert line.startswith("  - ") and sentence in line


def test_a_head_that_lacks_what_its_code_is_checked_against_names_every_missing_key(tree):
    path = tree / "smat/mine.cu"
    path.write_text("/*---\nname: mine\nstudy: smat\n---*/\n")
    with pytest.raises(HeadError) as caught:
        read(path)
    for key in ("source", "idea", "format", "dtype", "layout", "requires", "features", "deviations"):
        assert f"{key!r} is a required property" in str(caught.value)
    assert "it needs launch and min_arch, or launches and min_arch, or vendor and unit" in str(caught.value)


def test_one_bad_head_costs_only_its_own_kernels(tree):
    path = edited(tree, "idea: walk", "ideal: walk", count=1)
    known = registered(str(tree))
    assert list(known.refused) == [path] and "'ideal' was unexpected" in str(known.refused[path])
    assert heads().keys() - known.heads.keys() == {"mma_bt", "mma_bt_f32"}
    # What builds on it begins a ladder; nothing else about it changes.
    assert known.heads["mma_cbt"].after is None and known.heads["mma_cbt"].sha256() == heads()["mma_cbt"].sha256()
    with pytest.raises(HeadError, match="'ideal' was unexpected"):
        registry(str(tree))


def test_kernels_that_build_on_nothing_on_each_other_or_have_a_taken_name_are_left_out(tree):
    edited(tree, "after: mma_cbt", "after: mma_cbx", "sptc/mma_obt.cu", count=1)
    edited(tree, "after: mma_t", "after: mma_cbt", count=1)
    (tree / "sptc/mma_t.cu").write_text((tree / "smat/mma_t.cu").read_text().replace("study: smat", "study: sptc"))
    known = registered(str(tree))
    told = {path.relative_to(tree).as_posix(): str(error) for path, error in known.refused.items()}
    assert set(told) == {"sptc/mma_obt.cu", "sptc/mma_t.cu", "smat/mma_bt.cu", "smat/mma_cbt.cu"}
    assert "`after` names 'mma_cbx', which is no kernel; did you mean 'mma_cbt'?" in told["sptc/mma_obt.cu"]
    assert "the kernel 'mma_t' exists already" in told["sptc/mma_t.cu"]
    assert told["smat/mma_bt.cu"] == told["smat/mma_cbt.cu"]
    assert "the ladder has a cycle: mma_bt → mma_cbt → mma_bt" in told["smat/mma_bt.cu"]
    assert list(known.heads) and not {"mma_obt", "mma_bt"} & known.heads.keys()


def test_a_study_is_its_folder_and_is_listed_nowhere(tree):
    (tree / "ours").mkdir()
    text = (tree / "smat/mma_t.cu").read_text()
    for old, new in (("name: mma_t", "name: ours_t"), ("study: smat", "study: ours"), ("mma_t(", "ours_t(")):
        text = text.replace(old, new)
    (tree / "ours/ours_t.cu").write_text(text)
    assert registered(str(tree)).heads["ours_t"].study == "ours"


def test_an_instruction_of_a_newer_architecture_needs_it_in_the_head(tree):
    (tree / "include/ptx/wgmma.cuh").write_text("#pragma once\n")
    edited(tree, '#include "tile/smat_tile.cuh"', '#include "ptx/wgmma.cuh"\n#include "tile/smat_tile.cuh"')
    path = edited(tree, "features: [ldmatrix, mma]", "features: [ldmatrix, mma, wgmma]")
    with pytest.raises(HeadError, match="wgmma needs sm_90a, but min_arch says sm_80"):
        read(path)
    assert read(edited(tree, "min_arch: sm_80", "min_arch: sm_90a"))


@pytest.mark.parametrize(
    ("arch", "needed", "answer"),
    [
        ("sm_80", "sm_80", True),
        ("sm_90a", "sm_80", True),
        ("sm_75", "sm_80", False),
        ("sm_90a", "sm_90a", True),
        ("sm_100", "sm_90a", False),
        ("sm_100", "sm_90", True),
    ],
)
def test_which_architecture_runs_which_code(arch, needed, answer):
    assert supports(arch, needed) is answer


# --- includes -------------------------------------------------------------------------------------------------------


def test_the_closure_follows_includes_of_includes():
    names = [path.relative_to(KERNELS).as_posix() for path in closure(KERNELS / "smat/mma_cbt.cu")]
    assert names[0] == "smat/mma_cbt.cu"
    included = ("ptx/cp_async", "ptx/ldmatrix", "ptx/mma", "tile/smat_tile", "tile/sums")
    assert set(names[1:]) == {f"include/{name}.cuh" for name in included}


def test_an_include_outside_the_grammar_or_of_nothing_is_refused(tree):
    path = edited(tree, '"tile/smat_tile.cuh"', '"../smat_tile.h"')
    with pytest.raises(IncludeError, match="outside the grammar"):
        closure(path)
    path = edited(tree, '"../smat_tile.h"', '"tile/smat.cuh"')
    with pytest.raises(IncludeError, match=r"tile/smat\.cuh does not exist"):
        closure(path)
    with pytest.raises(HeadError, match=r"mma_bt\.cu: the header tile/smat\.cuh does not exist") as caught:
        read(path)
    assert str(caught.value).count(str(path)) == 1
    with pytest.raises(HeadError, match=r"tile/smat\.cuh does not exist"):
        registry(str(tree))


@pytest.mark.parametrize("written", ["<tile/smat_tile.cuh>", "SMAT_TILE", '"tile/smat_tile.cuh" junk'])
def test_an_include_that_hides_a_header_from_the_closure_is_refused(tree, written):
    # The compiler would find the first two; an edit of the header would then compile nothing.
    path = edited(tree, '#include "tile/smat_tile.cuh"', f"#include {written}")
    with pytest.raises(IncludeError, match="outside the grammar"):
        closure(path)


@pytest.mark.parametrize(
    "written",
    [
        '  #  include  "tile/smat_tile.cuh"  // the tile',
        '/* the tile */ #include "tile/smat_tile.cuh"',
        '#include \\\n"tile/smat_tile.cuh"',
        '#if 1\n#include "tile/smat_tile.cuh"\n#endif',
    ],
)
def test_an_include_is_found_however_it_is_written(tree, written):
    path = edited(tree, '#include "tile/smat_tile.cuh"', written)
    assert tree / "include/tile/smat_tile.cuh" in closure(path)


def test_an_include_within_a_comment_does_not_count(tree):
    path = edited(tree, '#include "tile/smat_tile.cuh"', '#include "tile/smat_tile.cuh"\n/*\n#include "old.h"\n*/')
    assert closure(path) == [path, *closure(tree / "smat/mma_bt.cu")[1:]]


def test_a_source_outside_of_kernels_is_refused(tmp_path):
    with pytest.raises(IncludeError, match="does not lie below a folder called kernels"):
        closure(tmp_path / "mma_bt.cu")


# --- fingerprints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "old", "new", "changes"),
    [
        ("smat/mma_bt.cu", "idea: walk", "idea: stroll over", False),
        ("smat/mma_bt.cu", "    tile::SUMS sums;", "    // the sums\n        tile::SUMS   sums;", False),
        ("smat/mma_bt.cu", "a.indptr, a.indices", "a.indptr,   a.indices", False),
        ("include/tile/smat_tile.cuh", "// One stage", "// A stage", False),
        ("smat/mma_bt.cu", "n0 = blockIdx.x * TILE_N", "n0 = TILE_N * blockIdx.x", True),
        ("smat/mma_bt.cu", "block: 32", "block: 64", True),
        ("smat/mma_bt.cu", "sums: SumsF16", "sums: SumsF32", True),
        ("include/ptx/mma.cuh", "f16.f16.f16.f16 {", "f16.f16.f16.f16  {", True),
        ("include/ptx/cp_async.cuh", "wait_group", "wait_all", False),
    ],
)
def test_the_fingerprint_tells_code_from_prose(tree, kernel, old, new, changes):
    before = read(tree / "smat/mma_bt.cu")[0].sha256()
    edited(tree, old, new, kernel, count=1)
    assert (read(tree / "smat/mma_bt.cu")[0].sha256() != before) is changes


def test_the_closure_of_a_library_is_its_adapter_and_the_common_module():
    head = heads()["cusparse_csr_alg2"]
    assert [path.name for path in head.closure()] == ["cusparse_csr.py", "_cusparse.py"]
    assert len({heads()[f"cusparse_csr{a}"].sha256() for a in ("", "_alg1", "_alg2", "_alg3")}) == 4


@pytest.fixture
def adapters(tmp_path):
    """A copy of the library adapters to edit."""
    shutil.copytree(LIBRARIES, tmp_path / "libraries")
    return tmp_path / "libraries"


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("cusparse_csr.py", "idea: the algorithm that the library", "idea: the one that the library", False),
        ("cusparse_csr.py", '"""C = A·B by the algorithm of the head', '"""The product', False),
        ("cusparse_csr.py", "algorithm: 0", "algorithm: 1", True),
        ("cusparse_csr.py", "prepare_with(head, a, b, c,", "prepare_with(head, a, b, b,", True),
        ("cusparse_csr.py", "layout: {b: row_major", "layout: {b: column_major", True),
        ("_cusparse.py", "scalar(1.0)", "scalar(2.0)", True),
        ("_cusparse.py", '"""cuSPARSE descriptors of A, B and C', '"""Descriptors', False),
    ],
)
def test_the_fingerprint_of_an_adapter_tells_code_from_prose(adapters, file, old, new, changes):
    adapter = adapters / "cusparse_csr.py"
    before = read(adapter)[0].sha256()
    edited(adapters, old, new, file, count=1)
    assert (read(adapter)[0].sha256() != before) is changes


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("\n---\nname", "\nname", "must hold the head"),
        ("name: cusparse_csr\n", "name: cusparse_csr_alg2\n", "a kernel has the name of its file"),
        ("format: csr", "format: sell", "no format is called 'sell'"),
        ("vendor: cusparse", "min_arch: sm_80", "is not valid under any"),
    ],
)
def test_a_contradiction_in_an_adapter_is_found(adapters, old, new, sentence):
    path = edited(adapters, old, new, "cusparse_csr.py", count=1)
    with pytest.raises(ValueError, match=sentence) as caught:
        read(path)
    assert str(path) in str(caught.value)
