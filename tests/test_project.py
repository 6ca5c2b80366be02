"""The project around the code: linters, lock files, the set-up by `make`, and the files of a release."""

import hashlib
import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import spmm_roofline

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]


def run(*command):
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


# --- linters --------------------------------------------------------------------------------------------------------

PYTHON = [sys.executable, "-m"]
SNAKEFILES = ["workflow/Snakefile", "workflow/rules"]


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ([*PYTHON, "ruff", "check", "."], "ruff check --fix ."),
        ([*PYTHON, "ruff", "format", "--check", "."], "ruff format ."),
        ([*PYTHON, "mypy"], "mypy"),
        (["snakefmt", "--check", *SNAKEFILES], f"snakefmt {' '.join(SNAKEFILES)}"),
        ([*PYTHON, "snakemake", "--lint"], "snakemake --lint"),
    ],
    ids=["ruff-check", "ruff-format", "mypy", "snakefmt", "snakemake-lint"],
)
def test_linters_are_content(command, remedy):
    code, output = run(*command)
    assert code == 0, f"run `{remedy}` and look at what it says:\n{output[-3000:]}"


# --- lock files -----------------------------------------------------------------------------------------------------


def pins(extra):
    """Package → its pinned versions; several if they differ by Python version or platform."""
    pinned = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.+!-]+)", (ROOT / f"envs/lock-{extra}.txt").read_text(), re.M):
        pinned.setdefault(name.lower().replace("_", "-"), []).append(version)
    return pinned


@pytest.mark.parametrize("extra", ["compile", "cuda12", "cuda13"])
def test_a_lock_file_pins_what_pyproject_asks_for(extra):
    project, pinned = PROJECT["project"], pins(extra)
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *extras[extra], *extras["slurm"], *extras["dev"]]:
        wanted = Requirement(line)
        versions = pinned.get(wanted.name.lower().replace("_", "-"), [])
        assert versions, f"envs/lock-{extra}.txt lacks {wanted.name}: run `make lock`"
        for version in versions:
            assert version in wanted.specifier, f"envs/lock-{extra}.txt pins {wanted.name} {version}, not {line}"


def test_the_lock_file_of_a_release_pins_its_tools_beside_the_versions_of_a_run():
    released, run = pins("release"), pins("compile")
    extras = PROJECT["project"]["optional-dependencies"]
    for line in [*extras["provenance"], *extras["release"]]:
        wanted = Requirement(line)
        assert all(version in wanted.specifier for version in released[wanted.name.lower()]), line
    different = {name for name in released.keys() & run.keys() if released[name] != run[name]}
    assert not different, f"envs/lock-release.txt has other versions of {sorted(different)}: run `make lock`"


@pytest.mark.parametrize("extra", ["build", "compile", "cuda12", "cuda13", "release"])
def test_a_lock_file_gives_a_hash_for_each_package_and_names_no_index(extra):
    text = (ROOT / f"envs/lock-{extra}.txt").read_text()
    for entry in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, f"envs/lock-{extra}.txt: {entry.splitlines()[0]} has no hash: run `make lock`"
    assert "://" not in text, f"envs/lock-{extra}.txt names an address; it should leave the choice of the index to pip"


@pytest.mark.parametrize("path", sorted((ROOT / "envs").glob("*.yaml")), ids=lambda path: path.stem)
def test_conda_environments_have_the_versions_of_the_lock(path):
    pinned = pins("cuda13")
    packages = yaml.safe_load(path.read_text())["dependencies"][-1]["pip"]
    for line in packages:
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        assert pin.version in pinned.get(requirement.name, []), (
            f"{path.name} pins {line}; the lock has {requirement.name} {pinned.get(requirement.name)}"
        )


@pytest.mark.parametrize("path", sorted((ROOT / "workflow" / "rules").glob("*.smk")), ids=lambda path: path.stem)
def test_rules_name_conda_environments_that_exist(path):
    for name in re.findall(r'conda:\s*"([^"]+)"', path.read_text()):
        assert (path.parent / name).resolve().parent == ROOT / "envs", f"{path.name} names {name}, which is not in envs"
        assert (path.parent / name).is_file(), f"{path.name} names {name}, which does not exist"


