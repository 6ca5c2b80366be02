"""The suites that ship with the project, and the default configuration."""

import importlib
import time
from pathlib import Path

import pytest

from spmm_roofline import contracts
from spmm_roofline.matrices import SOURCES, build, expand
from spmm_roofline.matrices.canonical import MatrixError

ROOT = Path(__file__).resolve().parents[2]
SUITES = sorted((ROOT / "config" / "suites").glob("*.yaml"))
CONFIG = contracts.document(ROOT / "config" / "config.yaml", "config")


def has_query(suite):
    return any(isinstance(each, dict) and "query" in each for each in suite["matrices"].get("suitesparse", []))


def test_the_design_names_these_suites():
    studies = {"thesis-synthetic", "thesis-nmult", "thesis-suitesparse", "cutespmm", "tcgnn-graphs", "attention"}
    assert {path.stem for path in SUITES} >= studies | {"gemm24", "memory-bound", "quick", "real-sample"}


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suite_keeps_its_contract_and_expands_offline(path, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("planning went to the network"))
    suite = contracts.document(path, "suite")
    assert suite["name"] == path.stem
    if has_query(suite):
        return
    specs = expand(suite, CONFIG)
    assert specs
    assert {spec["source"] for spec in specs} <= set(SOURCES)
    assert all(spec["kind"] != "unclassified" for spec in specs)


def test_a_name_means_one_matrix_in_every_suite():
    seen = {}
    for path in SUITES:
        suite = contracts.document(path, "suite")
        for spec in [] if has_query(suite) else expand(suite, CONFIG):
            assert seen.setdefault(spec["matrix"], spec) == spec, f"{path.stem} gives {spec['matrix']} another meaning"


def test_quick_has_every_generator_but_one_and_is_quick(tmp_path):
    specs = expand(contracts.document(ROOT / "config" / "suites" / "quick.yaml", "suite"), CONFIG)
    generated = importlib.import_module("spmm_roofline.matrices.generated")
    assert {spec["generator"] for spec in specs} == set(generated.GENERATORS) - {"powerlaw"}
    began = time.perf_counter()
    for spec in specs:
        build(spec, CONFIG, str(tmp_path / f"{spec['matrix']}.npz"), str(tmp_path / f"{spec['matrix']}.json"))
    assert time.perf_counter() - began < 30
    rows = contracts.read_rows(tmp_path.glob("*.json"), "matrices")
    assert len(rows) == len(specs)
    assert rows["nnz"].max() <= 2_000_000


def test_matrices_of_all_kinds_have_a_seed_of_their_own():
    seeds = {}
    for path in SUITES:
        suite = contracts.document(path, "suite")
        specs = [] if has_query(suite) else expand(suite, CONFIG)
        seeds[path.stem] = {spec["seed"] for spec in specs if spec["source"] == "generated"}
    own = seeds.pop("all-kinds")
    assert len(own) == 1 and not own & set().union(*seeds.values())


def test_real_sample_is_in_the_collection(real_data):
    index = (real_data / "suitesparse_index.csv").read_text().splitlines()
    known = {"/".join(line.split(",")[:2]) for line in index}
    for path in SUITES:
        for each in contracts.document(path, "suite")["matrices"].get("suitesparse", []):
            name = each if isinstance(each, str) else each.get("name")
            assert name is None or name in known, f"{path.stem}: {name} is not in the collection"


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ({"suitesparse": ["../../etc"]}, "does not match"),
        ({"suitesparse": [{"query": {}}]}, "non-empty"),
        ({"file": [{"path": "a.mtx", "name": "../a"}]}, "does not match"),
        ({"file": [{"path": "a.mtx", "name": "a; rm -rf b"}]}, "does not match"),
        ({"suitesparse": ["HB/$(id)"]}, "does not match"),
        ({"dlmc": {"model": "transformer", "layers": ["q"], "sparsities": [0.55]}}, "0.55 is not one of"),
        ({"dlmc": {"model": "transformer", "layers": ["../q"]}}, "does not match"),
        ({"elsewhere": []}, "elsewhere"),
    ],
)
def test_schema_refuses(matrices, message):
    suite = {"name": "x", "title": "x", "matrices": matrices, "n": [1], "kernels": ["a"], "protocol": {"l2": "cold"}}
    with pytest.raises(contracts.ContractError, match=message):
        contracts.validate(suite, "suite")


def test_two_matrices_of_one_name_are_refused():
    matrices = {"file": [{"path": "a/x.mtx"}, {"path": "b/x.mtx.gz"}]}
    with pytest.raises(MatrixError, match="suite mine: two matrices are called 'x'; give one another `name`"):
        expand({"name": "mine", "matrices": matrices}, {})
