"""Figures and section of the page on blocks of transformers, from synthetic rows."""

import shutil
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pandas as pd
import pytest

from spmm_roofline import analysis, contracts, figures
from spmm_roofline.figures import style
from spmm_roofline.report import build
from tests.analysis import synthetic
from tests.report.test_report import whole

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("block_figures")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """Folder of the analysis of a device with rows of blocks."""
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200", ceilings=synthetic.ceiling_rows())
    contracts.write(
        contracts.frame(synthetic.block_rows(), "measure_blocks"), recorded / "blocks.csv", "measure_blocks"
    )
    return synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])


@pytest.fixture(scope="module")
def tables(analysed):
    return analysis.read(analysed)


def drawn(tables):
    """Figures of the section, by name."""
    own = {"cases": tables["cases"], "blocks": tables["blocks"]}
    found = {}
    for kind in figures.kinds():
        if kind.section == "blocks":
            (of,) = figures._combinations(own, kind.per)
            with matplotlib.rc_context(style.RC):
                figure = figures._drawn(kind, of, own, {})
            if figure is not None:
                found[kind.name] = figure
    return found


def text(svg):
    return " ".join("".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.text)


def test_a_line_is_a_sparsity_and_a_panel_a_dtype(tables):
    figure = drawn(tables)["pruned_block"]
    shown = text(figure.svg)
    for words in ("FP16, batch 1", "TF32, batch 1", "80 %", "95 %", "length of the sequence", "512", "4,096"):
        assert words in shown, f"{words} is not in the figure"
    # Of a sparse layer at 80 %, the projections take 1.2 times those of the dense one; at 95 %, 0.3 times.
    assert figure.says.startswith("Pruning pays in 4 of 8 cases: FP16 from 95 % and TF32 from 95 % sparsity on.")
    # (0.3·0.0125 + 0.2/64) / (0.0125 + 0.2/64)
    assert "At best the sparse layer takes 0.440× the time of the dense one, at 95 % sparsity" in figure.says


def test_a_layer_of_dense_products_does_not_pay_however_it_was_measured(tables):
    rows = tables["blocks"]
    ours = (rows["block"] == "pruned") & (rows["implementation"] == "ours")
    rows = rows.assign(kernel=rows["kernel"].mask(ours, "cublaslt_gemm_f16, cublaslt_gemm_tf32"))
    rows["over_baseline"] = rows["over_baseline"].mask(ours, 0.98).mask(ours & (rows["sequence"] == 512), 1.03)
    figure = drawn({**tables, "blocks": rows})["pruned_block"]
    assert figure.says.startswith(
        "Pruning pays in 0 of 8 cases. In 8 SpMM takes the dense product, and the same work, measured again, takes "
        "0.980× to 1.03× the time. At length 4,096"
    )
    assert {"0.98", "1", "1.02"} <= {*text(figure.svg).split()}, "an axis of a few percent has more than one tick"


def test_a_panel_is_a_mask_with_its_bound(tables):
    figure = drawn(tables)["masked_block"]
    shown = text(figure.svg)
    for words in ("window 512", "random 0.1", "blocks 0.05", "SDPA with mask", "SDPA without mask", "bound", "ours"):
        assert words in shown, f"{words} is not in the figure"
    assert "flex_attention" not in shown
    assert figure.says.startswith("FP16, heads of 64: our masked attention is")
    assert "computes 2.00× the scores" in figure.says


def test_without_rows_there_is_neither_figure_nor_section(tables):
    empty = {**tables, "blocks": tables["blocks"].head(0)}
    assert drawn(empty) == {}
    lost = tables["blocks"].assign(status="timeout", time_ms=float("nan"), over_baseline=float("nan"))
    assert drawn({**tables, "blocks": lost}) == {}


def test_the_page_has_a_section_with_every_row(analysed, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "draw_all", partial(figures.draw_all, only=["pruned_block", "masked_block"]))

    def page(analysis):
        config = contracts.document(ROOT / "config/config.yaml", "config")
        build(analysis, config, synthetic.HEADS, ROOT / "report", tmp_path / "page.html", tmp_path / "figures", {})
        return whole((tmp_path / "page.html").read_text())

    shown = page(analysed)
    for words in ('<section id="blocks">', "PyTorch 2.11.0", "Attention with pruned weights", "out of memory", "4 GiB"):
        assert words in shown, f"{words} is not on the page"
    shutil.copytree(analysed, tmp_path / "without")
    table = pd.DataFrame(columns=contracts.table("analysis_blocks").names, dtype=object)
    contracts.write(table, tmp_path / "without/blocks.csv", "analysis_blocks")
    assert 'id="blocks"' not in page(tmp_path / "without") and "#blocks" not in page(tmp_path / "without")
