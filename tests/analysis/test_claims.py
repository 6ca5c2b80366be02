"""Claims: each function of an expression by hand, every verdict, and what cannot be read is refused."""

import itertools
from functools import cache

import pandas as pd
import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.claims import claims, overall, verdict
from spmm_roofline.analysis.vocabulary import FEATURES, ClaimError
from spmm_roofline.kernels.registry import heads
from spmm_roofline.suites import resolve
from tests.analysis import synthetic

CONFIG = synthetic.ROOT / "config"
FILE = contracts.document(CONFIG / "claims.yaml", "claims")
DOCUMENT, RIVALS = FILE["claims"], FILE["rivals"]

#: matrix → (share of 2:4 tiles, time of mma_t, mma_bt, mma_bt_f32) at N = 128.
TIMES = {"a": (0.5, 8.0, 2.0, 1.0), "b": (0.05, 3.0, 3.0, 6.0), "c": (0.3, 1.0, 2.0, 4.0)}

KERNELS = ("mma_t", "mma_bt", "mma_bt_f32")
HEADS = synthetic.HEADS | {"mma_t": synthetic.HEADS["mma_t"] | {"format": "bcsr_classed"}}

#: As :data:`TIMES`, of four matrices: the ratios of mma_t and mma_bt are 4, 1, 1/2 and 2.
FOUR = {"a": (0.5, 8.0, 2.0, 1.0), "b": (0.05, 3.0, 3.0, 6.0), "c": (0.3, 1.0, 2.0, 4.0), "d2": (0.3, 4.0, 2.0, 1.0)}


#: Packing of the formats of the three kernels on a host, in ms.
BUILT = {"bcsr_classed": 60.0, "bcsr_16x16": 30.0}


def judged(expression, **options):
    """The row of one claim over made-up times."""
    (row,) = judged_on(expression, {"all": options.pop("suites", ("quick",))}, **options)
    return row


def judged_on(expression, sets, *, times=TIMES, noisy=(), stale=(), why="", left_out=(), **expect):
    """The rows of one claim on sets of suites; ``noisy`` and ``stale`` are the kernels and matrices whose rows are."""
    cases = pd.DataFrame(
        [
            {"device": "h200", "suite": "quick", "matrix": matrix, "matrix_sha256": matrix, "n": n, "l2": "cold"}
            | {
                "protocol": 1,
                "kernel": kernel,
                "time_ms": n / 128 * time,
                "status": "ok",
                "noisy": (kernel, matrix) in noisy,
                "stale": (kernel, matrix) in stale,
                "host": "4.4",
            }
            | {
                "preprocess_ms": 6.0,
                "useful_gflops": 1 / time,
                "compulsory_bytes": n * {"a": 50, "b": 100}.get(matrix, 200),
                "m": 128 if matrix == "a" else 64,
                "k": 128 if matrix == "a" else 64,
            }
            for matrix, (_, *row) in times.items()
            for kernel, time in zip(KERNELS, row, strict=True)
            for n in (64, 128)
        ]
        # A time that was not verified is no time.
        + [
            {"device": "h200", "suite": "quick", "matrix": "d", "matrix_sha256": "d", "n": 128, "l2": "cold"}
            | {
                "protocol": 1,
                "kernel": kernel,
                "time_ms": float("nan"),
                "status": "wrong",
                "noisy": None,
                "stale": False,
                "host": "4.4",
            }
            | {"preprocess_ms": 6.0, "useful_gflops": float("nan"), "compulsory_bytes": 100}
            for kernel in KERNELS
        ]
    )
    matrices = pd.DataFrame(
        [
            {"matrix": name, "tile_24_16x32_fraction": row[0], "alpha_fraction": row[0] / 2}
            | {"m": 30_000 if name == "a" else 64, "density_fraction": 1 - row[0], "brick_fill_16x4_fraction": row[0]}
            for name, row in times.items()
        ]
    )
    formats = pd.DataFrame(
        [
            {"format": name, "matrix": matrix, "status": "ok", "build_ms": build_ms}
            for name, build_ms in BUILT.items()
            for matrix in times
        ]
    )
    counters = pd.DataFrame(
        [
            {"device": "h200", "suite": "quick", "kernel": kernel, "matrix": matrix, "n": 128, "l2": "cold"}
            | {"instructions": value, "m": 1, "k": 1, "compulsory_bytes": 1}
            for matrix in times
            for kernel, value in (("mma_t", 100.0), ("mma_bt", 25.0))
        ]
    )
    claim = {"id": "x", "study": "smat", "source": "section", "says": "it is so", "unit": "times"}
    claim |= {"sets": {name: list(suites) for name, suites in sets.items()}, "why": why}
    claim |= {"value": expression, "expect": expect or {"at_least": 0}}
    found = claims(cases, matrices, formats, counters, [claim], HEADS, RIVALS, {"h200": 12_800}, 100, left_out)
    return found.to_dict("records")


