"""Every snippet of the README and of the site: run where it needs neither a GPU, a network nor minutes, else checked.

A snippet is a block that is indented by four spaces after an empty line, or fenced. Each is one of the kinds of
:data:`KINDS`; one that is none of them fails.
"""

import ast
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse
from scipy.io import mmwrite

from docs import tables
from spmm_roofline import SpMM, contracts
from spmm_roofline.cli import _parser, main
from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels.front_matter import read
from spmm_roofline.kernels.registry import registered
from spmm_roofline.run_config import SUITES, checked, suite_document
from tests import emulation

ROOT = Path(__file__).resolve().parents[2]
PAGES = tables.PAGES
TEXT = "\n".join(page.read_text() for page in PAGES)
PROGRAMS = ("pip", "make", "snakemake", "spmm-roofline", "python", "touch", "mkdir", "nvcc")

#: Subcommands of ``spmm-roofline`` that are only parsed, with the reason; all others run.
ONLY_PARSED = {
    "train": "it takes a minute, and tests/analysis/test_selector.py runs it",
    "compare": "it needs the rows of two runs, and has tests of its own",
}
#: Page whose Python runs on the emulated device.
EMULATED = "multiplying.md"
#: First lines of Python snippets that are only parsed, with the reason.
ONLY_COMPILED = {"import ssgetpy": "it downloads the index of the collection"}


