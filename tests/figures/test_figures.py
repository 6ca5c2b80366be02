"""Every figure draws from realistic tables, says what they say, and keeps its bytes."""

import re
from xml.etree import ElementTree

import pytest

from spmm_roofline import analysis, contracts, figures
from spmm_roofline.figures import numbers, style
from tests.analysis import synthetic


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return {name: contracts.read(folder / f"{name}.csv", contract) for name, contract in analysis.TABLES.items()}


@pytest.fixture(scope="module")
def drawn(tables):
    return {figure.name: figure for figure in figures.draw_all(tables)}


def text(svg):
    return " ".join("".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.text)


def test_the_folder_is_the_registry():
    kinds = {kind.name: kind for kind in figures.kinds()}
    synergy = {"synergy", "synergy_classes", "synergy_heatmap", "preprocessing", "sparsity", "traffic", "bounds"}
    synergy |= {"roofline_counted", "scale", "spmv", "stencils", "squares"}
    assert set(kinds) == {"throughput", "speedup", "heatmap", "roofline", "statuses", "matrices", "rounding"} | synergy
    for kind in kinds.values():
        assert kind.title and len(kind.caption) > 80, f"the docstring of figures/{kind.name}.py needs title and caption"


def test_each_figure_is_drawn_where_it_has_something_to_show(drawn):
    # The world of synthetic.py has no pruned weights, no vectors and no squares in 2:4.
    elsewhere = {"sparsity", "scale", "spmv", "stencils", "squares"}
    assert {name.split("-")[0] for name in drawn} == {kind.name for kind in figures.kinds()} - elsewhere
    assert "statuses-h200-real-sample" in drawn
    assert "statuses-h200-quick" not in drawn, "every row of the suite quick is ok"
    assert "speedup-h200-quick-cold-bfloat16" not in drawn, "cuSPARSE alone is no comparison"


def test_empty_tables_give_no_figure(tmp_path):
    folder = synthetic.analyse(tmp_path)
    tables = {name: contracts.read(folder / f"{name}.csv", contract) for name, contract in analysis.TABLES.items()}
    assert list(figures.draw_all(tables)) == []


def test_bytes_are_stable(tables, drawn):
    again = {figure.name: figure.svg for figure in figures.draw_all(tables)}
    assert again == {name: figure.svg for name, figure in drawn.items()}
    for name, svg in again.items():
        assert "dc:date" not in svg, f"{name} carries a date"


def test_text_stays_text_and_names_what_is_shown(drawn):
    throughput = text(drawn["throughput-h200-real-sample-cold-float16"].svg)
    for word in ("bcsstk32", "dblp-2010", "N = 512", "mma_bt", "cusparse_best_f16", "useful GFLOP/s"):
        assert word in throughput, f"{word} is not in the figure"
    roofline = text(drawn["roofline-h200-real-sample-cold"].svg)
    for word in ("DRAM 4.13 TB/s", "FP16 tensor: 989 TFLOP/s", "FP32 CUDA cores: 66.9 TFLOP/s", "FLOP/B"):
        assert word in roofline, f"{word} is not in the figure"


@pytest.fixture(scope="module")
def under_ceilings(tmp_path_factory):
    """The figures of a device whose ceilings were measured."""
    folder = tmp_path_factory.mktemp("recorded") / "h200"
    recorded = synthetic.write_recorded(folder, ceilings=synthetic.ceiling_rows())
    out = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    tables = {name: contracts.read(out / f"{name}.csv", contract) for name, contract in analysis.TABLES.items()}
    return {figure.name: figure for figure in figures.draw_all(tables) if figure.kind.name.startswith("roofline")}


def test_measured_ceilings_are_drawn_and_datasheets_where_there_are_none(under_ceilings, drawn):
    roofline = text(under_ceilings["roofline-h200-real-sample-cold"].svg)
    told = ("DRAM 4.40 TB/s", "L2 8.00 TB/s", "FP16 tensor, mma: 635 TFLOP/s", "FP16 tensor, wgmma: 800 TFLOP/s")
    for word in (
        *told,
        "FP16 tensor 2:4, mma: 950 TFLOP/s",
        "FP32 CUDA cores: 60.0 TFLOP/s",
        "TF32 tensor: 495 TFLOP/s",
    ):
        assert word in roofline, f"{word} is not in the figure"
    assert "L2 8" not in text(drawn["roofline-h200-real-sample-cold"].svg)


