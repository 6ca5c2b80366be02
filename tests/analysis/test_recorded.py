"""What a reader may rely on in the recorded rows: limits that hold, baselines that are whole, one kind of host."""

import pandas as pd
import pytest

from spmm_roofline import contracts, paths
from spmm_roofline.analysis import bounds as limits_of_gains
from spmm_roofline.analysis.cases import COMPARABLE, is_derived, timed
from spmm_roofline.analysis.counters import other_code, profiled
from spmm_roofline.analysis.kinds import NOISE, kinds
from spmm_roofline.analysis.roofline import on_tensor_cores
from spmm_roofline.kernels.registry import heads
from tests.analysis.synthetic import ROOT
from tests.analysis.test_selector import read_recorded

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("recorded")

#: Suites that a cuSPARSE product has no place in: 2:4 weights, SCALE and stencils.
WITHOUT = {"gemm24", "memory-bound-scale", "memory-bound-stencils"}


@pytest.fixture(scope="module")
def recorded():
    return read_recorded()


@pytest.fixture(scope="module")
def launched(recorded):
    rows = recorded[0]
    return rows[~is_derived(rows["kernel"])]


#: Kernels that became faster since their counters were recorded: the report marks what these explained.
FASTER = r"sputnik(_f16)?"


def test_no_verified_row_stands_above_its_limit(launched):
    known = launched[launched["bound_fraction"].notna()]
    assert len(known) > 0.9 * len(launched)
    assert (known["bound_fraction"] <= 1).all()


def test_no_row_is_stale_and_those_of_a_suite_are_of_one_kind_of_host(launched):
    assert not launched["stale"].any()
    ok = launched[launched["status"] == "ok"]
    assert ok.groupby(["device", "suite"])["host"].nunique().max() == 1 and (ok["host"] != "").all()


def test_every_baseline_is_whole(launched):
    own = launched[(launched["status"] == "ok") & ~launched["suite"].isin(WITHOUT)]
    # Of bfloat16 the thesis' suites run cuSPARSELt alone.
    own = own[(own["precision"] != "bfloat16") | ~own["suite"].str.startswith("thesis")]
    assert (own["baseline_missing"] == "").all()
    # A case whose fastest cuSPARSE row is noisy has no baseline.
    case = [*COMPARABLE, "library"]
    own = own.assign(library=own["precision"].replace("tf32", "float32"))
    doubtful = pd.MultiIndex.from_frame(own.loc[(own["study"] == "cusparse") & own["noisy"], case])
    without = timed(own)[lambda rows: rows["speedup"].isna()]
    assert len(without) < 0.01 * len(own)
    assert pd.MultiIndex.from_frame(without[case]).isin(doubtful).all()
    rest = launched[launched["suite"].isin(WITHOUT)]
    assert len(rest) and rest["speedup"].isna().all()


def test_what_has_no_time_cannot_run_on_the_device(launched):
    rest = launched[launched["status"] != "ok"]
    assert set(rest["status"]) == {"unsupported"}
    reasons = (
        "the compiler only emulates on sm_90a",
        "bytes of shared memory, of [0-9,]+ here",
        "has columns of 16 bits",
        "dense stores every zero",
    )
    assert rest["message"].str.contains("|".join(reasons)).all()


@pytest.mark.parametrize(("device", "most"), [("h200", 0.005), ("h100", 0.015)])
def test_few_rows_are_noisy(launched, device, most):
    """Most noisy rows of the H100 are products of 7 µs with a flushed L2, whose median is known to 5 to 7 %."""
    assert launched.loc[launched["device"] == device, "noisy"].mean() < most


@pytest.mark.parametrize("device", ["h100", "h200"])
def test_counters_are_those_of_the_kernels_of_today(recorded, device):
    _, _, heads, _ = recorded
    folder = ROOT / "resources/recorded" / device
    rows = contracts.read_all(sorted(folder.glob("profile/*/*.csv")), "profile")
    known = [contracts.read(path, "kernels") for path in (*paths.compiled(), folder / "kernels.csv")]
    kernels = pd.concat(known).drop_duplicates(["kernel", "arch", "kernel_sha256"])
    from spmm_roofline.kernels import heads as registry

    prints = {name: head.sha256() for name, head in registry(str(ROOT / "kernels")).items()}
    kept = profiled(rows, kernels, prints)
    assert len(kept) and set(kept["kernel"]) <= set(heads)
    changed = other_code(rows, kernels, prints)
    assert changed["kernel"].str.fullmatch(FASTER).all()


def test_rivals_without_tensor_cores_have_none(recorded):
    rows, _, heads, _ = recorded
    table = limits_of_gains.bounds(rows[rows["suite"] == "attention"], NO_COUNTERS, heads, {}, {"h200": PEAKS})
    rivals = set(table["rival"]) - {""}
    assert rivals and not any(on_tensor_cores(heads[name]) for name in rivals)
    assert {"cublas_gemm_f16", "cublas_gemm_tf32"} <= set(table["kernel"])


NO_COUNTERS = contracts.frame([], "analysis_counters")
PEAKS = {("float32_cuda", ""): 65_000.0}


def test_the_opening_table_names_no_kernel_that_another_beats_on_shared_matrices(recorded):
    rows = recorded[0]
    table = kinds(rows, 10)
    assert (table["lead"].dropna() >= 1 - NOISE).all(), "ahead, or as fast as another within noise"
    assert (table["within_noise"] == (table["lead"] < 1 + NOISE)).all()
    assert (table["wins"] <= table["compared"]).all() and (table["compared"] <= table["matrices"]).all()
    assert table.loc[table["matrices"] < 4, "speedup_low"].isna().all()


@pytest.fixture(scope="module")
def judged():
    from spmm_roofline.analysis.inputs import Files
    from spmm_roofline.analysis.registry import ordered, steps

    found = heads(str(ROOT / "kernels"))
    files = Files(
        **dict.fromkeys(("measured", "profiled", "matrices", "formats", "kernels", "papers"), ()),
        **dict.fromkeys(("device_records", "measured_ceilings"), ()),
        recorded=[ROOT / "resources/recorded/h200"],
        devices=(ROOT / "config/devices").glob("*.yaml"),
        claims=ROOT / "config/claims.yaml",
    )
    made = {"files": files, "fingerprints": {name: head.sha256() for name, head in found.items()}}
    made |= {"heads": {name: head.as_dict() for name, head in found.items()}, "resamples": 200, "left_out": []}
    for step in ordered(steps(), made.keys(), ["claims"]):
        made[step.name] = step.make(*[made[name] for name in step.inputs])
    return made["claims"]


def test_a_claim_that_is_not_reproduced_says_why(judged):
    """On the recorded device; a number that the sentence promises is there."""
    differs = judged[judged["overall"].isin(["not_reproduced", "in_part"])]
    assert len(differs)
    assert (differs["why"] != "").all(), sorted(set(differs.loc[differs["why"] == "", "claim"]))
    assert not judged["why"].str.contains("?", regex=False).any()
    assert (judged.loc[judged["overall"] == "reproduced", "why"] == "").all()


def test_most_claims_can_be_tested(judged):
    once = judged.drop_duplicates("claim")
    assert (once["overall"] != "not_testable").mean() > 0.9
    assert once["study"].value_counts().min() >= 5