def blocks(text):
    """Snippets of a page, dedented; what a command prints is fenced as ``text``, and directives are no snippets."""
    text = re.sub(r"^```(?:text\n|\{).*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    dedented = (re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in indented)
    return fenced + [f"{part.strip()}\n" for block in dedented for part in re.split(r"\n{2,}", block) if part.strip()]


def kind_of(block):
    first = block.split(maxsplit=1)[0]
    if block.startswith("/*---"):
        return "head"
    if first in PROGRAMS:
        return "shell"
    if re.match(r"(import|from) \w", block):
        return "python"
    if re.match(r"[a-z]+:\n", block):
        return "suite"
    lines = [line for line in block.splitlines() if line.strip()]
    # A drawing: every line names a folder or a file, or goes on with what the line above says.
    if all(re.match(r"[\w./*-]+ {2,}\S| {8,}\S| *└─ \w+ +\S", line) for line in lines):
        return "drawing"
    return None


SNIPPETS = [(page.name, block, kind_of(block)) for page in PAGES for block in blocks(page.read_text())]
COMMANDS = [
    (page, line)
    for page, block, kind in SNIPPETS
    if kind == "shell"
    for line in block.replace("\\\n", " ").splitlines()
    if line.strip()
]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with what commands of the pages need, and matrices of the names that they use."""
    for name in ("config", "resources", "workflow", "benchmarks", "profiles", "envs", "report", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("Makefile", "Snakefile"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    a = sparse.random_array((96, 80), density=0.05, rng=np.random.default_rng(0))
    for name in ("my.mtx", "a.mtx", "b.mtx", "path/to/my.mtx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        mmwrite(tmp_path / name, a)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spmm_roofline.measure.device.visible", list)
    registered.cache_clear()
    yield tmp_path
    registered.cache_clear()


# --- what there is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "block", "kind"), SNIPPETS, ids=lambda value: str(value).partition("\n")[0][:40])
def test_every_snippet_is_of_a_kind_that_is_checked(page, block, kind):
    assert kind is not None, f"{page}: the snippet that begins {block.partition(chr(10))[0]!r} is of no kind"


def test_every_exception_is_used():
    used = {line.split()[1] for _, line in COMMANDS if line.startswith("spmm-roofline")}
    inline = set(re.findall(r"`spmm-roofline ([a-z-]+)", TEXT))
    assert ONLY_PARSED.keys() <= used | inline | {"compare"}
    assert all(any(block.startswith(first) for _, block, _ in SNIPPETS) for first in ONLY_COMPILED)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[line[:60] for _, line in COMMANDS])
def test_a_command_is_one_that_works(page, line, checkout):
    program, *arguments = shlex.split(line, comments=True)
    CHECKS[program](arguments)


def inline_commands():
    """Commands of the package and of benchmarks within the text, which may break lines."""
    text = " ".join(TEXT.split())
    found = re.findall(r"`((?:spmm-roofline \w|python \w+/)[^`]*)`", text)
    return [command for command in found if len(command.split()) > 2]


@pytest.mark.parametrize("command", inline_commands())
def test_a_command_within_the_text_parses(command, checkout):
    program, *arguments = shlex.split(command)
    if program == "python":
        CHECKS[program](arguments)
    else:
        assert _parser().parse_args(arguments)


def check_spmm_roofline(arguments):
    if arguments[0] in ONLY_PARSED:
        assert _parser().parse_args(arguments)
    else:
        assert main(arguments) == 0


def check_python(arguments):
    script, *given = arguments
    if script == "docs/tables.py":
        assert given == []
        return
    if script == "-m":
        assert given[0] == "pytest" and all(Path(ROOT, path).exists() for path in given[1:] if "/" in path)
        return
    told = subprocess.run([sys.executable, ROOT / script, "--help"], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    for option in (word for word in given if word.startswith("-")):
        assert re.search(rf"{option}\b", told.stdout), f"{script} has no option {option}"


def check_pip(arguments):
    verb, what = arguments
    extras = re.fullmatch(r"spmm-roofline\[(\w+)\]", what)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert verb == "install" and extras and extras[1] in project["optional-dependencies"]


def check_make(arguments):
    """``make -n`` says what would run; of Snakemake's command the config is checked as planning does."""
    command = ["make", "-n", "PYTHON=python3", "EXTRA=compile", *arguments]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    run = [line for line in told.stdout.splitlines() if " -m snakemake " in line]
    for line in run:
        check_snakemake(shlex.split(line)[3:])
    assert run or arguments in (["test"], ["sanitize"], ["docs"])


def check_snakemake(arguments):
    from snakemake.cli import get_argument_parser, parse_config

    options = get_argument_parser().parse_args([word for word in arguments if "workflow-profile" not in word])
    rules = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    targets = [target for target in options.targets if not target.startswith("profiles/")]
    assert targets and all(re.search(rf"^rule {target}:", rules, re.MULTILINE) for target in targets)
    if "--workflow-profile" in arguments:
        assert (ROOT / arguments[arguments.index("--workflow-profile") + 1] / "config.yaml").is_file()
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    for key, value in parse_config(options.config).items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    found = checked(config)
    for name in [*found.get("suite", "").split(","), *found["profile"]["suites"]]:
        assert not name or suite_document(name)
    assert all(Path(path).is_file() for path in found.get("matrix", ()))


def check_touch(arguments):
    assert list(Path().glob(arguments[-1])), f"{arguments[-1]} names no file"


def check_mkdir(arguments):
    assert arguments[0] == "-p" and not Path(arguments[1]).exists()


def check_nvcc(arguments):
    assert (Path(arguments[arguments.index("-I") + 1]) / "spmm_peer.h").is_file()
    made = Path(arguments[arguments.index("-o") + 1]).parent
    assert made.is_dir() or f"mkdir -p {made}\n" in TEXT, f"nvcc writes into {made}, which a checkout does not have"


CHECKS = {
    "spmm-roofline": check_spmm_roofline,
    "python": check_python,
    "pip": check_pip,
    "make": check_make,
    "snakemake": check_snakemake,
    "touch": check_touch,
    "mkdir": check_mkdir,
    "nvcc": check_nvcc,
}


def test_the_package_runs_in_a_checkout_that_is_not_installed():
    assert "`PYTHONPATH=workflow python -m spmm_roofline`" in TEXT
    done = subprocess.run(
        [sys.executable, "-S", "-m", "spmm_roofline", "--help"],  # -S: without any installed package
        cwd=ROOT,
        env={"PYTHONPATH": "workflow"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "advise" in done.stdout, done.stderr


# --- Python -----------------------------------------------------------------------------------------------------------


class Unlaunched(SpMM):
    """A product that is checked as far as a machine without CuPy can, and whose call returns its operand."""

    def __init__(self, *arguments, **options):
        try:
            super().__init__(*arguments, **options)
        except ImportError as error:  # raised once dtype and kernel are known to fit
            assert "needs CuPy" in str(error)

    def __call__(self, b, out=None, alpha=1.0, beta=0.0, bias=None, relu=False):
        return b


def test_the_python_of_a_page_runs_from_top_to_bottom(monkeypatch):
    """One after the other with the names that the comments promise, so that they also fit one another."""
    monkeypatch.setattr("spmm_roofline.measure.device.visible", list)
    monkeypatch.setattr("spmm_roofline.multiply.SpMM", Unlaunched)
    ran = 0
    for page in PAGES:
        if page.name == EMULATED:
            continue
        a = sparse.random_array((300, 200), density=0.05, rng=np.random.default_rng(0))
        names = {"a": a, "b": object(), "bias": object()}
        for block in (block for name, block, kind in SNIPPETS if kind == "python" and name == page.name):
            code = compile(ast.parse(block), page.name, "exec")
            if block.partition("\n")[0] not in ONLY_COMPILED:
                exec(code, names)
                ran += 1
    assert ran >= 3


def test_the_python_of_the_page_on_multiplying_runs():
    """On the emulated device, with tensors of PyTorch on the CPU."""
    torch = pytest.importorskip("torch")
    a = sparse.random_array((50, 70), density=0.1, format="csr", rng=np.random.default_rng(0))
    mask = sparse.random_array((40, 40), density=0.2, format="csr", rng=np.random.default_rng(1))
    q, k, v = torch.randn(3, 1, 2, 40, 64).half()
    names = {"a": a, "b": torch.randn(70, 24).half(), "device": "cpu", "mask": mask, "q": q, "k": k, "v": v}
    with emulation.emulated(), emulation.of_tensors():
        for page, block, kind in SNIPPETS:
            if page == EMULATED and kind == "python":
                exec(compile(ast.parse(block), page, "exec"), names)
    assert names["x"].grad is not None and names["o"].shape == q.shape


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [block for _, block, kind in SNIPPETS if kind == "head"], ids=["head"])
def test_a_head_that_a_page_shows_is_that_of_its_kernel(block):
    shown = contracts.parse_yaml(re.search(r"/\*---\n(.*)\n---\*/", block, re.DOTALL)[1])
    assert not contracts.breaches(shown, "kernel")
    head = read(ROOT / "kernels" / shown["study"] / f"{shown['name']}.cu")[0]
    for key in ("source", "idea", "after", "format", "dtype", "layout", "pads", "min_arch", "requires", "tile"):
        assert getattr(head, key) == shown[key], f"a page shows another {key} of {shown['name']}"
    assert (head.launches[0].grid, ", ".join(head.launches[0].args)) == (
        shown["launch"]["grid"],
        shown["launch"]["args"],
    )


@pytest.mark.parametrize("block", [block for _, block, kind in SNIPPETS if kind == "suite"], ids=["suite"])
def test_a_part_of_a_suite_is_valid_in_one(block):
    whole = suite_document("quick") | contracts.parse_yaml(block)
    assert contracts.validate(whole, "suite")


def test_folders_and_files_of_the_drawings_exist():
    for page, block, kind in SNIPPETS:
        if kind != "drawing":
            continue
        for name in re.findall(r"^([\w./-]+)(?:\*\.yaml)? {2,}", block, re.MULTILINE):
            assert name.startswith("results/") or (ROOT / name).exists(), f"{page} draws {name}, which does not exist"


def test_formats_and_suites_that_the_text_shows_exist():
    assert set(re.findall(r"--format (\w+)", TEXT)) <= FORMATS.keys()
    assert all((ROOT / SUITES / f"{name}.yaml").is_file() for name in re.findall(r"suite=([\w-]+)\"", TEXT))
