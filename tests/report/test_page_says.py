"""What the page says beside its figures follows from its rows: each sentence on tables on which its usual statement
holds, and on tables on which the opposite does."""

from types import SimpleNamespace

import pandas as pd
import pytest

from spmm_roofline import contracts
from spmm_roofline.figures.papers import PAPERS
from spmm_roofline.report import devices, limits, sections, sentences
from spmm_roofline.report.studies import studies

ROW = {
    "device": "h200",
    "suite": "every",
    "kernel": "rows",
    "matrix": "mesh",
    "n": 32,
    "l2": "cold",
    "status": "ok",
    "origin": "recorded",
    "measured_at": "2026-11-20T21:30:00Z",
}
SOURCES = {"mesh": "suitesparse", "graph": "file", "toy": "generated", "weights": "dlmc"}
MATRICES = pd.DataFrame({"matrix": [*SOURCES], "source": [*SOURCES.values()]})


def rows(*found):
    return pd.DataFrame([ROW | row for row in found])


@pytest.mark.parametrize(
    "found, said",
    [
        (
            [{}, {"matrix": "graph", "n": 128, "kernel": "other"}],
            "2 kernels on 2 real matrices, N = 32 and 128, cold L2; 2 of 2 rows verified and timed, on 2026-11-20 "
            "(recorded).",
        ),
        (
            [{"matrix": "toy", "status": "wrong"}],
            "1 kernel on 1 generated matrix, N = 32, cold L2; 0 of 1 row verified and timed, on 2026-11-20 (recorded).",
        ),
        (
            [{"matrix": "weights"}, {"matrix": "toy"}, {"matrix": "gone", "status": "timeout", "l2": "warm"}],
            "1 kernel on 3 matrices (1 pruned, 1 generated and 1 of unknown origin), N = 32, cold and warm L2; 2 of 3 "
            "rows verified and timed, on 2026-11-20 (recorded).",
        ),
        (
            [{}, {"origin": "local", "measured_at": "2026-11-22T08:00:00Z"}],
            "1 kernel on 1 real matrix, N = 32, cold L2; 2 of 2 rows verified and timed, from 2026-11-20 to 2026-11-22 "
            "(measured here and recorded).",
        ),
        (
            [{"matrix": "gone"}],
            "1 kernel on 1 matrix of unknown origin, N = 32, cold L2; 1 of 1 row verified and timed, on 2026-11-20 "
            "(recorded).",
        ),
    ],
)
def test_a_suite_says_what_its_rows_cover(found, said):
    assert sentences.about(rows(*found), MATRICES) == said


def claims(*verdicts, device="h200"):
    """A claim for each verdict, each of them judged on two sets."""
    claims = {"device": device, "claim": [f"c{number}" for number in range(len(verdicts))], "overall": verdicts}
    return pd.concat([pd.DataFrame({**claims, "set": name}, dtype=object) for name in ("here", "there")])


@pytest.mark.parametrize(
    "table, said",
    [
        (
            claims("reproduced", "reproduced", "not_reproduced"),
            "On h200, 2 of 3 claims that can be tested are reproduced.",
        ),
        (claims("not_reproduced"), "On h200, 0 of 1 claim that can be tested is reproduced."),
        (claims("reproduced"), "On h200, 1 of 1 claim that can be tested is reproduced."),
        (
            claims("reproduced", "not_testable", "not_testable"),
            "On h200, 1 of 1 claim that can be tested is reproduced; 2 more cannot be tested.",
        ),
        (claims("not_testable"), "On h200, none of 1 claim can be tested."),
        (
            claims("reproduced", "reproduced", "undecided", "not_reproduced"),
            "On h200, 2 of 4 claims that can be tested are reproduced, 1 is undecided.",
        ),
        (
            claims("reproduced", "in_part", "in_part"),
            "On h200, 1 of 3 claims that can be tested is reproduced, 2 are on some of their sets.",
        ),
        (
            claims("undecided", "undecided", "not_testable"),
            "On h200, 0 of 2 claims that can be tested are reproduced, 2 are undecided; 1 more cannot be tested.",
        ),
        (claims(), ""),
        (
            pd.concat([claims("reproduced"), claims("not_reproduced", device="a100")]),
            "On a100, 0 of 1 claim that can be tested is reproduced. On h200, 1 of 1 claim that can be tested is "
            "reproduced.",
        ),
    ],
)
def test_claims_that_hold_and_that_do_not(table, said):
    assert sentences.claims_say(table) == said