@pytest.mark.parametrize(
    ("expression", "value", "cases"),
    [
        ('geomean(speedup("mma_bt", "mma_t", n=128))', 2 ** (1 / 3), 3),  # 4, 1, 1/2
        ('maximum(speedup("mma_bt", "mma_t", n=128))', 4, 3),
        ('minimum(speedup("mma_bt", "mma_t", n=128))', 0.5, 3),
        ('median(speedup("mma_bt", "mma_t"))', 1, 6),
        ('share_above(speedup("mma_bt", "mma_t", n=[64, 128]), 1)', 1 / 3, 6),
        ('geomean(speedup("mma_bt", "mma_t", n=128, matrix="[ab]"))', 2, 2),
        ('geomean(speedup("mma_bt", "mma_t", n=128, matrix=["b", "c"]))', 0.5**0.5, 2),
        ('geomean(speedup("mma_bt", "mma_t", n=128, sparse24_at_least=0.3))', 2**0.5, 2),  # 0.3 itself counts
        ('geomean(speedup("mma_bt", "mma_t", n=128, sparse24_below=0.3))', 1, 1),
        ('geomean(speedup("mma_bt", "mma_t", n=128, sparse24_at_least=0.1, sparse24_below=0.4))', 0.5, 1),
        ('geomean(speedup("mma_bt", "mma_t", n=128, alpha_at_least=0.25))', 4, 1),
        ('geomean(speedup("mma_bt", "mma_t", n=128, alpha_below=0.25))', 0.5**0.5, 2),
        # 12,800 bytes of L2; at n = 128 matrix a moves 6,400, b just as many as fit, c twice as many.
        ('geomean(speedup("mma_bt", "mma_t", n=128, l2_below=1))', 4, 1),
        ('geomean(speedup("mma_bt", "mma_t", n=128, l2_at_least=1))', 0.5**0.5, 2),
        ('maximum(speedup("mma_bt", "mma_t", n=128, l2_at_least=1.5))', 0.5, 1),
        ('median(packing("mma_bt", n=128))', 3, 3),  # 6 over 2, 3, 2
        # Of several rivals the fastest counts, case by case, and never the kernel itself.
        ('maximum(speedup("mma_bt", "smat/*", n=128))', 1, 3),
        ('minimum(speedup("mma_bt_f32", ["mma_t", "mma_bt"], n=128))', 0.25, 3),
        ('geomean(speedup("mma_bt", "mma_t", n=128)) - 1', 2 ** (1 / 3) - 1, 3),
        # Of several kernels the fastest counts too.
        ('geomean(speedup(["mma_bt", "mma_bt_f32"], "mma_t", n=128))', (8 * 1 * 0.5) ** (1 / 3), 3),
        ('geomean(speedup("mma_bt", "mma_t", n=128, rows_at_least=100))', 4, 1),
        ('geomean(speedup("mma_bt", "mma_t", n=128, density_below=0.6))', 4, 1),
        ('geomean(speedup("mma_bt", "mma_t", square=True))', (4 * 1 * 0.5) ** (1 / 3), 3),  # m = k = n
        # The least means of groups: a has 30,000 rows and high synergy, b and c few; b is low, c medium.
        ('minimum(grouped("mma_bt", "mma_t"))', 0.5, 6),
        ('maximum(grouped("mma_bt", "mma_t"))', 4, 6),
        # Rates are 1 / time: of class high a alone, 1/2 against 1/8.
        ('maximum(quantiles("mma_bt", "mma_t", [0.25, 0.5], n=128))', 4, 3),
        ('share_above(quantiles("mma_bt", "mma_t", 0.5, n=128), 1)', 1 / 3, 3),
        ('median(packing_on_host("mma_bt", n=128))', 15, 3),  # 30 over 2, 3, 2
        ('median(preprocessing_on_host("mma_bt", "mma_t", n=128))', 2, 3),
        ('geomean(counter("mma_bt", "instructions") / counter("mma_t", "instructions"))', 0.25, 3),
        ('maximum(feature("sparse24"))', 0.5, 3),
        ('share_between(feature("sparse24"), 0.05, 0.5)', 2 / 3, 3),
        ('least(minimum(feature("sparse24")), 3)', 0.05, 3),
        ('quantile(speedup("mma_bt", "mma_t", n=128), 1)', 4, 3),
    ],
)
def test_values_by_hand(expression, value, cases):
    row = judged(expression)
    assert row["value"] == pytest.approx(value)
    assert row["cases"] == cases