# --- make -----------------------------------------------------------------------------------------------------------


def test_make_alone_lists_the_targets_with_a_line_each():
    code, output = run("make")
    assert code == 0, output
    for target in ("help", "report", "test", "setup", "lock"):
        assert re.search(rf"^make {target} +\w", output, re.MULTILINE), (
            f"`make` does not list `make {target}`:\n{output}"
        )


def test_make_says_what_to_do_without_a_python():
    code, output = run("make", "setup", "PYTHON=", "EXTRA=compile")
    assert code != 0
    assert "needs Python 3.11 or later and found none: install python3.11" in output


def test_continuous_integration_calls_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK), ".ci/run is not executable"
    assert script.read_text().splitlines()[-1] == "make test"


def module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "envs" / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("cuda", "extra"), [(0, "compile"), (11080, "compile"), (12040, "cuda12"), (13000, "cuda13"), (14010, "cuda13")]
)
def test_the_driver_chooses_the_extra(cuda, extra):
    assert module("choose_extra").extra(cuda) == extra


def test_every_choice_has_its_extra_and_its_lock():
    for extra in ("compile", "cuda12", "cuda13"):
        assert extra in PROJECT["project"]["optional-dependencies"]
        assert (ROOT / "envs" / f"lock-{extra}.txt").is_file()


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The script that fetches pip, with its own lock file and without the configuration of this machine."""
    script = module("bootstrap_pip")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(script, "CONFIGURATIONS", (str(tmp_path / "pip.conf"),))
    return script


WHEEL = b"not really a wheel"


@pytest.fixture
def index(tmp_path):
    """A simple index (PEP 503) on a local port that offers one pip."""
    folder = tmp_path / "index"
    (folder / "simple" / "pip").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "files" / "pip-99.1-py3-none-any.whl").write_bytes(WHEEL)
    (folder / "simple" / "pip" / "index.html").write_text(
        '<a href="../../files/pip-99.0.tar.gz">pip-99.0.tar.gz</a>\n'
        '<a href="../../files/pip-99.1-py3-none-any.whl#sha256=0" data-requires-python="&gt;=3.9">pip-99.1</a>\n'
    )

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def test_the_pip_of_the_lock_is_fetched_where_ensurepip_is_missing(bootstrap, index, tmp_path, monkeypatch):
    version, hashes = bootstrap.pinned("pip", (ROOT / "envs" / "lock-build.txt").read_text())
    assert re.fullmatch(r"\d+(\.\d+)+", version)
    assert hashes
    monkeypatch.setenv("PIP_INDEX_URL", f"{index}/nowhere")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index)
    right = {hashlib.sha256(WHEEL).hexdigest()}
    path = bootstrap.fetch("pip-99.1-py3-none-any.whl", right, tmp_path)
    assert path.read_bytes() == WHEEL


def test_a_pip_with_another_hash_is_refused(bootstrap, index, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", index)
    with pytest.raises(SystemExit, match=r"install the system's package python3-venv.*which is not in lock-build\.txt"):
        bootstrap.fetch("pip-99.1-py3-none-any.whl", {"0" * 64}, tmp_path)
    assert not list(tmp_path.glob("*.whl"))


def test_the_index_is_that_of_pip(bootstrap, tmp_path, monkeypatch):
    assert bootstrap.indexes() == ["https://pypi.org/simple"]
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror/simple\nextra-index-url =\n a\n b\n")
    assert bootstrap.indexes() == ["https://mirror/simple", "a", "b"]
    monkeypatch.setenv("PIP_INDEX_URL", "https://other/simple")
    assert bootstrap.indexes() == ["https://other/simple", "a", "b"]


# --- a release ------------------------------------------------------------------------------------------------------


def test_one_version_everywhere():
    assert spmm_roofline.__version__ == VERSION
    assert str(yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]) == VERSION
    assert f"## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text(), f"CHANGELOG.md has no entry for {VERSION}"


def test_the_licence_is_one_everywhere():
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text
