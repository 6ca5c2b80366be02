"""Figures of counters that answer a question of a study, and the table beside them."""

import pandas as pd
import pytest

from spmm_roofline.figures import branch_stall, paper_counters, wide_tiles
from spmm_roofline.report.tables import study as study_tables
from tests.figures.test_studies import drawn_and_said, known

DENSE, SPARSE = (f"transformer-l0_regularization-{sparsity}-layer" for sparsity in (0.5, 0.98))
QUANTITIES = {
    # quantity → comparable, the thesis's values of three kernels, ours
    "excess_sectors_fraction": (True, (0.87, 0.10, 0.39), (0.86, 0.33, 0.40)),
    "ctas": (True, (4096, 32768, 154880), (4096, 32768, 154880)),
    "cycles_per_instruction": (False, (533.54, 43.51, 20.29), (200.0, 60.0, 30.0)),
}
KERNELS = ("rows", "tiles", "library")


def beside(**changes):
    """Tables of three kernels whose counters the thesis prints."""
    common = {"device": "h200", "suite": "pruned", "study": "attention", "source": "section 5.3.2", "n": 4096}
    rows = [
        common | {"kernel": kernel, "matrix": DENSE, "quantity": quantity, "comparable": comparable}
        | {"published": theirs[i], "ours": ours[i]}
        for quantity, (comparable, theirs, ours) in QUANTITIES.items() for i, kernel in enumerate(KERNELS)
    ]  # fmt: skip
    at_98 = {"matrix": SPARSE, "quantity": "cycles_per_instruction", "comparable": False}
    rows.append(common | at_98 | {"kernel": "rows", "published": 28.72, "ours": 20.0})
    counters = pd.DataFrame(rows).assign(**changes)
    studies = {"library": "cusparse"}
    cases = counters[["kernel", "matrix"]].assign(study=[studies.get(name, "attention") for name in counters["kernel"]])
    return {
        "paper_counters": counters,
        "cases": cases,
        "ladder": pd.DataFrame({"kernel": ["tiles"], "after": ["rows"]}),
    }


def test_counters_of_the_thesis_stand_beside_ours():
    shown, said = drawn_and_said(paper_counters, beside())
    for word in (
        "excess sectors (%)",
        "CTAs",
        "cycles per instruction",
        "thesis, 50 % sparsity",
        "here, 98 % sparsity",
    ):
        assert word in shown, f"{word} is not in the figure"
    assert shown.index("rows") < shown.index("tiles") < shown.index("library"), "rungs in order, the library last"
    assert said == (
        "Of 10 counters that the thesis prints and we counted too, 6 should not depend on the GPU; 5 of these differ "
        "by less than 10 %. Farthest apart are the excess sectors of tiles: 33 % here, 10 % in the thesis. A warp of "
        "rows takes 200 cycles for an instruction at 50 % sparsity and 20.0 at 98 %, in the thesis 534 and 28.7."
    )


def test_counters_that_we_lack_are_no_figure_and_no_table():
    nothing = beside(ours=float("nan"))
    assert paper_counters.draw(nothing, {}) is None and paper_counters.says(nothing) == ""
    assert study_tables.counters(nothing["paper_counters"]) == []


def test_a_later_section_counts_and_layers_are_averaged():
    tables = beside()
    rows = tables["paper_counters"]
    rounded = rows.iloc[[0]].assign(source="section 4.1", published=0.9)
    layer = rows.iloc[[0]].assign(matrix=f"{DENSE}-k", ours=0.88)
    shown = paper_counters._shown(tables | {"paper_counters": pd.concat([rounded, rows, layer])})
    own = shown[(shown["kernel"] == "rows") & (shown["quantity"] == "excess_sectors_fraction")]
    assert own[["published", "ours"]].to_numpy().tolist() == [[0.87, pytest.approx(0.87)]]


def test_the_table_has_a_line_for_each_kernel_and_sparsity():
    rows = beside()["paper_counters"]
    rows.loc[(rows["kernel"] == "tiles") & (rows["quantity"] == "ctas"), "ours"] = float("nan")
    (table,) = study_tables.counters(rows)
    assert table.columns == ("sparsity", "N", "kernel", "excess sectors", "CTAs", "cycles per instruction")
    assert table.caption.endswith("independent of the GPU: excess sectors and CTAs")
    cells = [[cell.text for cell in row] for row in table.rows]
    assert cells[0] == ["50 %", "4,096", "library", "40 % / 39 %", "154,880 / 154,880", "30.0 / 20.3"]
    assert cells[2][3:] == ["33 % / 10 %", "– / 32,768", "60.0 / 43.5"]
    assert cells[3] == ["98 %", "4,096", "rows", "–", "–", "20.0 / 28.7"]


