"""The file of a new kernel: every format has one that passes all checks, and that of csr multiplies."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from spmm_roofline.cli import main
from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels.compile import cubin_of
from spmm_roofline.kernels.front_matter import read
from spmm_roofline.kernels.head import HeadError
from spmm_roofline.kernels.registry import registered
from spmm_roofline.kernels.template import create

DTYPES = ("float16", "bfloat16", "tf32", "float32", "float64")


@pytest.fixture
def kernels(tmp_path):
    """A folder with the project's kernels, which a new one may be written to."""
    shutil.copytree(Path("kernels").absolute(), tmp_path / "kernels", copy_function=os.symlink)
    registered.cache_clear()
    yield tmp_path / "kernels"
    registered.cache_clear()


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_template_that_passes_all_checks_and_compiles(kernels, name):
    pytest.importorskip("cuda.core")
    for dtype in DTYPES if name == "csr" else ("float32",):
        head = create(f"new_{dtype}", "ours", name, dtype, root=kernels)
        assert (head.format, head.study, head.dtype["a"]) == (name, "ours", dtype)
        code, _ = cubin_of(head.path.read_text(), head.name, "sm_80", head.defines(), kernels / "include")
        assert code


def test_the_command_writes_a_kernel_and_says_what_comes_next(kernels, capsys):
    arguments = ["new-kernel", "mine", "--study", "scalar", "--format", "csr", "--after", "rode", "--kernels"]
    assert main([*arguments, str(kernels)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"wrote {kernels}/scalar/mine.cu\n")
    # `scalar/*` stands in the suite quick.
    assert "`mine` is measured in the suites collection, few-columns, quick, real-sample;" in said
    (head,) = read(kernels / "scalar/mine.cu")
    assert head.after == "rode" and "mine" not in registered(str(kernels)).heads
    registered.cache_clear()  # the next run is another process
    assert registered(str(kernels)).heads["mine"] == head


def test_a_kernel_of_a_new_study_is_measured_nowhere_yet(kernels, capsys):
    assert main(["new-kernel", "mine", "--study", "ours", "--format", "hrpb", "--kernels", str(kernels)]) == 0
    assert "`mine` is measured in no suite; to add it to one, name it or `ours/*`" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "rode"}, r"the kernel 'rode' exists already, in .*scalar/rode\.cu"),
        ({"name": "mma_bt_f32"}, r"exists already, in .*smat/mma_bt\.cu"),
        ({"name": "class"}, r"'class' is a word of C\+\+ or Python"),
        ({"name": "Mine"}, "the name is 'Mine'; it must be lower-case letters"),
        ({"study": "my study"}, "the study is 'my study'; it must be"),
        ({"study": "packing"}, "'packing' is no study"),
        ({"format_name": "crs"}, "no format is called 'crs'; did you mean 'csr'"),
        ({"after": "rodee"}, "`after` names 'rodee', which is no kernel; did you mean 'rode'"),
    ],
)
def test_what_cannot_be_a_kernel_is_refused(kernels, changes, sentence):
    given = {"name": "mine", "study": "scalar", "format_name": "csr", "dtype": "float32", "root": kernels}
    with pytest.raises(HeadError, match=sentence):
        create(**given | changes)
    assert not list(kernels.rglob("mine.cu"))


def test_a_folder_without_kernels_is_refused(tmp_path):
    with pytest.raises(HeadError, match="holds no kernels; run this in a checkout"):
        create("mine", "ours", "csr", "float32", root=tmp_path)


def test_a_folder_with_another_name_is_refused_in_one_sentence(kernels, capsys):
    renamed = kernels.rename(kernels.with_name("kk"))
    arguments = ["new-kernel", "mine", "--study", "ours", "--format", "csr", "--kernels", str(renamed)]
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"spmm-roofline: the folder {renamed} is not called kernels; rename it, or name another one\n"
    )
    assert not (renamed / "ours").exists()


def test_a_kernel_that_cannot_be_read_leaves_nothing_behind(kernels, monkeypatch):
    def refuse(path):
        raise HeadError(f"{path}: no")

    monkeypatch.setattr("spmm_roofline.kernels.template.read", refuse)
    for study in ("ours", "scalar"):
        with pytest.raises(HeadError, match="no"):
            create("mine", study, "csr", "float32", root=kernels)
    assert not (kernels / "ours").exists() and (kernels / "scalar/rode.cu").exists()
    assert not list(kernels.rglob("mine.cu"))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_template_for_csr_multiplies(kernels, dtype):
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    from spmm_roofline.formats.values import rounded, widened
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import Dense
    from spmm_roofline.measure.device import visible

    head = create("mine", "ours", "csr", dtype, root=kernels)
    a = sparse.random_array((333, 217), density=0.05, format="csr", rng=np.random.default_rng(0))
    arrays = tuple(map(cupy.asarray, (a.data, a.indices.astype("int32"), a.indptr.astype("int32"))))
    packed = FORMATS["csr"].from_csr(csr_matrix(arrays, shape=a.shape), dtype)
    values = rounded(cupy.random.default_rng(1).random((217, 70)), dtype)
    code, _ = cubin_of(head.path.read_text(), "mine", visible()[0].arch, head.defines(), kernels / "include")
    (Path(kernels) / "mine.cubin").write_bytes(code)
    c = cupy.full((333, 70), cupy.nan).astype(values.dtype)
    b, out = (Dense(array, len(array), 70, False, dtype) for array in (values, c))
    prepare(head, Path(kernels) / "mine.cubin", packed, b, out)(cupy.cuda.get_current_stream())
    expected = a @ cupy.asnumpy(widened(values, dtype))
    assert np.abs(cupy.asnumpy(widened(c, dtype)) - expected).max() < 0.05