def test_counted_bytes_have_a_roofline_of_their_own(under_ceilings, drawn):
    name = "roofline_counted-h200-real-sample-cold-float16"
    assert "DRAM 4.40 TB/s" in text(under_ceilings[name].svg) and "mma_bt" in text(under_ceilings[name].svg)
    # 0.3 GB through L2 at 8000 GB/s take 0.0375 ms.
    own = synthetic.measure_row("mma_bt", "cfd1", 128)
    share = 0.0375 / own["time_ms"]
    assert f"that of L2 for 100 %; in the median a case reaches {numbers.percent(share)}" in under_ceilings[name].says
    assert "The rate of L2 was not measured" in drawn[name].says and "that of DRAM for 100 %" in drawn[name].says


def test_labels_of_close_levels_stand_above_the_last():
    from spmm_roofline.figures import limits

    assert limits._places([1.0, 10.0, 11.0, 12.0, 100.0], 2.0) == [1.0, 12.0, 24.0, 48.0, 100.0]
    assert limits._places([], 2.0) == []


def test_pruned_weights_are_shown_over_sparsity(tables):
    import matplotlib
    import pandas as pd

    from spmm_roofline.figures import sparsity

    rows = tables["cases"][(tables["cases"]["precision"] == "float32") & (tables["cases"]["matrix"] == "cfd1")]
    parts = []
    for share, factor in (("0.5", 1.0), ("0.98", 4.0)):
        name = f"transformer-random_pruning-{share}-layer"
        parts.append(rows.assign(matrix=name, kind="pruned", speedup=factor * rows["speedup"]))
    cases = pd.concat(parts, ignore_index=True)
    world = {"cases": cases, "published": tables["published"].head(0)}
    with matplotlib.rc_context(style.RC):
        svg = style.svg(sparsity.draw(world, style.kernel_styles(cases)))
    assert "sparsity 50 %" in text(svg) and "N = 512" in text(svg) and "row_split" in text(svg)
    own = rows[(rows["kernel"] == "row_split") & (rows["n"] == 512)]["speedup"].item()
    assert f"at 98 % it is row_split with {numbers.times(4 * own)}" in sparsity.says(world)
    assert sparsity.draw({**world, "cases": rows}, {}) is None, "a mesh has no sparsity to go over"


def vectors(rows):
    """Tables of a device with 60 MB of L2 on which kernels of the memory-bound study ran."""
    import pandas as pd

    cases = pd.DataFrame(rows).assign(study="memory_bound", status="ok", precision="float64", n=1, speedup=float("nan"))
    cases["useful_gflops"] = 1.0
    tensor = cases[cases["kernel"].str.contains("_tc")]
    cuda = cases[~cases["kernel"].str.contains("_tc")].groupby("matrix")["time_ms"].min()
    gain = tensor["matrix"].map(cuda) / tensor["time_ms"]
    bounds = tensor.assign(gain=gain, gain_limit=1.01)[["study", "kernel", "matrix", "n", "gain", "gain_limit"]]
    return {"cases": cases, "bounds": bounds, "devices": pd.DataFrame({"l2_bytes": [60_000_000]})}


def drawn_and_said(module, world):
    import matplotlib

    with matplotlib.rc_context(style.RC):
        svg = style.svg(module.draw(world, style.kernel_styles(world["cases"])))
    return text(svg), module.says(world)


def test_scale_is_shown_over_its_size():
    from spmm_roofline.figures import scale

    # 1 MB and 10 MB inside half of L2, where CUDA cores are twice as fast, and 1 GB beyond it, where none is.
    sizes = [(1_000_000, 1.0, 2.0), (10_000_000, 2.0, 4.0), (1_000_000_000, 0.25, 0.25)]
    rows = [
        {"kernel": kernel, "matrix": f"v{size}", "kind": "diagonal", "compulsory_bytes": size, "time_ms": time}
        for size, *both in sizes
        for kernel, time in zip(("scale_cc", "scale_tc"), both, strict=True)
    ]
    shown, said = drawn_and_said(scale, vectors(rows))
    assert "mean 2.00×" in shown and "speed-up of CUDA cores" in shown
    assert said.startswith("CUDA cores are 2.00× as fast up to half of L2 and 1.00× beyond it (60.0 MB)")
    assert "moves 4.00 TB/s" in said and "Tensor cores gain at most nothing" in said
    assert scale.draw(vectors(rows[:2]), {}) is None, "one size is no curve"


