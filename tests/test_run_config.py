"""What a config cannot ask for is refused at planning, in one sentence that says what to write instead."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from spmm_roofline.contracts import ContractError
from spmm_roofline.kernels import registered
from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.plan import Plan, PlanError
from spmm_roofline.run_config import check_config_file, check_patterns, checked, own_suites

ROOT = Path(__file__).resolve().parents[1]
MTX = "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 3 0.5\n2 1 -4\n"


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The default config, in a folder with the project's kernels and its suite ``quick``, and no GPU."""
    for name in ("kernels", "resources"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "config/suites").mkdir(parents=True)
    (tmp_path / "config/devices").symlink_to(ROOT / "config/devices")
    shutil.copy(ROOT / "config/suites/quick.yaml", tmp_path / "config/suites")
    for name in ("x.mtx", "a/x.mtx", "b/x.mtx", "rmat-14.mtx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MTX)
    (tmp_path / "empty.mtx").touch()
    monkeypatch.chdir(tmp_path)
    registered.cache_clear()
    read = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    read["measure"]["device"] = "none"
    yield read
    registered.cache_clear()


def refusal(config, error=PlanError, **entries):
    """The sentence with which a config is refused at planning."""
    with pytest.raises(error) as caught:
        _ = Plan(config | entries).suites
    said = str(caught.value)
    assert "\n" not in said
    return said


def suite_with(**entries):
    """Write the suite ``mine``: ``quick`` with other ``entries``."""
    document = yaml.safe_load(Path("config/suites/quick.yaml").read_text()) | {"name": "mine"} | entries
    Path("config/suites/mine.yaml").write_text(yaml.safe_dump(document))
    return "mine"


# --- the config -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"suite": "quik"}, "no suite called 'quik'; did you mean 'quick'? The suites are "),
        ({"profile": {"suites": ["quik"]}}, "profile.suites names 'quik', which is no suite; did you mean 'quick'?"),
        ({"matrix": "x.mtx", "suite": "quick"}, "names both suite and matrix"),
        ({"widths": 64}, "widths are those of your own matrix"),
        ({"matrix": "x.mtx", "widths": "[32,"}, "widths is '[32,'; give n, the number of columns of B"),
        ({"matrix": "x.mtx", "widths": [32, "many"]}, "give n, the number of columns of B, or several: widths=[32,64]"),
        ({"matrix": "x.mtx", "widths": 2.5}, "widths is 2.5; give n"),
        ({"matrix": {"path": "x.mtx"}}, "give the path of a matrix file, or several: matrix=[a.mtx,b.mtx]"),
        ({"matrix": "y.mtx"}, "y.mtx: there is no such file; a relative path counts from "),
        ({"matrix": "x.mts"}, "x.mts: not a matrix file"),
        ({"matrix": "empty.mtx"}, "empty.mtx: the file is empty"),
        ({"matrix": ["x.mtx", "empty.mtx"]}, "empty.mtx: the file is empty"),
    ],
)
def test_a_config_that_cannot_be_run_is_refused(config, entries, sentence):
    error = MatrixError if "x.mts" in sentence else PlanError
    assert sentence in refusal(config, error, **entries)


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"sute": "quick"}, "('sute' was unexpected); did you mean 'suite'? The keys are suite, matrix, widths, "),
        ({"colour": "red"}, "('colour' was unexpected); the keys are suite, matrix, "),
        (
            {"measure": {"device": "none", "suites": ["quick"], "case_timeout_s": 0}},
            "measure.case_timeout_s: 0 is less than or equal to the minimum of 0",
        ),
        ({"matrix": "x.mtx", "widths": 0}, "widths.0: 0 is less than the minimum of 1"),
        ({"matrix": "x.mtx", "widths": [99999999999]}, "widths.0: 99999999999 is greater than the maximum of 1048576"),
    ],
)
def test_a_config_that_breaks_its_schema_is_refused(config, entries, sentence):
    assert sentence in refusal(config, ContractError, **entries)