def test_synergy_is_the_rank_correlation_of_density_and_rate():
    times = {
        name: (0.1 * place, 1.0, time, 1.0)
        for place, (name, time) in enumerate(zip("efghi", (9, 7, 8, 4, 2), strict=True))
    }
    # Rates rank 1, 3, 2, 4, 5 over ascending density: 1 - 6·2/(5·24).
    assert judged('synergy("mma_bt", n=128)', times=times)["value"] == pytest.approx(0.9)


def test_means_and_quantiles_have_an_interval_and_extremes_have_none():
    expression = 'geomean(speedup("mma_bt", "mma_t", n=128))'
    mean = judged(expression, times=FOUR)
    assert mean["low"] < mean["value"] < mean["high"]
    assert pd.isna(judged(expression)["low"]), "of three matrices nobody knows the spread"
    # Two widths of three matrices are six ratios, and still three matrices.
    assert pd.isna(judged('geomean(speedup("mma_bt", "mma_t"))')["low"])
    median = judged('median(speedup("mma_bt", "mma_t", n=128))', times=FOUR)
    assert median["low"] <= median["value"] <= median["high"] and median["low"] < median["high"]
    assert pd.isna(judged('maximum(speedup("mma_bt", "mma_t", n=128))', times=FOUR)["low"])
    assert pd.isna(judged('geomean(speedup("mma_bt", "mma_t", n=128)) - 1')["low"])


@pytest.mark.parametrize(
    ("expect", "verdict", "expected"),
    [
        ({"at_least": 1.2}, "reproduced", "≥ 1.2"),
        ({"at_least": 1.3}, "not_reproduced", "≥ 1.3"),
        ({"at_most": 1.2}, "not_reproduced", "≤ 1.2"),
        ({"at_least": 1.2, "at_most": 1.3}, "reproduced", "≥ 1.2 and ≤ 1.3"),
        ({"at_least": 1.1, "at_most": 1.2}, "not_reproduced", "≥ 1.1 and ≤ 1.2"),
    ],
)
def test_the_verdict_is_whether_all_limits_hold(expect, verdict, expected):
    row = judged('geomean(speedup("mma_bt", "mma_t", n=128))', **expect)  # 1.26
    assert (row["suites"], row["cases"]) == ("quick", 3)
    assert (row["verdict"], row["expected"]) == (verdict, expected)


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        ({"at_least": 1.0}, "undecided"),
        ({"at_most": 1.6}, "undecided"),
        ({"at_least": 0.4}, "reproduced"),
        ({"at_least": 4.5}, "not_reproduced"),
        ({"at_least": 0.4, "at_most": 1.5}, "undecided"),
    ],
)
def test_a_threshold_within_the_interval_decides_nothing(expect, verdict):
    row = judged('geomean(speedup("mma_bt", "mma_t", n=128))', times=FOUR, **expect)
    assert row["value"] == pytest.approx(2**0.5) and 0.5 < row["low"] < 1 < 1.6 < row["high"] < 4
    assert row["verdict"] == verdict


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "not_testable"], "reproduced"),
        (["reproduced", "not_reproduced"], "in_part"),
        (["reproduced", "undecided"], "in_part"),
        (["undecided", "not_reproduced"], "not_reproduced"),
        (["not_reproduced", "not_testable"], "not_reproduced"),
        (["not_testable", "not_testable"], "not_testable"),
    ],
)
def test_a_claim_over_several_sets(verdicts, said):
    assert overall(verdicts) == said


