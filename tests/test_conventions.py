"""The files by which others find, cite, deploy and describe the project."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from spmm_roofline import contracts
from spmm_roofline.plan import Plan, PlanError
from tests.project import make_project

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def tool(name):
    """Path of a program of the extra ``release``; skips without it."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} is not installed; make test installs it")
    return found


def check(schema, *paths):
    command = [tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# --- the workflow catalog -------------------------------------------------------------------------------------------


def test_the_catalog_finds_what_standardised_usage_asks_for():
    for path in ("workflow/Snakefile", "config/config.yaml", "config/README.md", "README.md"):
        assert (ROOT / path).is_file(), f"{path} is missing"
    assert any((ROOT / "workflow/rules").glob("*.smk"))
    assert {"snakemake", "workflow"} <= set(re.findall(r"\w+", (ROOT / "README.md").read_text().lower()))
    said = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())
    assert set(said) == {"usage"} and set(said["usage"]) <= {"mandatory-flags", "software-stack-deployment", "report"}
    for way, works in said["usage"]["software-stack-deployment"].items():
        assert way in ("conda", "apptainer", "apptainer+conda") and isinstance(works, bool)


def test_the_config_page_names_every_key_and_every_file():
    text = (ROOT / "config/README.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    schema = yaml.safe_load((ROOT / "workflow/schemas/documents/config.yaml").read_text())
    assert named == set(schema["properties"])
    files = {path.name + "/" * path.is_dir() for path in (ROOT / "config").iterdir()} - {"README.md", "config.yaml"}
    assert files == set(re.findall(r"^\| `([\w.]+/|\w+\.yaml)` \|", text, re.MULTILINE))


# --- container ------------------------------------------------------------------------------------------------------


def instructions():
    """(instruction, arguments) of the Dockerfile, continued lines joined."""
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


def test_the_image_copies_what_exists_and_what_its_context_has():
    listed = (ROOT / ".dockerignore").read_text().splitlines()
    context = {line[1:] for line in listed if line.startswith("!")}
    (default,) = (words.partition("=")[2] for what, words in instructions() if words.startswith("EXTRA="))
    copied = set()
    for words in (words for what, words in instructions() if what == "COPY"):
        for source in words.split()[:-1]:
            for extra in ("cuda13", "cuda12", "compile", default):
                path = source.replace("${EXTRA}", extra)
                assert (ROOT / path).exists(), f"the Dockerfile copies {path}, which does not exist"
            copied.add(source.split("/")[0])
    assert copied == context, ".dockerignore and the Dockerfile name different files"
    assert {"workflow", "config", "kernels", "report", "resources", "profiles"} <= copied


def test_the_image_installs_pinned_packages_alone():
    (base,) = (words for what, words in instructions() if what == "FROM")
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", base), f"{base} names no version"
    installs = [part for what, words in instructions() if what == "RUN" for part in words.split("&&")]
    assert installs
    for command in installs:
        assert "pip install" in command and "--no-deps" in command and "--no-cache-dir" in command
        assert (
            "--require-hashes -r" in command
            or "--require-hashes --no-build-isolation -r" in command
            or (command.endswith("--editable ."))
        )


def test_a_linter_accepts_the_dockerfile():
    done = subprocess.run([tool("hadolint"), str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_make_image_builds_from_the_lock_file():
    done = subprocess.run(
        ["make", "-n", "image", "BUILDER=podman", "IMAGE_EXTRA=cuda12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert re.fullmatch(
        rf"podman build --build-arg EXTRA=cuda12 --build-arg COMMIT=\S+ --tag spmm-roofline:{PROJECT['version']} \.\n",
        done.stdout,
    ), done.stdout + done.stderr


def test_a_run_needs_a_python_whose_path_has_no_space(monkeypatch):
    plan = Plan(contracts.document(ROOT / "config/config.yaml", "config"))
    monkeypatch.setattr("sys.executable", "/opt/my project/.venv/bin/python")
    plan.check_deployment(["conda"])
    with pytest.raises(PlanError, match=r"my project/\.venv/bin/python, whose path has a space"):
        plan.check_deployment([])


def test_a_run_in_containers_needs_the_name_of_an_image():
    config = contracts.document(ROOT / "config/config.yaml", "config")
    Plan(config).check_deployment([])
    Plan(config | {"container": "image.sif"}).check_deployment(["apptainer"])
    with pytest.raises(PlanError, match="needs the name of an image"):
        Plan(config).check_deployment(["apptainer"])


APPTAINER = """#!/bin/sh
# Takes the command line of apptainer, and runs the command outside of any container.
if [ "$1" = --version ]; then echo "apptainer version 1.4.0"; exit; fi
echo "$@" >> started
while [ "$1" != sh ] && [ "$1" != bash ]; do shift; done
exec "$@"
"""


def test_jobs_start_in_the_image_of_the_config(tmp_path, monkeypatch):
    """With a stand-in for apptainer: what is tested is the way from the config to its command line.

    The options are those that config/README.md gives.
    """
    project = make_project(tmp_path / "project")
    program = tmp_path / "bin/apptainer"
    program.parent.mkdir()
    program.write_text(APPTAINER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    page = (ROOT / "config/README.md").read_text()
    (command,) = re.findall(r"^    snakemake (.*--sdm apptainer.*)$", page, re.MULTILINE)
    *options, config = command.split()
    (project.root / config.removeprefix("container=")).touch()
    path = [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    project.snakemake("matrices", *options, config)
    assert {path.name for path in (project.root / "results/matrices").glob("*.npz")} == {"band.npz", "mesh.npz"}
    started = (project.root / "started").read_text()
    assert re.search(r"^exec .*--nv.* \S*spmm-roofline\.sif ", started, re.MULTILINE)
    assert "import_matrices.py" in started


# --- citation -------------------------------------------------------------------------------------------------------


def test_the_citation_keeps_to_its_schema():
    check("citation-file-format", ROOT / "CITATION.cff")


def test_the_three_descriptions_of_the_project_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    zenodo = json.loads((ROOT / ".zenodo.json").read_text())
    assert zenodo["title"] == citation["title"] == PROJECT["name"]
    assert zenodo["version"] == str(citation["version"]) == PROJECT["version"]
    assert zenodo["license"] == citation["license"] == PROJECT["license"]
    assert zenodo["description"] == citation["abstract"] and citation["abstract"].startswith(PROJECT["description"])
    assert zenodo["keywords"] == citation["keywords"] and set(citation["keywords"]) <= set(PROJECT["keywords"])
    people = [author["name"] for author in citation["authors"]]
    assert [person["name"] for person in zenodo["creators"]] == people == [a["name"] for a in PROJECT["authors"]]
    cited = [entry["url"] for entry in citation["references"] if "url" in entry]
    assert zenodo["related_identifiers"] == [{"identifier": url, "relation": "cites"} for url in cited]
    assert zenodo["upload_type"] == citation["type"] == "software"


# --- people ---------------------------------------------------------------------------------------------------------


def test_issue_forms_keep_to_their_schema():
    assert {path.stem for path in FORMS} == {"config", "wrong-result", "slow-kernel", "installation", "new-kernel"}
    check("github-issue-forms", *(path for path in FORMS if path.stem != "config"))
    check("github-issue-config", ROOT / ".github/ISSUE_TEMPLATE/config.yml")


@pytest.mark.parametrize("path", [path for path in FORMS if path.stem != "config"], ids=lambda path: path.stem)
def test_the_fields_of_an_issue_form_differ_and_some_are_required(path):
    form = yaml.safe_load(path.read_text())
    asked = {entry["id"] for entry in form["body"]}
    assert len(asked) == len(form["body"]), "two fields have the same id"
    assert any(entry.get("validations", {}).get("required") for entry in form["body"])


PAGES = ["CONTRIBUTING.md", "SECURITY.md", "config/README.md", ".github/PULL_REQUEST_TEMPLATE.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_files_and_targets_that_exist(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} points to {target}, which does not exist"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)`", text)) <= targets
    for path in re.findall(r"`((?:envs|tests|config|docs|workflow|profiles)/[\w./-]+)`", text):
        if path not in ("config/suites/mine.yaml",):
            assert (ROOT / path).exists(), f"{page} names {path}, which does not exist"


@pytest.mark.parametrize(
    "path", [*PAGES, "CITATION.cff", ".zenodo.json", *(f".github/ISSUE_TEMPLATE/{p.name}" for p in FORMS)]
)
def test_nothing_is_left_to_be_filled_in(path):
    match = re.search(
        r"TODO|FIXME|TBD|XXXX|example\.(com|org)|0000-0000|your-?org|owner/repo", (ROOT / path).read_text()
    )
    assert match is None, f"{path} still says {match[0]!r}"