def test_a_config_of_before_an_optional_key_came_still_runs(config):
    needed = {"kernels": ["archs"], "measure": ["device", "suites"], "profile": ["suites"], "analysis": ["recorded"]}
    old = config | {stage: {key: config[stage][key] for key in keys} for stage, keys in needed.items()} | {"report": {}}
    plan, new = Plan(old), Plan(config)
    assert plan.suites == new.suites and plan.blocks() == new.blocks() and plan.shown_suites() == new.shown_suites()


def test_a_text_that_is_no_number_is_refused(config):
    said = refusal(config, ContractError, measure=config["measure"] | {"shard": "[1"})
    assert said == "config: measure.shard: '[1' is not of type 'integer'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "measure:\n  suites: [quick\nprofile: {}\n",
            "config.yaml: not readable: line 3: did not find expected ',' or",
        ),
        ("report: {}\nreport: {}\n", "config.yaml: not readable: line 2: the key 'report' stands twice"),
        ("", "config.yaml: a config file holds keys and their values"),
        ("hello\n", "config.yaml: a config file holds keys and their values"),
    ],
)
def test_a_config_file_that_cannot_be_read_is_named_with_the_line(tmp_path, text, sentence):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises((PlanError, ContractError)) as caught:
        check_config_file(path)
    assert sentence in str(caught.value)
    check_config_file(ROOT / "config/config.yaml")


def test_an_architecture_that_the_compiler_does_not_know_is_refused(config):
    pytest.importorskip("cuda.bindings")
    said = refusal(config, kernels={"archs": ["sm_80", "sm_9999"]})
    assert "names 'sm_9999', which the compiler does not know; " in said and "it knows are sm_75, " in said
    assert checked(config | {"kernels": {"archs": ["sm_90a", "sm_100a"]}})


def test_a_device_or_a_recorded_device_that_is_not_there_is_named(config):
    config["measure"]["device"] = "h20"
    with pytest.raises(PlanError, match=r"measure.device is 'h20', .* did you mean 'h200'\? The choices are auto, "):
        _ = Plan(config).device
    config["analysis"]["recorded"] = ["h20"]
    with pytest.raises(PlanError, match=r"names 'h20', .* did you mean 'h200'\?"):
        Plan(config).recorded()


# --- suites -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"n": [99999999999]}, "n.0: 99999999999 is greater than the maximum of 1048576"),
        ({"n": [0]}, "n.0: 0 is less than the minimum of 1"),
        (
            {"matrices": {"generated": [{"generator": "banded", "rows": -5}]}},
            "matrices.generated.0.rows: -5 is less than the minimum of 1",
        ),
        (
            {"matrices": {"generated": [{"generator": "identity", "size": 2**31}]}},
            "matrices.generated.0.size: 2147483648 is greater than the maximum of 2147483647",
        ),
        (
            {"matrices": {"generated": [{"generator": "banded", "half_width": -1}]}},
            "matrices.generated.0.half_width: -1 is less than the minimum of 0",
        ),
        (
            {"matrices": {"grids": [{"points": "2d5pt", "nx": 0, "ny": 4}]}},
            "matrices.grids.0.nx: 0 is less than the minimum of 1",
        ),
    ],
)
def test_impossible_sizes_are_refused(config, entries, sentence):
    said = refusal(config, ContractError, suite=suite_with(**entries))
    assert said.startswith("config/suites/mine.yaml: ") and sentence in said


def test_an_option_that_no_generator_takes_is_refused(config):
    suite = suite_with(matrices={"generated": [{"generator": "banded", "block": 4096}]})
    assert "generator banded has no parameter 'block'" in refusal(config, MatrixError, suite=suite)


def test_files_of_the_suites_that_run_must_be_there(config):
    suite = suite_with(matrices={"file": [{"path": "a/x.mtx"}, {"path": "a/y.mtx"}]})
    assert "a/y.mtx: there is no such file" in refusal(config, suite=suite)
    assert "did you mean 'x.mtx'?" in refusal(config, suite=suite)
    # A suite that does not run may name files of another machine.
    assert list(Plan(config).suites) == ["quick"]


