"""The package as users install it: a wheel in an empty folder, without a checkout or the extra ``workflow``."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: Import names of distributions whose names differ.
IMPORTED_AS = {"nvidia-ml-py": "pynvml"}
WORKFLOW = [re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["optional-dependencies"]["workflow"]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built from a copy of the tree so that the build leaves nothing behind."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    tracked = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "kernels", "workflow")
    for name in (*tracked, "resources/selector.json", "resources/costs.json", "build/cubins"):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-r", ROOT / name, tree / name], check=True)
    build = f"from setuptools import build_meta; print(build_meta.build_wheel({str(out)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The content of the wheel in an empty folder, as after ``pip install --target``."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        subprocess.run(command, check=True)
    else:
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


def run(installed, folder, code, *arguments):
    """Standard output of a program that sees only the installed package, run from an empty folder."""
    path = filter(None, [str(installed), os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


BLOCK = f"""
import sys
for name in {[IMPORTED_AS.get(name, name) for name in WORKFLOW]}:
    sys.modules[name] = None
"""


def test_the_core_has_six_dependencies_at_most():
    assert len(PROJECT["dependencies"]) <= 6


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < 20e6


def test_select_needs_none_of_the_workflows_packages(installed, tmp_path):
    said = run(
        installed,
        tmp_path,
        BLOCK
        + """
import spmm_roofline
from scipy.sparse import random_array
advice = spmm_roofline.select(random_array((2000, 2000), density=0.01, format="csr"), 64, "float16")
print(spmm_roofline.__file__, advice.kernel, len(advice.choices))
""",
    )
    path, kernel, choices = said.split()
    assert Path(path).is_relative_to(installed) and kernel and int(choices) > 5


def test_the_commands_advise_and_pack(installed, tmp_path):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 3 2\n1 3 0.5\n2 1 -4\n")
    code = BLOCK + "from spmm_roofline.cli import main\nsys.exit(main(sys.argv[1:]))"
    assert "predicted" in run(installed, tmp_path, code, "advise", "a.mtx", "--n", "8")
    run(installed, tmp_path, code, "pack", "a.mtx", "--format", "hrpb", "-o", "hrpb.npz")
    assert (tmp_path / "hrpb.npz").is_file()


def test_importing_costs_little(installed, tmp_path):
    code = "import sys, spmm_roofline; print(*(name.split('.')[0] for name in sys.modules))"
    loaded = set(run(installed, tmp_path, code).split())
    assert not loaded & {"numpy", "scipy", "yaml", "jsonschema", "cupy"}, "the package loads what it may not need"


def test_a_product_without_cupy_says_what_to_install(installed, tmp_path):
    said = run(
        installed,
        tmp_path,
        """
        import sys
        sys.modules["cupy"] = sys.modules["cupyx"] = None
        from scipy.sparse import eye_array
        from spmm_roofline import SpMM
        try:
            SpMM(eye_array(4, format="csr"))
        except ImportError as error:
            print(error)
        """,
    )
    assert "pip install 'spmm-roofline[cuda13]'" in said


def test_all_that_a_product_reads_is_in_the_wheel(installed, tmp_path):
    said = run(
        installed,
        tmp_path,
        """
        from spmm_roofline.kernels import registry
        from spmm_roofline.paths import KERNELS, MODEL, SCHEMAS
        heads = registry.heads(str(KERNELS))
        print(len(heads), all(path.exists() for head in heads.values() for path in head.closure()))
        print(KERNELS.is_dir() and MODEL.is_file() and SCHEMAS.is_dir())
        """,
    )
    count, there, data = said.split()
    assert int(count) > 100 and there == data == "True"


@pytest.mark.gpu
def test_a_product_of_the_installed_package(installed, tmp_path):
    said = run(
        installed,
        tmp_path,
        """
        import cupy, numpy as np
        from scipy.sparse import random_array
        from spmm_roofline import SpMM
        a = random_array((900, 700), density=0.02, format="csr", rng=np.random.default_rng(0))
        b = cupy.random.default_rng(1).random((700, 64), dtype="float32")
        c = SpMM(a, dtype="float32")(b)
        print(float(abs(c.get() - a @ b.get()).max()))
        """,
    )
    assert float(said) < 1e-4


@pytest.mark.parametrize("forbidden", [True, False])
def test_processes_share_bytecode_where_it_may_not_lie_beside_sources(tmp_path, forbidden):
    code = f"""
import os, subprocess, sys
from spmm_roofline import share_bytecode
share_bytecode({str(tmp_path)!r})
subprocess.run([sys.executable, "-c", "import spmm_roofline.contracts"], check=True)
"""
    flags = ["-B"] if forbidden else []
    hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PYTHONPATH"] = str(ROOT / "workflow")
    subprocess.run([sys.executable, *flags, "-c", code], env=environment, check=True)
    assert any(tmp_path.rglob("contracts.*.pyc")) == forbidden