def pair(kernel, below, **changes):
    """A row of the table ``rungs``: both kernels execute the same; the lower one takes twice the time."""
    both = {"instructions": 4000.0, "global_loads": 400.0, "shared_loads": 200.0, "shared_load_wavefronts": 600.0}
    both |= {"cycles_per_instruction": 10.0, "branch_warps": 0.5, "memory_warps": 4.0}
    row = {"device": "h200", "suite": "tiles", "study": "sptc", "kernel": kernel, "below": below, "matrix": "full"}
    row |= {"n": 64, "products": 100.0, "tile_k": 32, "below_tile_k": 16, "loads_alike": True, "all_dense": True}
    return row | both | {f"below_{name}": value for name, value in both.items()} | {"speedup": 2.0} | changes


def tables_of(*rows):
    rungs = pd.DataFrame(list(rows)).astype({"tile_k": "Int64", "below_tile_k": "Int64"})
    names = pd.unique(rungs[["kernel", "below"]].to_numpy().ravel())
    cases = pd.DataFrame({"kernel": names, "study": "sptc", "matrix": "full"})
    ladder = pd.DataFrame({"kernel": ["narrow", "wide", "wider"], "after": ["first", "narrow", "wide"]})
    return {"rungs": rungs, "cases": cases, "ladder": ladder, "matrices": known(cases)}


def test_a_wider_tile_that_saves_instructions_of_the_loop():
    rows = [pair("wide", "narrow", instructions=3000.0, global_loads=300.0, memory_warps=2.0)]
    slower = pair("wide", "first", speedup=3.0), pair("wide", "first", n=8)
    shown, said = drawn_and_said(wide_tiles, tables_of(*rows, *slower, pair("wider", "narrow")))
    assert "wide over narrow" in shown and "wide over first" in shown and "wider over" not in shown
    assert said.startswith("On 1 generated matrix of dense tiles, in 2 cases, wide is 2.00× to 3.00× as fast as first.")
    _, said = drawn_and_said(wide_tiles, tables_of(*rows))
    assert said == (
        "On 1 generated matrix of dense tiles, in 1 case, wide is 2.00× as fast as narrow. For a product of "
        "16×16 by 16×8 it executes 2.00 loads from shared memory instead of 2.00, with 6.00 wavefronts instead of "
        "6.00: no fewer loads, so that no wider load explains the gain. Of 40.0 instructions it saves 10.0, 90 % of "
        "them other instructions: the tests, addresses and branches of the loop. A warp waits 60.0 cycles for global "
        "memory for a product instead of 160."
    )


@pytest.mark.parametrize(
    ("wavefronts", "sentence"),
    [
        (600.0, "wider loads, each with 2.00× the wavefronts, as the thesis suspects"),
        (300.0, "fewer loads of the same width, so that no wider load explains the gain"),
    ],
)
def test_fewer_loads_are_wider_only_with_the_same_wavefronts(wavefronts, sentence):
    row = pair("wide", "narrow", shared_loads=100.0, shared_load_wavefronts=wavefronts, instructions=3900.0)
    said = wide_tiles.says(tables_of(row))
    assert sentence in said and "saves 1.00, 100 % of them loads from shared memory." in said


def test_a_wider_tile_that_saves_nothing_says_so():
    assert "It saves no instructions (50.0 instead of 40.0)." in wide_tiles.says(
        tables_of(pair("wide", "narrow", instructions=5000.0))
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"all_dense": False},
        {"loads_alike": False},
        {"tile_k": 16},
        {"tile_k": pd.NA},
        {"shared_loads": float("nan")},
        {"speedup": float("nan")},
    ],
)
def test_only_complete_pairs_on_dense_tiles_tell_what_a_wide_tile_saves(changes):
    nothing = tables_of(pair("wide", "narrow", **changes))
    assert wide_tiles.draw(nothing, {}) is None and wide_tiles.says(nothing) == ""


def test_the_cost_of_the_branch_is_in_parts():
    fewer = {"branch_warps": 0.25, "cycles_per_instruction": 8.0, "speedup": 1.25, "all_dense": False}
    shown, said = drawn_and_said(
        branch_stall, tables_of(pair("both_separate", "both", **fewer), pair("wide", "narrow"))
    )
    assert "both_separate" in shown and "full, N = 64" in shown and "narrow" not in shown
    assert said == (
        "On 1 generated matrix, in the median of 1 case, both spends 5.0 % of its warps' cycles resolving branches "
        "(5.0 %) and 40 % waiting for global memory. both_separate spends 2.5 % and 40 % of the same cycles, "
        "80 % in all, and is 1.25× as fast (1.25×)."
    )
    other = tables_of(pair("wide", "narrow"), pair("both_separate", "wide"))
    assert branch_stall.draw(other, {}) is None and branch_stall.says(other) == ""
