"""The answer that opens the page follows from its rows: who wins, what limits, and which kernel to choose."""

import pandas as pd
import pytest

from spmm_roofline.report import answer, choices

NONE = float("nan")
OURS = {"study": "scalar", "kernel": "rows", "precision": "float32"}
THEIRS = OURS | {"study": "cusparse", "kernel": "cusparse_best_f32"}


def fastest(*found):
    """The fastest row of each case."""
    return pd.DataFrame([{"bound": "", "bound_fraction": NONE, "general": True} | row for row in found])


@pytest.mark.parametrize(
    "rows, said",
    [
        (
            [OURS | {"speedup": 2.0}, OURS | {"speedup": 8.0}, OURS | {"speedup": NONE}, THEIRS | {"speedup": 1.0}],
            "In FP32 another kernel beats cuSPARSE in 2 of 3 cases, there by 4.00× in the geometric mean, most often "
            "rows. 1 more case has no baseline.",
        ),
        (
            [OURS | {"speedup": 2.0}, OURS | {"speedup": 2.0, "kernel": "other"}],
            "In FP32 another kernel beats cuSPARSE in all 2 cases, there by 2.00× in the geometric mean, most often "
            "other and rows.",
        ),
        (
            [OURS | {"speedup": 2.0}],
            "In FP32 another kernel beats cuSPARSE in the one case, there by 2.00× in the geometric mean, most often "
            "rows.",
        ),
        (
            [THEIRS | {"speedup": 1.0}, THEIRS | {"speedup": 1.0}, *2 * [OURS | {"speedup": NONE}]],
            "In FP32 cuSPARSE is the fastest in all 2 cases. 2 more cases have no baseline.",
        ),
        ([THEIRS | {"speedup": 1.0}], "In FP32 cuSPARSE is the fastest in the one case."),
        (
            [OURS | {"speedup": NONE}],
            "In FP32 no case has a baseline: cuSPARSE was not run with all of its algorithms.",
        ),
        (
            # cuSPARSE has no product in TF32: the fastest kernel there may still lose to its product in FP32.
            [OURS | {"precision": "tf32", "speedup": speedup} for speedup in (4.0, 0.5, 1.0)],
            "In TF32 another kernel beats cuSPARSE in FP32 in 1 of 3 cases, there by 4.00× in the geometric mean, most "
            "often rows.",
        ),
        (
            [OURS | {"precision": "tf32", "speedup": speedup} for speedup in (0.25, 0.5)],
            "In TF32 cuSPARSE in FP32 is the fastest in all 2 cases.",
        ),
    ],
)
def test_who_wins(rows, said):
    assert answer.sentence(fastest(*rows), rows[0]["precision"]) == said
    assert answer.sentence(fastest(*rows), "float64") == "", "no row of another precision enters"
    others = [row | {"general": False} for row in rows]
    assert answer.sentence(fastest(*rows, *others), rows[0]["precision"]) == said, (
        "no case that users have no kernel for"
    )


def bound(*found):
    return fastest(*(OURS | {"bound": name, "bound_fraction": fraction} for name, fraction in found))


@pytest.mark.parametrize(
    "rows, said",
    [
        (
            bound(("launch", 0.2), ("compute", 0.3), ("memory", 0.6), ("memory", 0.9), ("", NONE)),
            "The lowest limit of the fastest kernels is memory in 50 %, the unit that multiplies in 25 % and the "
            "launch alone (the replay of an empty graph) in 25 % of the cases; in the median they reach 45 % of it, so "
            "that most of their time goes into something else.",
        ),
        (
            bound(("launch", 0.7), ("launch", 0.9), ("compute", 0.8)),
            "The lowest limit of the fastest kernels is the launch alone (the replay of an empty graph) in 67 % and "
            "the unit that multiplies in 33 % of the cases; in the median they reach 80 % of it.",
        ),
        (
            bound(("compute", 0.5)),
            "The lowest limit of the fastest kernels is the unit that multiplies in 100 % of the cases; in the median "
            "they reach 50 % of it.",
        ),
        (
            bound(("", NONE)),
            "What limits them is unknown: the device has no measured DRAM rate or no file in config/devices.",
        ),
    ],
)
def test_what_limits(rows, said):
    assert answer.limits(rows) == said


#: A kernel to choose, as analysis_kinds has it.
CHOSEN = {
    "kind": "mesh",
    "n": 32,
    "kernel": "rows",
    "study": "scalar",
    "matrices": 5,
    "compared": 5,
    "runner_up": "other",
    "lead": 1.5,
    "within_noise": False,
    "sums": "float32",
    "speedup": 2.0,
    "speedup_low": 1.5,
    "speedup_high": 2.5,
    "wins": 4,
    "bound": "memory",
    "bound_fraction": 0.5,
    "stale": False,
}


def chosen(*found):
    """The tables of a precision of kernels to choose that differ from :data:`CHOSEN` so."""
    return choices.choice(pd.DataFrame([CHOSEN | row for row in found]), "float16")["tables"]


def cell(**changes):
    ((line,),) = ([line["cells"] for line in table["lines"]] for table in chosen(changes))
    return line[0]