def readings(percentages, per_row, numbers=(2.0, 4.0), sets=sentences.READINGS):
    """Two claims with ``numbers``, and their values under both readings."""
    return pd.DataFrame(
        [
            {"device": "h200", "claim": f"c{place}", "set": name, "unit": "times", "paper": paper, "value": value}
            for name, values in zip(sets, (percentages, per_row), strict=True)
            for place, (paper, value) in enumerate(zip(numbers, values, strict=True))
        ]
    )


@pytest.mark.parametrize(
    "table, said",
    [
        # Factors 2 and 2 against 1 and 4, whose mean is 2 too; then one of them worse.
        (
            readings((4.0, 8.0), (2.0, 4.0)),
            "1.00 with tiles per block row and 2.00 with percentages from ours: tiles",
        ),
        (
            readings((1.0, 4.0), (8.0, 1.0)),
            "1.41 with percentages and 4.00 with tiles per block row from ours: perc",
        ),
        # Factors 2 and 2.05: nobody can tell.
        (readings((4.0, 8.0), (4.1, 8.2)), "these numbers do not tell the readings apart"),
        # A number that only one reading has a value for is not compared.
        (readings((1.0, 4.0), (8.0, float("nan"))), "On h200 the 1 number that the text gives"),
        (readings((1.0, 4.0), (2.0, 4.0), sets=("percentages", "real matrices")), ""),
        (readings((1.0, 4.0), (2.0, 4.0), numbers=(float("nan"), float("nan"))), ""),
    ],
)
def test_the_reading_that_fits_the_text_is_named(table, said):
    found = sentences.readings_say(table)
    assert said in found if said else not found
    both = sentences.readings_say(pd.concat([table, table.assign(device="h100")]))
    assert both.count("XdYs") == bool(said), "what holds for every device is said of each"


def ceilings(*found, unit="GFLOP/s"):
    """Ceilings of computation: measured, datasheet."""
    about = [
        {"device": "h200", "unit": unit, "measured": measured, "datasheet": told, "share_fraction": measured / told}
        for measured, told in found
    ]
    return pd.DataFrame(about)


NONE = float("nan")


@pytest.mark.parametrize(
    "table, said",
    [
        (
            ceilings((50.0, 100.0), (90.0, 100.0)),
            "On h200, 2 ceilings of computation were measured; they reach 50 % to 90 % of its datasheet.",
        ),
        (
            ceilings((64.0, 100.0)),
            "On h200, 1 ceiling of computation was measured; it reaches 64 % of its datasheet.",
        ),
        (
            ceilings((64.0, 100.0), (10.0, NONE), (NONE, 50.0)),
            "On h200, 2 ceilings of computation were measured; 1 with a peak there reaches 64 % of its datasheet.",
        ),
        (
            ceilings((64.0, 100.0), (64.0, 100.0), (10.0, NONE)),
            "On h200, 3 ceilings of computation were measured; 2 with a peak there reach 64 % of its datasheet.",
        ),
        (ceilings((10.0, NONE)), "On h200, 1 ceiling of computation was measured."),
        (
            ceilings((NONE, 50.0)),
            "No ceilings of computation were measured on h200: the peaks of its datasheet stand for them.",
        ),
        (
            ceilings((NONE, NONE)),
            "No ceilings of computation were measured on h200: nothing is known to limit computation there.",
        ),
        (
            ceilings((50.0, 100.0), unit="GB/s"),
            "No ceilings of computation were measured on h200: nothing is known to limit computation there.",
        ),
    ],
)
def test_ceilings_that_were_measured_and_that_were_not(table, said):
    assert sentences.ceilings_say(table, ["h200"]) == said