def test_an_imported_matrix_may_lose_its_file(config):
    suite = suite_with(matrices={"file": [{"path": "gone.mtx"}]})
    imported("gone", "gone.mtx")
    assert list(Plan(config | {"suite": suite}).suites["mine"].specs) == ["gone"]
    imported("gone", "elsewhere/gone.mtx")
    assert "gone.mtx: there is no such file" in refusal(config, suite=suite)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("smatt/*", "smat/*"),
        ("spct/mma_obt", "sptc/mma_obt"),
        ("smat/mma_bd", "smat/mma_bt"),
        ("smat/mma_cbt_*", "smat/mma_cbt"),
        ("cusparse_csr_agl2", "cusparse_csr_alg2"),
        ("Sputnik", "sputnik"),
    ],
)
def test_a_misspelt_kernel_is_refused(config, pattern, meant):
    suite = suite_with(kernels=["smat/*", pattern])
    said = refusal(config, suite=suite)
    assert said == f"suite mine: no kernel matches {pattern!r}; did you mean {meant!r}?"


def test_a_kernel_that_is_yet_to_be_written_is_a_notice(config):
    suite = suite_with(kernels=["smat/*", "quantum/*", "teleport"])
    said = Plan(config | {"suite": suite}).notices()
    assert any("no kernel matches quantum/*, teleport yet" in notice for notice in said)


def test_a_suite_leaves_out_what_a_pattern_excludes(config):
    kernels = ["smat/*", "!smat/*_f32", "mma_t", "!quantum/*"]
    plan = Plan(config | {"suite": suite_with(kernels=kernels)})
    own = plan.suites["mine"].kernels
    assert own == [name for name, head in plan.heads.items() if head.study == "smat" and not name.endswith("_f32")]
    assert any("no kernel matches !quantum/*" in notice for notice in plan.notices())


def test_a_suite_without_any_kernel_is_refused(config):
    said = refusal(config, suite=suite_with(kernels=["quantum/*"]))
    assert "no kernel matches quantum/*, so that nothing of it can be measured" in said
    check_patterns("s", [], [], {})


def test_a_kernel_with_a_bad_head_is_left_out_and_that_is_said(config):
    Path("kernels").unlink()
    shutil.copytree(ROOT / "kernels", "kernels")
    bad = Path("kernels/smat/mma_bt.cu")
    bad.write_text(bad.read_text().replace("idea:", "ideal:", 1))
    registered.cache_clear()
    plan = Plan(config | {"suite": suite_with(kernels=["mma_bt", "mma_t"])})
    assert plan.suites["mine"].kernels == ["mma_t"]
    (said,) = [notice for notice in plan.notices() if "left out" in notice]
    assert said.startswith("left out of this run: kernels/smat/mma_bt.cu: the head has 2 errors")
    # Without the kernel that flushes L2 nothing can be measured.
    bad = Path("kernels/ceilings/dram_read.cu")
    bad.write_text(bad.read_text().replace("idea:", "ideal:", 1))
    registered.cache_clear()
    with pytest.raises(ContractError, match=r"dram_read\.cu: the head has 2 errors"):
        Plan(config)


@pytest.mark.parametrize("name", ["recorded", "profile"])
def test_a_suite_is_not_called_as_something_else(config, name):
    suite_with()
    text = Path("config/suites/mine.yaml").read_text().replace("name: mine", f"name: {name}")
    Path(f"config/suites/{name}.yaml").write_text(text)
    with pytest.raises(ContractError, match=f"'{name}' has a meaning of its own: .* recorded suites"):
        Plan(config | {"suite": "recorded"}).provenance()


# --- matrices of the user's own ---------------------------------------------------------------------------------------


