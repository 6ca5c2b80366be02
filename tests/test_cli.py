"""The command ``spmm-roofline``: what it prints, and one sentence with an exit code for every error."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmread, mmwrite

from spmm_roofline import contracts, select
from spmm_roofline.cli import main
from tests.analysis import synthetic

COMMANDS = ("advise", "train", "pack", "new-kernel", "compare")


@pytest.fixture
def mtx(tmp_path):
    path = tmp_path / "my.mtx"
    mmwrite(path, sparse.random_array((500, 400), density=0.02, rng=np.random.default_rng(0)))
    return path


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """Advice is for the recorded device, whatever GPU this machine has."""
    monkeypatch.setattr("spmm_roofline.measure.device.visible", list)


# --- advise -----------------------------------------------------------------------------------------------------------


def test_advise_prints_the_reason_and_the_best(mtx, capsys):
    assert main(["advise", str(mtx), "--n", "128", "--dtype", "tf32", "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A: 500 x 400, 4,000 non-zeros; N = 128, TF32, cold L2, h100"
    assert lines[1].startswith("Device: there is no GPU here, so this is for h100")
    assert "predicted" in lines[2] and "next best is" in lines[2]
    assert lines[4].split()[:5] == ["kernel", "format", "predicted", "before", "pays"]
    assert lines[8] == "sums: dtype in which products are added. B: whether B is stored by row or by column"
    assert lines[9].startswith("before: packing A and analysing it, once. pays back: products after which")
    assert [line.partition(":")[0] for line in lines[10:]] in (
        [],
        ["compilation, once, where the package brings no machine code"],
    )


def test_advise_prints_json(mtx, capsys):
    assert main(["advise", str(mtx), "--n", "128", "--json", "--top", "3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n"] == 128 and len(told["choices"]) == 3
    assert told["choices"][0]["kernel"] == select(mmread(mtx, spmatrix=False), 128).kernel


def test_a_doubtful_prediction_is_said(mtx, capsys):
    assert main(["advise", str(mtx), "--n", "100000"]) == 0
    assert "Beware: " in capsys.readouterr().out


# --- train ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_world(tmp_path, monkeypatch):
    """The recorded rows of the synthetic world, whose kernels stand for those of the project."""

    class Head:
        def __init__(self, plain):
            self.plain = plain

        def as_dict(self):
            return self.plain

        def sha256(self):
            return synthetic.FINGERPRINTS.get(self.plain["name"], "")

    heads = {name: Head(plain) for name, plain in (synthetic.HEADS | synthetic.CEILING_HEADS).items()}
    monkeypatch.setattr("spmm_roofline.kernels.registry.heads", lambda root: heads)
    synthetic.write_recorded(tmp_path / "recorded" / "h200", ceilings=synthetic.ceiling_rows())
    return tmp_path


def test_recorded_rows_and_the_analysis_of_them_train_the_same_model(small_world, mtx, capsys):
    one, other = small_world / "one.json", small_world / "other.json"
    devices = str(synthetic.ROOT / "config/devices")
    assert main(["train", "--recorded", str(small_world / "recorded"), "--devices", devices, "--out", str(one)]) == 0
    assert capsys.readouterr().out == f"wrote {one}\n"
    synthetic.analyse(small_world / "results/analysis", recorded=[small_world / "recorded/h200"])
    assert main(["train", "--results", str(small_world / "results"), "--out", str(other)]) == 0
    assert one.read_bytes() == other.read_bytes()
    assert "row_split" in contracts.document(one, "selector")["devices"]["h200"]["kernels"]
    assert main(["advise", str(mtx), "--n", "128", "--model", str(one)]) == 0


def test_nothing_is_written_where_no_kernel_can_be_trained(small_world, capsys):
    recorded, out = small_world / "recorded", small_world / "m.json"
    for table in (recorded / "h200").glob("*/*.csv"):
        table.unlink()
    devices = str(synthetic.ROOT / "config/devices")
    assert main(["train", "--recorded", str(recorded), "--devices", devices, "--out", str(out)]) == 1
    assert "no kernel can be trained" in one_sentence(capsys.readouterr()) and not out.exists()
    synthetic.analyse(small_world / "results/analysis", recorded=[recorded / "h200"])
    assert main(["train", "--results", str(small_world / "results"), "--out", str(out)]) == 1
    assert "no kernel can be trained" in one_sentence(capsys.readouterr()) and not out.exists()


# --- pack -------------------------------------------------------------------------------------------------------------


def test_pack_saves_the_arrays_of_a_format(mtx, tmp_path, capsys):
    out = tmp_path / "csr.npz"
    assert main(["pack", str(mtx), "--format", "csr", "--dtype", "half", "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out}: 500 x 400 as csr in float16, ")
    with np.load(out) as arrays:
        assert arrays["data"].dtype == np.float16 and len(arrays["data"]) == 4000


def test_pack_takes_the_dtype_of_the_format_where_none_is_named(mtx, tmp_path, capsys):
    assert main(["pack", str(mtx), "--format", "hrpb", "-o", str(tmp_path / "hrpb.npz")]) == 0
    assert " as hrpb in tf32, " in capsys.readouterr().out


def test_pack_makes_the_folder_of_its_file(mtx, tmp_path):
    out = tmp_path / "new/folder/csr.npz"
    assert main(["pack", str(mtx), "--format", "csr", "-o", str(out)]) == 0
    assert out.is_file()


# --- errors and help --------------------------------------------------------------------------------------------------


def one_sentence(said):
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("spmm-roofline") and "Traceback" not in said.err
    return said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["guess"], "invalid choice: 'guess'"),
        (["advise", "my.mtx"], "the following arguments are required: --n"),
        (["advise", "my.mtx", "--n", "0"], "argument --n: '0' is not a positive integer"),
        (["advise", "my.mtx", "--n", "8", "--top", "-1"], "argument --top: '-1' is not a positive integer"),
        (["advise", "my.mtx", "--n", "8", "--dtype", "int8"], "the precision classes are"),
        (["advise", "my.mtx", "--n", "8", "--l2", "hot"], "invalid choice: 'hot'"),
        (["advise", "my.mtx", "--n", "8", "--layout", "diagonal"], "invalid choice: 'diagonal'"),
        (["train", "--out", "m.json"], "one of the arguments --recorded --results is required"),
        (["train", "--recorded", "r", "--results", "r", "--out", "m.json"], "not allowed with argument"),
        (["pack", "my.mtx", "--format", "nosuch", "-o", "a.npz"], "the formats are banked_8x32, "),
        (["pack", "my.mtx", "--format", "csr", "-o", "my.mtx"], "the arrays are saved as .npz: name it my.mtx.npz"),
        (["train", "--recorded", "resources/recorded", "--out", "docs"], "docs is a folder; name a file"),
        (
            ["train", "--recorded", "resources/recorded", "--out", "README.md/m.json"],
            "README.md is no folder that you may",
        ),
        (
            ["pack", "my.mtx", "--format", "csr", "-o", "README.md/a.npz"],
            "README.md is no folder that you may write to",
        ),
        (["compare", "a", "b", "--csv", "docs"], "docs is a folder; name a file"),
        (["pack", "my.mtx", "--format", "hrpb"], "the following arguments are required: -o/--out"),
    ],
)
def test_a_usage_error_is_one_sentence_with_code_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    said = one_sentence(capsys.readouterr())
    assert message in said and "--help says more" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["advise", "nosuch.mtx", "--n", "8"], "nosuch.mtx: there is no such file"),
        (["advise", "README.md", "--n", "8"], "README.md: not a matrix file; its name must end in one of"),
        (["advise", "{tmp}", "--n", "8"], "not a matrix file"),
        (["advise", "{mtx}", "--n", "8", "--device", "b200"], "nothing is known of the device 'b200'"),
        (["advise", "{mtx}", "--n", "8", "--model", "{tmp}"], "not readable"),
        (["advise", "{mtx}", "--n", "8", "--sums", "float16"], "no kernel in float32"),
        (["pack", "{mtx}", "--format", "sparse24", "-o", "{tmp}/a.npz"], "the matrix is not 2:4"),
        (["train", "--recorded", "{tmp}", "--out", "{tmp}/m.json"], "holds no recorded device"),
        (
            ["train", "--results", "{tmp}", "--out", "{tmp}/m.json"],
            "cases.csv: there is no such table; `snakemake analysis` makes it",
        ),
        (["train", "--recorded", "{tmp}/no", "--out", "{tmp}/m.json"], "/no: there is no such folder; name one that"),
        (
            ["train", "--recorded", "resources/recorded/h200", "--out", "{tmp}/m.json"],
            "no folder in it has a device.json; it is a device itself, so name the folder above it",
        ),
    ],
)
def test_a_failure_is_one_sentence_with_code_1(mtx, tmp_path, capsys, arguments, message):
    assert main([argument.format(mtx=mtx, tmp=tmp_path) for argument in arguments]) == 1
    assert message in one_sentence(capsys.readouterr())


def test_a_broken_matrix_is_a_failure(tmp_path, capsys):
    path = tmp_path / "broken.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 5\n1 1 1.0\n")
    assert main(["advise", str(path), "--n", "8"]) == 1
    assert "broken.mtx: truncated" in one_sentence(capsys.readouterr())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_parse(command, capsys):
    from spmm_roofline.cli import _parser

    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out.splitlines()
    examples = [line.split()[1:] for line in said if line.startswith("  spmm-roofline ")]
    assert examples and all(_parser().parse_args(example) for example in examples)


def test_the_package_runs_as_the_command():
    done = subprocess.run([sys.executable, "-m", "spmm_roofline", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and all(command in done.stdout for command in COMMANDS)


def test_a_reader_that_has_enough_ends_the_command_quietly(tmp_path):
    mtx = tmp_path / "a.mtx"
    mtx.write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1\n")
    reads, writes = os.pipe()
    os.close(reads)
    arguments = ["pack", str(mtx), "--format", "csr", "-o", str(tmp_path / "a.npz")]
    with os.fdopen(writes, "w") as closed:
        command = [sys.executable, "-m", "spmm_roofline", *arguments]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--top", "1"], ["--top", "1", "--json"]])
def test_a_terminal_without_unicode_is_no_failure(mtx, arguments):
    command = [sys.executable, "-m", "spmm_roofline", "advise", str(mtx), "--n", "8", *arguments]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.isascii()


def test_a_closed_output_is_no_failure(mtx, tmp_path):
    out = tmp_path / "a.npz"
    command = [sys.executable, "-m", "spmm_roofline", "pack", str(mtx), "--format", "csr", "-o", str(out)]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "") and out.is_file()


def test_too_little_memory_is_a_failure(mtx, tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise MemoryError("Unable to allocate 8.00 GiB")

    monkeypatch.setattr("spmm_roofline.formats.pack.save_packed", refuse)
    assert main(["pack", str(mtx), "--format", "csr", "-o", str(tmp_path / "a.npz")]) == 1
    assert "this machine has too little memory: Unable to allocate 8.00 GiB" in one_sentence(capsys.readouterr())


def test_pack_does_not_overwrite_the_matrix(tmp_path, capsys):
    path = tmp_path / "a.npz"
    sparse.save_npz(path, sparse.random(30, 20, 0.1, "csr"))
    before = path.read_bytes()
    with pytest.raises(SystemExit):
        main(["pack", str(path), "--format", "csr", "-o", str(path)])
    assert "--out is the matrix itself" in capsys.readouterr().err and path.read_bytes() == before