@pytest.mark.parametrize(
    "found, said",
    [
        ([("float32", ""), ("float16", "")], ""),
        (
            [("float32", ""), ("float32", "alg2"), ("float16", "")],
            "In FP32 1 of 2 rows has no speed-up: cuSPARSE was run without alg2.",
        ),
        (
            [("float32", ""), ("float32", "alg2, alg3"), ("float32", "alg1, alg2")],
            "In FP32 2 of 3 rows have no speed-up: cuSPARSE was run without alg1, alg2 and alg3.",
        ),
        ([("float32", "alg2"), ("float32", "alg2")], "In FP32 no row has a speed-up: cuSPARSE was run without alg2."),
        ([("float32", "all"), ("float32", "all")], "In FP32 no row has a speed-up: cuSPARSE was not run."),
        ([("float32", ""), ("float32", "all")], "In FP32 1 of 2 rows has no speed-up: cuSPARSE was not run."),
        (
            [("float32", ""), ("float32", "all"), ("float32", "alg2")],
            "In FP32 2 of 3 rows have no speed-up: cuSPARSE was run without alg2, or not at all.",
        ),
        (
            [("float16", "all"), ("float32", "alg2"), ("tf32", "")],
            "In FP16 no row has a speed-up: cuSPARSE was not run. In FP32 no row has a speed-up: cuSPARSE was run "
            "without alg2.",
        ),
    ],
)
def test_rows_without_a_baseline_are_told_why(found, said):
    own = rows(*({"precision": precision, "baseline_missing": missing} for precision, missing in found))
    assert sentences.baseline_says(own) == said
    failed = rows({"precision": "float64", "baseline_missing": "all", "status": "wrong"})
    assert sentences.baseline_says(pd.concat([own, failed])) == said, "a row without a time needs no baseline"


#: A profiled case of which nothing is remarkable.
PROFILED = {
    "dram_share_fraction": 0.1,
    "l2_share_fraction": 0.1,
    "l1_share_fraction": NONE,
    "tensor_share_fraction": 0.1,
    "issue_share_fraction": 0.1,
    "state": "long_scoreboard",
    "state_fraction": 0.6,
    "state_warps": 6.0,
    "occupancy_fraction": 0.9,
    "occupancy_limit_fraction": 1.0,
    "threads_per_instruction": 32.0,
    "excess_sectors_fraction": 0.0,
    "conflicts_per_instruction": 0.0,
    "local_bytes": 0.0,
}


@pytest.mark.parametrize(
    "found, said",
    [
        (
            [("no_single_limit", {"dram_share_fraction": 0.7, "issue_share_fraction": 0.65})],
            "No single limit: DRAM moves 70 % of the highest measured rate and a scheduler issues in 65 % of the "
            "cycles.",
        ),
        (
            # Medians: DRAM 70 %, L2 80 %, tensor cores 50 %, issue 10 %; L1 was not counted.
            [
                ("no_single_limit", {"dram_share_fraction": 0.6, "l2_share_fraction": 0.8}),
                (
                    "no_single_limit",
                    {"dram_share_fraction": 0.8, "l2_share_fraction": 0.8, "tensor_share_fraction": 0.9},
                ),
                ("dram_bandwidth", {"dram_share_fraction": 0.95}),
            ],
            "No single limit on 2 of 3 profiled cases: DRAM moves 70 % of the highest measured rate, L2 moves 80 % of "
            "the highest measured rate and the tensor cores work in 50 % of the cycles. On the rest it is the "
            "bandwidth of DRAM (1).",
        ),
        (
            # On each case another unit is busy, so that no median reaches a half: the highest is named.
            [
                ("no_single_limit", {"dram_share_fraction": 0.7}),
                ("no_single_limit", {"issue_share_fraction": 0.65}),
            ],
            "No single limit on 2 of 2 profiled cases: DRAM moves 40 % of the highest measured rate.",
        ),
        (
            [
                ("dram_bandwidth", {"dram_share_fraction": 0.9}),
                ("dram_bandwidth", {"dram_share_fraction": 0.96}),
                ("no_single_limit", {"dram_share_fraction": 0.7, "l2_share_fraction": 0.7}),
            ],
            "Limited by the bandwidth of DRAM on 2 of 3 profiled cases, because DRAM moves 93 % of the highest "
            "measured rate. On the rest it is no single unit (1).",
        ),
        (
            [("memory_latency", {"occupancy_fraction": 0.25})],
            "Limited by the latency of memory, because 60 % of the waiting warps stand in long scoreboard, 6.00 for "
            "each instruction issued, while DRAM moves 10 % and L2 10 % of the highest measured rate; occupancy is "
            "25 % of at most 100 %.",
        ),
    ],
)
def test_a_kernel_is_told_what_limits_it(found, said):
    assert limits.sentence(pd.DataFrame([PROFILED | {"limiter": name} | shares for name, shares in found])) == said


