"""The workflow as a module of another one: its files are found where it lies, and results go to the caller's folder."""

import os
import shutil
import subprocess

import pytest

from tests.project import TINY, Project, jobs_of, make_project

#: What a caller's own Snakefile says; `snakedeploy deploy-workflow` writes the same.
CALLER = """
configfile: "config/config.yaml"


module spmm:
    snakefile:
        {snakefile}
    config:
        config


use rule * from spmm
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the project whose suites and claims nobody else has."""
    return make_project(tmp_path_factory.mktemp("module") / "checkout")


@pytest.fixture
def caller(tmp_path):
    """``caller(snakefile, config)``: a folder with a workflow that uses the module and has a suite of its own."""

    def make(snakefile, **config):
        (tmp_path / "run/workflow").mkdir(parents=True)
        (tmp_path / "run/config/suites").mkdir(parents=True)
        made = Project(tmp_path / "run")
        (made.root / "workflow/Snakefile").write_text(CALLER.format(snakefile=snakefile))
        made.write_yaml("config/config.yaml", config)
        own = TINY | {"name": "own", "title": "a suite of the caller", "kernels": ["smat/*"]}
        own["matrices"] = {"generated": [{"generator": "banded", "name": "mine", "rows": 48, "half_width": 1}]}
        made.write_yaml("config/suites/own.yaml", own)
        return made

    return make


def results(project, stage):
    folder = project.root / "results" / stage
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.json")}


def test_a_module_finds_its_files_and_works_in_the_callers_folder(checkout, caller):
    before = {path for path in checkout.root.rglob("*") if "__pycache__" not in path.parts}
    run = caller(f'"{checkout.root}/workflow/Snakefile"', measure={"device": "none", "suites": ["tiny", "own"]})
    run.snakemake("matrices", "formats")
    assert results(run, "matrices") == {"mesh.json", "band.json", "mine.json"}
    assert any(name.endswith("/mine.json") for name in results(run, "formats"))
    planned = jobs_of(run.snakemake("-n"))  # without a target the report is made
    assert {"analysis", "report", "compile_kernel:mma_bt"} <= planned
    assert {path for path in checkout.root.rglob("*") if "__pycache__" not in path.parts} == before


def test_the_callers_files_win_and_what_its_config_leaves_out_is_the_projects(checkout, caller):
    run = caller(f'"{checkout.root}/workflow/Snakefile"', kernels={"archs": ["sm_80"]}, measure={"device": "none"})
    other = {"generated": [{"generator": "banded", "name": "other", "rows": 32, "half_width": 1}]}
    run.write_yaml("config/suites/tiny.yaml", TINY | {"matrices": other})  # which the project's config names
    planned = run.snakemake("-n", "kernels", "matrices")
    assert "results/matrices/other.json" in planned and "results/matrices/band.json" not in planned
    assert "results/kernels/sm_80/mma_bt.cubin" in planned and "sm_90a" not in planned


def test_a_folder_of_kernels_without_those_that_every_run_needs_is_named(checkout, caller):
    run = caller(f'"{checkout.root}/workflow/Snakefile"', measure={"device": "h200"})
    shutil.copytree(checkout.root / "kernels/smat", run.root / "kernels/smat")
    said = run.snakemake("-n", check=False)
    assert "kernels holds no kernel check, dram_copy, dram_read, which this run needs: a folder" in said
    assert "MissingInputException" not in said


@pytest.fixture
def git_host(checkout, tmp_path, monkeypatch):
    """A git host that serves the checkout, with a tag, under the address of GitHub; return the commit."""
    served = tmp_path / "host" / "somebody" / "spmm-roofline"
    served.parent.mkdir(parents=True)
    identity = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def git(*arguments):
        done = subprocess.run(
            ["git", *arguments], cwd=checkout.root, env={**os.environ, **identity}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (checkout.root / ".gitattributes").write_text(".git_archival.txt export-subst\n")
    (checkout.root / ".git_archival.txt").write_text("node: $Format:%H$\n")
    git("init", "--quiet", ".")
    git("add", ".")
    git("commit", "--quiet", "--message", "Serve a copy")
    git("tag", "v1")
    git("clone", "--quiet", "--bare", ".", str(served))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{served.parents[1]}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    return git("rev-parse", "HEAD")


def test_a_module_of_a_git_host_is_checked_out_once(git_host, caller):
    run = caller(
        'github("somebody/spmm-roofline", path="workflow/Snakefile", tag="v1")',
        measure={"device": "none", "suites": ["own"]},
    )
    run.snakemake("matrices")
    assert results(run, "matrices") == {"mine.json"}
    checkouts = list((run.root / ".snakemake/spmm-roofline").iterdir())
    assert [path.name for path in checkouts] == [git_host]
    assert (checkouts[0] / ".git_archival.txt").read_text() == f"node: {git_host}\n"