def imported(matrix, origin, source="file"):
    """Leave the row of an earlier import."""
    path = Path(f"results/matrices/{matrix}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"matrix": matrix, "source": source, "origin": origin}))


@pytest.mark.parametrize(
    ("given", "widths"),
    [(64, [64]), ("64", [64]), ([64, 32], [32, 64]), (["32", "64"], [32, 64]), ("32,64", [32, 64]), ("32, 32", [32])],
)
def test_widths_of_a_matrix_of_ones_own(config, given, widths):
    assert Plan(config | {"matrix": "x.mtx", "widths": given}).suites["my-x"].n == widths


def test_without_widths_a_matrix_of_ones_own_has_those_of_quick(config):
    assert Plan(config | {"matrix": "x.mtx"}).suites["my-x"].n == [32, 128]


@pytest.mark.parametrize("given", ["x.mtx,rmat-14.mtx", ["x.mtx", "rmat-14.mtx"], ["x.mtx", "x.mtx", "rmat-14.mtx"]])
def test_several_matrices_are_measured_each_by_itself(config, given):
    suites = Plan(config | {"matrix": given}).suites
    assert next(iter(suites)) == "my-x" and len(suites) == 2


@pytest.mark.parametrize("name", ["a{b}.mtx", "{{x}}.mtx", "un{.mtx", "star*[1]?.mtx", "a b,c.mtx", "$x#%.mtx"])
def test_the_path_of_a_matrix_may_hold_any_sign(config, name):
    """Snakemake would take braces for a wildcard, so no rule has such a path as its input."""
    Path(name).write_text(MTX)
    plan = Plan(config | {"matrix": name})
    (spec,) = plan.specs.values()
    (batch,) = plan.imports
    assert spec["path"] == name and batch.inputs == (() if "{" in name else (name,))


def test_the_home_folder_and_this_folder_may_be_abbreviated(config, monkeypatch):
    monkeypatch.setenv("HOME", str(Path("a").resolve()))
    for given in ("~/x.mtx", ["~/x.mtx"], "~/x.mtx,./rmat-14.mtx"):
        assert str(Path("a/x.mtx").resolve()) in checked(config | {"matrix": given})["matrix"]
    assert checked(config | {"matrix": ["./x.mtx", "x.mtx"]})["matrix"] == ["x.mtx"]
    suite = suite_with(matrices={"file": [{"path": "~/x.mtx"}, {"path": "./rmat-14.mtx"}]})
    specs = Plan(config | {"suite": suite}).suites["mine"].specs
    assert [spec["path"] for spec in specs.values()] == [str(Path("a/x.mtx").resolve()), "rmat-14.mtx"]


def names(config, *paths):
    """Path → name, of matrices of the user's own; and what is said about the names."""
    suites, said = own_suites(checked(config | {"matrix": list(paths)}))
    files = [suite["matrices"]["file"][0] for suite in suites.values()]
    return {file["path"]: file.get("name", Path(file["path"]).stem) for file in files}, said


def test_matrices_of_one_name_get_different_ones(config):
    found, said = names(config, "a/x.mtx", "b/x.mtx")
    assert found["a/x.mtx"] == "x" and found["b/x.mtx"].startswith("x-") and len(found["b/x.mtx"]) == len("x-123456")
    assert said == [f"b/x.mtx is called {found['b/x.mtx']} here, because x is the name of a/x.mtx"]
    plan = Plan(config | {"matrix": ["a/x.mtx", "b/x.mtx"]})
    assert set(plan.specs) == set(found.values()) and said[0] in plan.notices()


def test_a_matrix_of_an_earlier_run_keeps_its_name(config):
    other = names(config, "a/x.mtx", "b/x.mtx")[0]["b/x.mtx"]
    imported("x", "a/x.mtx")
    assert names(config, "b/x.mtx")[0] == {"b/x.mtx": other}
    assert names(config, "a/x.mtx") == ({"a/x.mtx": "x"}, [])
    assert names(config, str(Path("a/x.mtx").resolve()))[1] == []


def test_a_matrix_named_as_one_of_a_suite_gets_another_name(config):
    found, said = names(config, "rmat-14.mtx")
    assert found["rmat-14.mtx"] != "rmat-14" and "the name of a matrix of suite quick" in said[0]
    imported("x", "uniform(rows=1)", source="generated")
    assert "x is the name of uniform(rows=1)" in names(config, "x.mtx")[1][0]