def test_each_set_is_judged_by_itself_and_the_reason_has_numbers():
    why = (
        'It is {maximum(speedup("mma_bt", "mma_t", n=128))}, {geomean(speedup("mma_obts", "mma_t"))} of none, '
        '{share_above(speedup("mma_bt", "mma_t", n=128), 1):%} and {1000 * 2:,}.'
    )
    expression = 'minimum(speedup("mma_bt", "mma_t", n=128))'
    here, there = judged_on(expression, {"here": ("quick",), "there": ("real-sample",)}, at_least=0.6, why=why)
    assert (here["set"], here["verdict"], here["matrices"]) == ("here", "not_reproduced", 3)
    assert (there["set"], there["verdict"]) == ("there", "not_testable")
    assert here["overall"] == there["overall"] == "not_reproduced"
    assert here["why"] == "It is 4, ? of none, 33 % and 2,000."
    (held,) = judged_on(expression, {"here": ("quick",)}, at_least=0.4, why=why)
    assert held["why"] == "" and held["overall"] == "reproduced"


def test_noisy_times_judge_nothing():
    row = judged('geomean(speedup("mma_bt", "mma_t", n=128))', noisy=list(itertools.product(KERNELS, TIMES)))
    assert row["verdict"] == "not_testable" and "none of its suites" in row["message"]


def test_a_case_whose_fastest_rival_is_noisy_is_left_out():
    """On c, the fastest rival takes 2 and the next one 4: by that one, mma_t would gain twice as much."""
    expression = 'maximum(speedup("mma_t", ["mma_bt", "mma_bt_f32"], n=128))'
    assert judged(expression)["value"] == 2.0
    row = judged(expression, noisy={("mma_bt", "c")})
    assert row["value"] == 1.0 and row["matrices"] == 2, "c is left out, where mma_bt was the fastest rival"
    slower = judged(expression, noisy={("mma_bt_f32", "c")})
    assert slower["value"] == 2.0 and slower["matrices"] == 3, "a noisy row that is not the fastest changes nothing"
    rates = judged('minimum(quantiles("mma_t", ["mma_bt", "mma_bt_f32"], 1, n=128))', noisy={("mma_bt", "c")})
    assert rates["matrices"] == 2


@pytest.mark.parametrize(
    ("expression", "options", "why"),
    [
        ('geomean(speedup("mma_bt", "mma_t"))', {"suites": ("real-sample",)}, "none of its suites was measured"),
        ('geomean(speedup("mma_bt", "mma_t", n=32))', {}, "no measured matrix is of the kind"),
        ('geomean(speedup("mma_bt", "mma_t", matrix="zz*"))', {}, "no measured matrix is of the kind"),
        ('geomean(speedup("mma_bt", "mma_t", sparse24_at_least=0.9))', {}, "no measured matrix is of the kind"),
        ('geomean(speedup("mma_bt", "mma_t", l2_at_least=9))', {}, "no measured matrix is of the kind"),
        ('geomean(speedup("mma_obts", "mma_t"))', {}, "not measured in its cases: mma_obts"),
        ('median(packing("mma_obts"))', {}, "not measured in its cases: mma_obts"),
        ('geomean(counter("mma_bt_f32", "instructions"))', {}, "instructions of mma_bt_f32 was not counted"),
        ('median(feature("sparse24", matrix="zz"))', {}, "no measured matrix is of the kind"),
        ('synergy("mma_bt", n=128)', {}, "a rank correlation of 3 cases says nothing"),
    ],
)
def test_what_has_no_rows_is_not_testable_and_says_why(expression, options, why):
    row = judged(expression, **options)
    assert row["verdict"] == "not_testable" and pd.isna(row["value"])
    assert why in row["message"]


