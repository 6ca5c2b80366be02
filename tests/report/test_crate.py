import json

import pytest

from spmm_roofline.report import crate
from tests.report.crates import issues

pytest.importorskip("rocrate", reason="make test installs what it needs")


def job(tool, started, inputs, outputs):
    return crate.Job(tool, f"{tool}_0", started, started + 5, tuple(inputs), tuple(outputs))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run of three jobs, of which one reads a file outside and another makes a folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("workflow/Snakefile", "results/a.csv", "results/b.csv", "results/figures/one.svg", "input.mtx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    jobs = [
        job("report", 30, ["results/b.csv"], ["results/figures", "results/gone.html"]),
        job("import_matrices", 10, ["input.mtx"], ["results/a.csv"]),
        job("analysis", 20, ["results/a.csv", "/etc/hostname"], ["results/b.csv"]),
    ]
    assert crate.write(jobs, tmp_path / "workflow/Snakefile", "9.0").as_posix() == crate.METADATA
    return tmp_path


@pytest.fixture
def graph(folder):
    entities = json.loads((folder / crate.METADATA).read_text())["@graph"]
    return {entity["@id"]: entity for entity in entities}


def names(references):
    return [reference["@id"] for reference in references]


def test_jobs_stand_in_the_order_of_their_start_with_what_they_read_and_made(graph):
    first, second, third = (graph[f"#job-{number}"] for number in range(3))
    assert [first["name"], second["name"], third["name"]] == ["import_matrices_0", "analysis_0", "report_0"]
    assert names(first["object"]) == ["input.mtx"] and names(first["result"]) == ["results/a.csv"]
    assert names(second["object"]) == ["results/a.csv"], "a file outside of the folder is no part of the crate"
    assert names(third["result"]) == ["results/figures/one.svg"], "a folder stands for its files"
    assert third["startTime"] == "1970-01-01T00:00:30+00:00"
    assert third["instrument"] == {"@id": "#tool-report"}


def test_the_run_goes_from_the_files_of_the_user_to_the_files_that_jobs_made(graph):
    run = graph["#run"]
    assert names(run["object"]) == ["input.mtx"]
    assert {"results/a.csv", "results/b.csv", "results/figures/one.svg"} == {*names(run["result"])}
    assert (run["startTime"], run["endTime"]) == ("1970-01-01T00:00:10+00:00", "1970-01-01T00:00:35+00:00")


def test_a_file_has_its_size_and_hash(graph):
    assert graph["results/a.csv"]["contentSize"] == "13"
    assert graph["results/a.csv"]["sha256"] == "17ce11efde021b791ad90c537eeec1d285c140f4d8ef514709225decd0dcfb75"


def test_a_crate_is_valid(folder, monkeypatch):
    assert issues(folder, monkeypatch) == []


def test_a_crate_without_its_run_is_not_valid(folder, graph, monkeypatch):
    path = folder / crate.METADATA
    content = json.loads(path.read_text())
    content["@graph"] = [entity for entity in content["@graph"] if entity["@type"] != "OrganizeAction"]
    (step,) = (entity for entity in content["@graph"] if entity["@id"] == "#step-report")
    del step["workExample"]
    path.write_text(json.dumps(content))
    assert any("workExample" in issue for issue in issues(folder, monkeypatch))