def test_matrices_times_vectors_are_shown_inside_l2_and_beyond():
    from spmm_roofline.figures import spmv

    rows = [
        {"kernel": kernel, "matrix": matrix, "kind": "mesh", "nnz": nnz, "compulsory_bytes": size, "time_ms": time}
        for matrix, nnz, size, *both in [("small", 10, 10**6, 2.0, 1.0), ("large", 99, 10**9, 3.0, 4.0)]
        for kernel, time in zip(("spmv_csr_cc", "spmv_dasp_tc"), both, strict=True)
    ]
    world = vectors(rows)
    # Speed-up over the best of cuSPARSE: 2 inside, 0.5 beyond.
    world["cases"]["speedup"] = world["cases"]["matrix"].map({"small": 2.0, "large": 0.5})
    shown, said = drawn_and_said(spmv, world)
    assert "[large]" in shown and "inside L2" in shown and "beyond L2" in shown
    assert "0.500× as fast as spmv_dasp_tc on the 1 matrix inside L2 and 2.00× as fast" in said
    assert "tensor cores gain 2.00× at most (small); 1 matrix passes 1.33, and 1 of 2 gain at all" in said


def test_stencils_are_shown_by_their_shape():
    from spmm_roofline.figures import stencils

    rows = [
        {"kernel": kernel, "matrix": matrix, "kind": "grid", "nnz": m, "m": m, "time_ms": time}
        for matrix, m, kernel, time in [
            ("2d5pt-10", 10**6, "stencil_cc", 0.1),
            ("2d5pt-10", 10**6, "stencil_tc", 0.2),
            ("2d5pt-20", 4 * 10**6, "stencil_cc", 0.1),
            ("2d5pt-20", 4 * 10**6, "stencil_tc", 0.08),
            ("2d5pt-20", 4 * 10**6, "stencil_cc_3d7pt", 0.01),
            ("3d7pt-20", 8 * 10**6, "stencil_cc_3d7pt", 0.4),
        ]
    ]
    shown, said = drawn_and_said(stencils, vectors(rows))
    assert "2d5pt" in shown and "3d7pt" in shown and "GStencil/s" in shown and "smaller grid" in shown
    assert "on 1 of 2 grids, by 1.25× at most (2d5pt-20) and 0.500× at least (2d5pt-10)" in said
    assert "Highest rate: 50.0 GStencil/s by stencil_tc on 2d5pt-20" in said, "a star of seven points is no 2d5pt"


def test_squares_are_shown_over_the_library():
    import pandas as pd

    from spmm_roofline.figures import squares

    times = {"tiles": (2.0, 4.0), "tiles_tall": (4.0, 2.0), "other": (8.0, 1.0), "lt_search": (1.0, 2.0)}
    rows = [
        {"kernel": kernel, "study": "cusparselt" if kernel == "lt_search" else "gemm24", "precision": "bfloat16"}
        | {"status": "ok", "m": size, "n": size, "k": size, "time_ms": time}
        for kernel, both in times.items()
        for size, time in zip((1000, 2000), both, strict=True)
    ]
    published = pd.DataFrame({"quantity": ["over_cusparselt"], "n": [2000], "published": [0.98]})
    world = {"cases": pd.DataFrame(rows), "families": pd.DataFrame({"family": ["tiles"]}), "published": published}
    shown, said = drawn_and_said(squares, world)
    assert "tiles" in shown and "tiles_tall" not in shown and "over the library for 2:4" in shown
    assert said == (
        "At 2,000 other is the fastest with 16.0 TFLOP/s, 2.00× the rate of lt_search for the fastest other; on 1 of 2 "
        "squares the library is not the fastest."
    )


def test_sentences_follow_from_the_rows(tables, drawn):
    cases = tables["cases"]
    rows = cases[(cases["suite"] == "real-sample") & (cases["precision"] == "float16") & (cases["study"] != "cusparse")]
    wins = int((rows["speedup"] > 1).sum())
    says = drawn["heatmap-h200-real-sample-cold-float16"].says
    assert says.startswith(f"{wins} of {int(rows['speedup'].notna().sum())} cells are faster than cuSPARSE")
    assert numbers.times(rows["speedup"].max()) in says
    assert drawn["statuses-h200-real-sample"].says == "4 rows have no time: 3 unsupported and 1 wrong."
    assert "FP16" not in drawn["throughput-h200-quick-cold-float32"].says