def test_a_cell_says_what_to_choose():
    assert cell() == {
        "kernel": "rows",
        "shown": "rows",
        "vendor": False,
        "sums": "",
        "as_fast": "",
        "speedup": "2.00×",
        "interval": "1.50–2.50",
        "share": "50 %",
        "bound": "memory",
        "matrices": 5,
        "compared": 5,
        "wins": 4,
        "stale": False,
    }


def test_a_cell_says_what_qualifies_its_kernel():
    assert cell(sums="float16")["sums"] == "FP16 sums"
    assert cell(sums="float64")["sums"] == ""
    assert cell(within_noise=True)["as_fast"] == "other"
    assert cell(within_noise=True, runner_up="cusparse_best_f16")["as_fast"] == "cuSPARSE"
    assert cell(within_noise=False, runner_up="cusparse_best_f16")["as_fast"] == "", "it is behind by more than noise"
    library = cell(kernel="cusparse_best_f16", study="cusparse", within_noise=True)
    assert (library["shown"], library["vendor"], library["as_fast"]) == ("cuSPARSE", True, "other")


def test_a_cell_has_no_interval_or_no_speed_up_where_none_is_known():
    few = cell(matrices=3, compared=3, speedup_low=NONE, speedup_high=NONE)
    assert (few["speedup"], few["interval"]) == ("2.00×", "")
    alone = cell(compared=0, wins=0, speedup=NONE, speedup_low=NONE, speedup_high=NONE)
    assert (alone["speedup"], alone["interval"], alone["compared"]) == ("–", "", 0)


def test_a_line_has_the_matrices_of_its_fullest_cell():
    (table,) = chosen(
        {"n": 32, "matrices": 3}, {"n": 128, "matrices": 5}, {"kind": "graph"}, {"kind": "graph", "n": 128}
    )
    told = {line["kind"]: (line["matrices"], [cell["matrices"] for cell in line["cells"]]) for line in table["lines"]}
    assert told == {"graph": (5, [5, 5]), "mesh": (5, [3, 5])}


def test_the_first_table_has_the_widths_of_most_kinds():
    found = [{"kind": kind, "n": n} for kind in ("a", "b") for n in (8, 16, 32, 64, 128, 512)]
    assert [table["widths"] for table in chosen(*found[2:6], *found[8:])] == [(32, 64, 128, 512)]
    tables = chosen(*found, {"kind": "c", "n": 512}, {"kind": "c", "n": 1}, {"kind": "d", "n": 512})
    assert [table["widths"] for table in tables] == [(8, 16, 32, 512), (1, 64, 128)]
    first, other = ({line["kind"]: [cell is not None for cell in line["cells"]] for line in t["lines"]} for t in tables)
    assert first == {
        "a": [True] * 4,
        "b": [True] * 4,
        "c": [False, False, False, True],
        "d": [False, False, False, True],
    }
    assert other == {"a": [False, True, True], "b": [False, True, True], "c": [True, False, False]}


def test_further_widths_stand_in_tables_of_equally_many():
    tables = chosen(*({"n": 2**power} for power in range(10)))
    assert [len(table["widths"]) for table in tables] == [4, 3, 3]
    assert [n for table in tables for n in table["widths"]] == [2**power for power in range(10)]


def test_gains_name_each_precision_that_another_kernel_wins():
    won = [OURS | {"precision": "float16", "speedup": factor} for factor in (2.0, 8.0)]
    lost = [OURS | {"precision": name, "study": "cusparse", "speedup": 1.0} for name in ("float16", "float32")]
    # cuSPARSE has no TF32: the fastest kernel there may lose to it in FP32, which is taken then.
    single = [OURS | {"precision": "tf32", "speedup": factor} for factor in (4.0, 0.25)]
    assert answer.gains(fastest(*won, *lost, *single)) == (
        "The fastest kernel of a case against the fastest algorithm of cuSPARSE: 2.52× in FP16 (2 of 3 cases won) and "
        "2.00× in TF32 (1 of 2), as geometric means over all cases, 1 where cuSPARSE wins."
    )
    others = [row | {"general": False} for row in lost]
    assert answer.gains(fastest(*won, *others)) == (
        "The fastest kernel of a case against the fastest algorithm of cuSPARSE: 4.00× in FP16 (2 of 2 cases won), as "
        "geometric means over the cases that a general kernel multiplied, 1 where cuSPARSE wins."
    )
    assert (
        answer.gains(fastest(OURS | {"study": "cusparse", "speedup": NONE})) == "No kernel is known to beat cuSPARSE."
    )


def test_an_answer_counts_the_doubtful_rows_of_its_own_state_of_l2():
    rows = pd.DataFrame(
        [("h200", "warm", "a", True), ("h200", "cold", "a", True), ("h200", "cold", "cusparse_best_f16", True)],
        columns=["device", "l2", "kernel", "stale"],
    ).assign(noisy=False, throttled=False)
    own = answer.measured({"cases": rows}, "h200", "warm")
    claims = pd.DataFrame({"device": ["h200"], "claim": ["one"], "overall": ["reproduced"]})
    assert answer.trust(claims, "h200", own) == (
        "Every result was compared with float64 before its time counted; of these rows, 1 is stale, 0 noisy and "
        "0 throttled; 1 of 1 claim of the studies is reproduced."
    )