@pytest.mark.parametrize(
    "expression",
    [
        'geomean(speedup("mma_zz", "mma_t"))',
        'geomean(speedup("mma_bt", "nobody/*"))',
        'mean(speedup("mma_bt", "mma_t"))',
        'geomean(speedup("mma_bt", "mma_t", width=3))',
        'geomean(speedup("mma_bt", "mma_t", beta_below=3))',
        'maximum(feature("beta"))',
        'maximum(counter("mma_bt", "beta"))',
        '__import__("os").getcwd()',
        'speedup("mma_bt", "mma_t").__class__',
        "geomean(",
    ],
)
def test_what_cannot_be_read_is_refused(expression):
    with pytest.raises(ClaimError, match="claim x: "):
        judged(expression)


def test_a_claim_on_a_kernel_that_is_left_out_is_not_testable():
    row = judged('geomean(speedup("mma_zz", "mma_t"))', left_out=["kernels/smat/mma_zz.cu"])
    assert row["verdict"] == "not_testable"
    assert row["message"] == "no kernel is called 'mma_zz'; left out was kernels/smat/mma_zz.cu"


def test_ids_are_unique():
    ids = [claim["id"] for claim in DOCUMENT]
    assert len(set(ids)) == len(ids)


@cache
def plain_heads():
    """All kernels by name."""
    return {name: head.as_dict() for name, head in heads(str(synthetic.ROOT / "kernels")).items()}


@cache
def kernels_of(suite):
    """Those that a suite runs."""
    patterns = contracts.document(CONFIG / "suites" / f"{suite}.yaml", "suite")["kernels"]
    return set(resolve(patterns, heads(str(synthetic.ROOT / "kernels")))[0])


@pytest.mark.parametrize("claim", DOCUMENT, ids=lambda claim: claim["id"])
def test_a_claim_names_what_exists(claim):
    """Suites that are there, kernels that their suites run, and limits that something can break."""
    known = plain_heads()
    columns = (
        "device",
        "host",
        "status",
        "suite",
        "matrix",
        "matrix_sha256",
        "n",
        "l2",
        "protocol",
        "compulsory_bytes",
    )
    one = pd.DataFrame([dict.fromkeys(columns, "x") | {"kernel": "x", "time_ms": 1.0, "noisy": False, "m": 1, "k": 1}])
    one = one.assign(stale=False)
    one = one.assign(useful_gflops=1.0, preprocess_ms=1.0)
    nothing = pd.DataFrame({"matrix": [], **{column: [] for column in FEATURES.values()}})
    no_formats = pd.DataFrame({"format": [], "matrix": [], "status": [], "build_ms": []})
    counters = contracts.frame([], "analysis_counters")
    rows = claims(one, nothing, no_formats, counters, [claim], known, RIVALS, {}, 10)
    assert set(rows["verdict"]) == {"not_testable"}
    for name in dict.fromkeys(suite for suites in claim["sets"].values() for suite in suites):
        named = {kernel for kernel in known if f'"{kernel}"' in claim["value"]}
        assert named <= kernels_of(name), f"suite {name} does not run {sorted(named - kernels_of(name))}"


@pytest.mark.parametrize(
    ("expect", "value", "interval", "said"),
    [
        ({"at_least": 1.3}, 1.3, (), "reproduced"),
        ({"at_most": 1.3}, 1.3, (), "reproduced"),
        ({"at_least": 1.0, "at_most": 1.3}, 1.31, (), "not_reproduced"),
        ({"at_least": 1.3}, 1.4, (1.3, 1.5), "reproduced"),
        ({"at_most": 1.3}, 1.2, (1.1, 1.3), "reproduced"),
        ({"at_least": 1.3}, 1.4, (1.29, 1.5), "undecided"),
    ],
)
def test_a_threshold_itself_is_as_expected(expect, value, interval, said):
    assert verdict(expect, value, *interval) == said, "an interval that ends at the threshold does not hold it"


def test_a_value_is_stale_if_one_of_its_times_is():
    expression = 'geomean(speedup("mma_bt", ["mma_t", "mma_bt_f32"]))'
    assert not judged(expression, at_least=0)["stale"]
    assert judged(expression, at_least=0, stale=[("mma_bt", "a")])["stale"]
    # On matrix b, mma_bt_f32 is the slower of the rivals.
    assert not judged(expression, at_least=0, stale=[("mma_bt_f32", "b")])["stale"]
    assert judged(expression, at_least=0, stale=[("mma_t", "b")])["stale"]