def test_sentences_change_with_the_rows(tmp_path):
    rows = [row for row in synthetic.measure_rows() if row["matrix"] == "cfd1" and row["n"] == 32]
    recorded = synthetic.write_recorded(tmp_path / "a100", [row | {"device": "a100"} for row in rows])
    folder = synthetic.analyse(tmp_path / "out", recorded=[recorded])
    tables = {name: contracts.read(folder / f"{name}.csv", contract) for name, contract in analysis.TABLES.items()}
    says = {figure.name: figure.says for figure in figures.draw_all(tables)}
    # The record of the folder describes an h200: no limit is known for rows of an a100, and the sentence says so.
    assert "No limit is known" in says["roofline-a100-real-sample-cold"]
    assert "over 1 matrix" in says["speedup-a100-real-sample-cold-float32"]
    assert "interval" not in says["speedup-a100-real-sample-cold-float32"]


def test_many_matrices_are_shown_as_distributions(tables):
    import matplotlib
    import pandas as pd

    from spmm_roofline.figures import throughput

    rows = tables["cases"][tables["cases"]["precision"] == "float32"]
    many = pd.concat([rows.assign(matrix=rows["matrix"] + f"-{copy}") for copy in range(10)], ignore_index=True)
    styles = style.kernel_styles(many)
    with matplotlib.rc_context(style.RC):
        svg = style.svg(throughput.draw({"cases": many}, styles))
    assert "row_split" in text(svg)
    assert "cfd1-3" not in text(svg)


def test_a_kernel_looks_the_same_everywhere_and_cusparse_is_grey(tables):
    styles = style.kernel_styles(tables["cases"])
    assert set(styles) == set(tables["cases"]["kernel"])
    for kernel, look in styles.items():
        if kernel.startswith("cusparse"):
            red, green, blue = look["color"][:3] if not isinstance(look["color"], str) else (0, 0, 0)
            assert max(red, green, blue) - min(red, green, blue) < 0.08, f"{kernel} is not grey"
    assert len({str(look) for look in styles.values()}) == len(styles), "two kernels look alike"


def test_an_inline_figure_takes_the_colours_of_its_page_and_has_ids_of_its_own(drawn):
    first = drawn["speedup-h200-quick-cold-float16"]
    svg = first.inline
    assert svg.startswith('<svg role="img" aria-label="Speed-up over the best of cuSPARSE.')
    assert style.INK not in svg and style.PAPER not in svg
    assert "currentColor" in svg and "var(--card)" in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids and len({name.split("-")[0] for name in ids}) == 1
    for target in re.findall(r'(?:href="#|url\(#)([^")]+)', svg):
        assert target in ids, f"nothing has the id {target}"
    other = drawn["speedup-h200-quick-cold-float32"].inline
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', other))


@pytest.mark.parametrize(
    "shown, expected",
    [
        (numbers.significant(1234.56), "1,235"),
        (numbers.significant(0.0123456), "0.0123"),
        (numbers.significant(float("nan")), "–"),
        (numbers.significant(0), "0"),
        (numbers.times(1.3456), "1.35×"),
        (numbers.times(None), "–"),
        (numbers.percent(0.4567), "46 %"),
        (numbers.percent(0.0123), "1.2 %"),
        (numbers.percent(0.0999), "10 %"),
        (numbers.percent(1.203), "120 %"),
        (numbers.rate(8640.0), "8.64 TFLOP/s"),
        (numbers.rate(64.0), "64.0 GFLOP/s"),
        (numbers.bandwidth(4130.0), "4.13 TB/s"),
        (numbers.duration(0.0184), "18.4 µs"),
        (numbers.duration(1.84), "1.84 ms"),
        (numbers.size(13_278_058), "13.3 MB"),
        (numbers.size(48), "48.0 B"),
        (numbers.counted(1, "matrix", "matrices"), "1 matrix"),
        (numbers.counted(1200, "row"), "1,200 rows"),
        (numbers.listed(["a", "b", "c"]), "a, b and c"),
        (numbers.listed([]), "none"),
    ],
)
def test_numbers_as_people_read_them(shown, expected):
    assert shown == expected