def test_a_title_does_not_stand_for_the_rows():
    """The page says how many matrices the rows cover beside what the suite asks for."""
    names = ("fastest", "speedup", "synergy_classes", "families", "bounds", "roofline", "counters", "shared_memory")
    data = {name: contracts.frame([], f"analysis_{name}") for name in names}
    cases = rows({}, {"matrix": "toy"}).assign(
        study="scalar", precision="float32", stale=False, noisy=False, baseline_missing="all"
    )
    titles = {"every": "Every real matrix of the collection"}
    (suite,) = sections.suites(data | {"cases": cases, "matrices": MATRICES}, [], titles)
    assert suite["title"] == "Every real matrix of the collection"
    assert suite["covered"] == "2 matrices (1 real and 1 generated)"
    assert suite["baseline"] == "In FP32 no row has a speed-up: cuSPARSE was not run."
    (suite,) = sections.suites(data | {"cases": cases.head(1), "matrices": MATRICES}, [], {})
    assert suite["title"] == "" and suite["covered"] == "1 real matrix"


def test_a_study_has_a_section_only_where_something_of_it_is_here():
    data = {
        name: contracts.frame([], f"analysis_{name}") for name in ("published", "paper_counters", "workloads", "claims")
    }
    assert studies([], data) == [], "no figure and no number of any study"
    study, paper = next(iter(PAPERS.items()))
    kind = SimpleNamespace(study=study, section="study")
    drawn = [SimpleNamespace(kind=kind, of={"device": "h200", "suite": "every", "l2": "cold"}, name="figure")]
    (section,) = studies(drawn, data)
    assert (section["title"], section["source"]) == (paper.title, paper.source)
    (group,) = section["groups"]
    assert (group["device"], group["suite"], group["l2"]) == ("h200", "every", "cold")
    elsewhere = SimpleNamespace(kind=SimpleNamespace(study=study, section="suite"), of=drawn[0].of, name="elsewhere")
    assert studies([elsewhere], data) == [], "a figure of a suite alone makes no section"


def test_the_workloads_of_a_paper_stand_beside_their_limits():
    row = {"device": "h200", "workload": "SCALE", "steps": 1, "intensity_flop_per_byte": 1 / 16}
    row |= {"balance_flop_per_byte": 7.5, "alpha": 2.0, "memory_over_compute": 120.0, "binding": "memory"}
    row |= {"gain_limit": 1.004, "unit_limit": 4 / 3, "workload_limit": 1.008, "steps_to_compute_bound": None}
    unmeasured = row | {"workload": "GEMV", "cases": 0}
    rows = contracts.frame([row | {"cases": 2, "geomean": 0.95, "best": 1.01}, unmeasured], "analysis_workloads")
    data = {name: contracts.frame([], f"analysis_{name}") for name in ("published", "paper_counters", "claims")}
    data["workloads"] = rows
    (section,) = studies([], data)
    assert section["id"] == "study-memory_bound"
    (table,) = section["tables"]
    assert "α = 2.00, machine balance 7.50 FLOP/B" in table.caption and "(23) 1.33×" in table.caption
    assert [cell.text for cell in table.rows[0]][-3:] == ["–", "2", "0.950×, 1.01×"]
    assert [cell.text for cell in table.rows[1]][-2:] == ["0", "–"]


@pytest.mark.parametrize(
    "other_us, said",
    [
        ("2.2", []),
        (
            "4.5",
            [
                "With cold L2, 1 pair of rows of one suite are left out, whose hosts took 2.0 µs to launch on the H200 "
                "and 4.5 µs on the H100."
            ],
        ),
        ("", []),
    ],
)
def test_hosts_of_two_devices_that_launch_in_other_times(other_us, said):
    work = {"matrix_sha256": "a", "protocol": 1}
    here, there = rows(work | {"host": "2.0"}), rows(work | {"device": "h100", "host": other_us})
    titles = {"h200": "the H200", "h100": "the H100"}
    assert devices.hosts_say(pd.concat([here, there]), "h200", "h100", titles) == said
