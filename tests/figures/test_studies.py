"""Figures in the form of the papers' own, and the sections in which they stand."""

import io
from types import SimpleNamespace

import matplotlib
import pandas as pd

from spmm_roofline import contracts, figures
from spmm_roofline.figures import (
    balance,
    graphs,
    ladder_real,
    ladder_size,
    ladder_synthetic,
    ladder_width,
    ladders,
    numbers,
    papers,
    pruned,
    pruned_dense,
    pruned_kernels,
    pruned_methods,
    rivals,
    scalar_cores,
    scale,
    spmv,
    squares,
    stencils,
    style,
    synergy,
    synergy_classes,
    synergy_heatmap,
    tiles,
)
from spmm_roofline.figures.plotted import plotted
from spmm_roofline.report.studies import studies
from spmm_roofline.report.tables import study as study_tables
from tests.figures.test_figures import text


def known(cases, source="generated"):
    """The matrices of ``cases``, all from one source."""
    return pd.DataFrame({"matrix": sorted(cases["matrix"].unique()), "source": source})


def vectors(rows):
    """Tables of a device with 60 MB of L2 on which kernels of the memory-bound study ran."""
    cases = pd.DataFrame(rows).assign(
        study="memory_bound", status="ok", noisy=False, precision="float64", n=1, speedup=float("nan")
    )
    cases["dtype_accumulator"] = "float64"
    cases["useful_gflops"] = 1.0
    tensor = cases[cases["kernel"].str.contains("_tc")]
    cuda = cases[~cases["kernel"].str.contains("_tc")].groupby("matrix")["time_ms"].min()
    gain = tensor["matrix"].map(cuda) / tensor["time_ms"]
    bounds = tensor.assign(gain=gain, gain_limit=1.01)[["study", "kernel", "matrix", "n", "gain", "gain_limit"]]
    devices = pd.DataFrame({"l2_bytes": [60_000_000]})
    workloads = pd.DataFrame({"unit_limit": [1.5]})
    tables = {"cases": cases, "bounds": bounds, "devices": devices, "workloads": workloads}
    return tables | {"matrices": known(cases)}


def bare_labels(figure):
    """Texts among marks that have nothing behind them, which a line or a mark could cross."""
    return [text.get_text() for text in figure.axes[-1].texts if text.get_bbox_patch() is None]


def drawn_and_said(module, world):
    with matplotlib.rc_context(style.RC):
        svg = style.svg(module.draw(world, style.kernel_styles(world["cases"])))
    return text(svg), module.says(world)


def test_scale_is_shown_over_its_size():
    # 1 MB and 10 MB within L2, where CUDA cores are twice as fast, and 1 GB beyond it, where none is.
    sizes = [(1_000_000, 1.0, 2.0), (10_000_000, 2.0, 4.0), (1_000_000_000, 0.25, 0.25)]
    rows = [
        {"kernel": kernel, "matrix": f"v{size}", "kind": "diagonal", "compulsory_bytes": size, "time_ms": time}
        for size, *both in sizes
        for kernel, time in zip(("scale_cc", "scale_tc"), both, strict=True)
    ]
    shown, said = drawn_and_said(scale, vectors(rows))
    assert "mean 2.00×" in shown and "speed-up of CUDA cores" in shown
    assert said == (
        "On 3 generated matrices CUDA cores reach 2.00× the rate of tensor cores where L2 holds x and y and 1.00× "
        "beyond it (L2 holds 60.0 MB), in the geometric mean; at the largest size scale_cc moves 4.00 TB/s. Tensor "
        "cores gain nothing on any size, where arithmetic allows at most 1.0 %."
    )
    world = vectors(rows)
    assert bare_labels(scale.draw(world, style.kernel_styles(world["cases"]))) == []
    assert scale.draw(vectors(rows[:2]), {}) is None, "one size is no curve"


def test_the_mean_of_scale_hides_no_mark():
    # The last size but one inside L2 is a little above the mean, on which the label would lie; beyond L2 it is below.
    gains = [(1, 1.06), (2, 1.05), (4, 1.17), (8, 1.26), (17, 1.13), (34, 1.02), (67, 1.0), (270, 0.99), (540, 0.985)]
    rows = [
        {"kernel": kernel, "matrix": f"v{size}", "kind": "diagonal", "compulsory_bytes": size * 10**6, "time_ms": time}
        for size, gain in gains
        for kernel, time in (("scale_cc", 1.0), ("scale_tc", gain))
    ]
    world = vectors(rows)
    with matplotlib.rc_context(style.RC):
        figure = scale.draw(world, style.kernel_styles(world["cases"]))
        figure.draw_without_rendering()
    ax = figure.axes[-1]
    (marks,) = (line for line in ax.lines if line.get_linestyle() == "None")
    places = ax.transData.transform(marks.get_xydata())
    assert len(places) == len(gains) and len(ax.texts) == 2
    for label in ax.texts:
        hidden = [at for at in places if label.get_bbox_patch().get_window_extent().contains(*at)]
        assert not hidden, f"{label.get_text()} lies on a mark"


def test_matrices_times_vectors_are_shown_inside_l2_and_beyond():
    names = ("cusparse_best_f64", "spmv_csr_cc", "spmv_dasp_tc")
    rows = [
        {"kernel": kernel, "matrix": matrix, "kind": "mesh", "nnz": nnz, "compulsory_bytes": size, "time_ms": time}
        for matrix, nnz, size, *times in [("small", 10, 10**6, 1.6, 1.4, 1.0), ("large", 99, 10**9, 2.0, 3.0, 4.0)]
        for kernel, time in zip(names, times, strict=True)
    ]
    world = vectors(rows)
    world["cases"]["speedup"] = world["cases"]["matrix"].map({"small": 1.6, "large": 0.5})
    shown, said = drawn_and_said(spmv, world)
    assert "[large]" in shown and "inside L2" in shown and "beyond L2" in shown
    figure = spmv.draw(world, style.kernel_styles(world["cases"]))
    assert bare_labels(figure) == []
    levels = {type(group).__name__: group.get_zorder() for group in figure.axes[-1].collections}
    assert levels["PathCollection"] > levels["LineCollection"], "the line of a mean hides a mark on it"
    # Over cuSPARSE alone the gain of 1.6 would pass the limit.
    marks = [float(y) for group in figure.axes[-1].collections for _, y in group.get_offsets() if y]
    assert [round(mark, 3) for mark in marks] == [0.714, 2.0]
    assert said == (
        "Geometric mean of the rate of the fastest on CUDA cores, cuSPARSE among them, over that of spmv_dasp_tc, on "
        "tensor cores: 0.714× on 1 generated matrix inside L2 and 2.00× on 1 generated matrix beyond L2. Tensor cores "
        "are faster on 1 of 2 matrices, at most 1.40× (small); 0 matrices pass the limit of 1.50×."
    )


def test_stencils_are_shown_by_their_shape():
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
    assert said.startswith(
        "Tensor cores are faster than the fastest on CUDA cores on 1 of 2 generated matrices, and reach 0.500× "
        "(2d5pt-10) to 1.25× (2d5pt-20) its rate."
    )
    assert "Highest rate: 50.0 GStencil/s by stencil_tc on 2d5pt-20" in said, "a star of seven points is no 2d5pt"


def squared(times, precision="bfloat16", **families):
    """Cases on squares of 1000 and 2000: kernel → its two times; names with ``lt`` are the library's. ``families``:
    kernel → its family where that is not its own name."""
    return pd.DataFrame(
        [
            {"kernel": kernel, "study": "cusparselt" if "lt" in kernel else "gemm24", "precision": precision}
            | {
                "status": "ok",
                "noisy": False,
                "m": size,
                "n": size,
                "k": size,
                "time_ms": time,
                "dtype_accumulator": "float32",
            }
            | {"family": families.get(kernel, kernel)}
            for kernel, both in times.items()
            for size, time in zip((1000, 2000), both, strict=True)
        ]
    )


def test_squares_are_shown_over_the_library():
    # A kernel whose name extends that of a family is in it only if its head says so; one decision tried is in none.
    times = {"tiles": (2.0, 4.0), "tall": (4.0, 2.0), "tiles_other": (8.0, 1.0), "tiles_ca": (0.1, 0.1)}
    cases = squared(times | {"lt_search": (1.0, 2.0)}, tall="tiles", tiles_ca=None)
    published = pd.DataFrame(
        {"kernel": ["tiles", "narrow"], "quantity": "over_cusparselt", "n": [2000, 1000], "published": [0.98, 0.5]}
    )
    world = {"cases": cases, "published": published}
    shown, said = drawn_and_said(squares, world)
    assert "tiles_other" in shown and "tall" not in shown and "tiles_ca" not in shown and "BF16" in shown
    assert "over the library for 2:4" in shown
    assert said == (
        "At 2,000 in BF16 tiles_other is the fastest, at 16.0 TFLOP/s counting 2·M·N·K, which is 2.00× the rate of "
        "lt_search. Another kernel is faster than lt_search on 1 of 2 squares that both ran. The dashes beside bars "
        "are the post's own ratios, on its GPU."
    )
    rates, library = squares._shown(world)
    assert library == "lt_search" and rates["tiles"].round(9).to_dict() == {1000: 1.0, 2000: 8.0}, "the fastest member"
    assert list(squares._told(world)["n"]) == [2000], "the post's ratio of a kernel that did not run is not shown"
    only = squared({"tiles_ca": (1.0, 1.0), "lt_search": (1.0, 1.0)}, tiles_ca=None)
    assert squares.draw(world | {"cases": only}, {}) is None, "no kernel of the study stands for itself"


def test_kernels_of_one_role_have_one_colour_in_the_squares_of_every_precision():
    times = {name: (1.0, 2.0) for name in ("cublas_gemm", "cusparselt_search", "gemm24", "gemm24_wgmma")}
    found = {}
    for precision, suffix in (("bfloat16", "_bf16"), ("float16", "_f16"), ("float8_e4m3", "_f8")):
        cases = squared({name + suffix: both for name, both in times.items()}, precision)
        cases.loc[cases["kernel"].str.startswith("cublas"), "study"] = "cublas"
        nothing = pd.DataFrame({"kernel": [], "quantity": [], "n": [], "published": []})
        figure = squares.draw({"cases": cases, "published": nothing}, style.kernel_styles(cases))
        groups = figure.axes[0].containers
        found[precision] = {bars.get_label().removesuffix(suffix): bars[0].get_facecolor() for bars in groups}
    assert found["float16"] == found["bfloat16"] == found["float8_e4m3"]
    assert len({*found["float16"].values()}) == 4


def test_each_precision_of_squares_is_a_figure_of_its_own():
    half, eighth = squared({"tiles": (1.0, 1.0)}), squared({"tiles_f8": (0.5, 0.5)}, "float8_e4m3")
    cases = pd.concat([half, eighth]).assign(device="h200", suite="squares", l2="cold")
    assert [of["precision"] for of in figures._combinations({"cases": cases}, squares.PER)] == [
        *("bfloat16", "float8_e4m3")
    ]  # fmt: skip
    world = {"published": pd.DataFrame({"kernel": [], "quantity": [], "n": [], "published": []})}
    assert "in FP8 tiles_f8 is the fastest, at 32.0 TFLOP/s" in squares.says(world | {"cases": eighth})


def test_the_knee_says_which_products_memory_binds():
    def world(intensity):
        row = {"kernel": "spmv_csr_cc", "matrix": "mesh", "kind": "mesh", "compulsory_bytes": 1, "time_ms": 1.0}
        tables = vectors([row | {"intensity_flop_per_byte": intensity}])
        rates = {"float64_cuda": 30_000.0, "float64_tensor": 60_000.0}
        rows = [{"ceiling": name, "through": "", "level": "", "measured": rate} for name, rate in rates.items()]
        rows.append({"ceiling": "dram", "through": "", "level": "dram", "measured": 4000.0})
        return tables | {"ceilings": pd.DataFrame(rows).assign(datasheet=float("nan"))}

    shown, said = drawn_and_said(balance, world(0.125))
    assert "SpMV" in shown and "FP64 CUDA cores: 30.0 TFLOP/s" in shown
    assert "meet at 7.50 FLOP/B. Memory binds 1 of 1 kind of product on 1 generated matrix" in said
    assert (
        f"tensor cores is {numbers.times(2.0)} that of CUDA cores and can help only products above 7.50 FLOP/B" in said
    )
    assert "binds 0 of 1 kind" in drawn_and_said(balance, world(50.0))[1]
    known = world(0.125)
    assert balance.draw(known | {"ceilings": known["ceilings"].tail(1)}, {}) is None, "no ceiling, no knee"


def test_a_section_holds_the_figures_of_its_suites_in_order_and_points_to_the_others():
    names = ("published", "paper_counters", "workloads", "claims")
    nothing = {name: contracts.frame([], f"analysis_{name}") for name in names}

    def figure(study, section, name, **of):
        return SimpleNamespace(kind=SimpleNamespace(study=study, section=section), of=of, name=name)

    first, second = list(papers.PAPERS)[:2]
    here = {"device": "h200", "suite": "graphs", "l2": "cold"}
    drawn = [
        figure(second, "study", "a", **here),
        figure(first, "suite", "no figure of its own"),
        figure(second, "suite", "b", **here),
        figure(second, "suite", "of another suite", **here | {"suite": "meshes"}),
        figure(second, "study", "c", device="h200"),
        figure("", "suite", "of no study", **here),
        figure(second, "study", "d", **here),
    ]
    (section,) = studies(drawn, nothing)
    assert section["id"] == f"study-{second}" and section["title"] == papers.PAPERS[second].title
    assert [group["id"] for group in section["groups"]] == ["h200-graphs", ""]
    assert [[item.name for item in group["figures"]] for group in section["groups"]] == [["a", "d"], ["c"]]
    assert [item.name for item in section["others"]] == ["b"]


def test_an_experiment_of_a_paper_has_no_kernels_of_another():
    first, second = list(papers.PAPERS)[:2]
    assert papers.alone(pd.DataFrame({"study": [first, "cusparse", "scalar"]}), first)
    assert not papers.alone(pd.DataFrame({"study": [first, second]}), first)
    assert not papers.alone(pd.DataFrame({"study": ["cusparse"]}), first)


def weights(kernels, methods=("l0_regularization", "random_pruning")):
    """Tables of pruned weights at three sparsities and two widths; ``kernels``: name → study, format, precision and
    the time of one call at each sparsity, the same at every width."""
    rows = []
    for kernel, (study, form, precision, times) in kernels.items():
        about = {
            "kernel": kernel,
            "study": study,
            "format": form,
            "precision": precision,
            "status": "ok",
            "noisy": False,
        }
        about |= {"kind": "pruned", "m": 100, "k": 100, "dtype_accumulator": "float32"}
        for method in methods:
            for sparsity, time in zip((0.5, 0.8, 0.9), times, strict=True):
                matrix = f"transformer-{method}-{sparsity}-layer"
                case = {"matrix": matrix, "nnz": round(10_000 * (1 - sparsity)), "time_ms": time, "speedup": 1 / time}
                # The study called cuSPARSE so that it takes twice the time of the best of its algorithms.
                case["over_own_call"] = 2 / time if study == "attention" else float("nan")
                rows += [about | case | {"n": n} for n in (128, 4096)]
    paper = {"study": "attention", "source": "table 5.5", "n": 4096, "quantity": "over_own_call", "published": 1.5}
    paper |= {"kernel": "rows", "matrix": "transformer-l0_regularization-0.9"}
    ladder = pd.DataFrame({"kernel": ["columns"], "after": ["rows"]})
    cases = pd.DataFrame(rows)
    return {"cases": cases, "published": pd.DataFrame([paper]), "ladder": ladder, "matrices": known(cases, "dlmc")}


OWN = {
    "columns": ("attention", "csr", "float32", (2.0, 2.0, 2.0)),
    "rows": ("attention", "csr", "float32", (4.0, 2.5, 0.5)),
    "rows_split": ("attention", "csr", "float32", (5.0, 5.0, 5.0)),
}


def test_kernels_of_pruned_weights_are_shown_one_by_one_beside_their_paper():
    shown, said = drawn_and_said(pruned_kernels, weights(OWN))
    assert "over its cuSPARSE call N = 4096" in " ".join(shown.split()) and "50 % sparsity" in shown
    titles = [shown.index(name) for name in ("rows", "columns")]
    assert titles == sorted(titles) and "rows_split" not in shown, "a rung after the other, twins with their kernel"
    assert said == (
        "On 3 pruned matrices, pruned by L0 regularisation, the fastest of these kernels at N = 4096 are columns at "
        "50 % sparsity (1.00×) and rows at 90 % sparsity (4.00×, 1.50× in the thesis), over cuSPARSE as the thesis "
        "called it. Of 1 ratio that the thesis prints too, 0 are above ours. Dashed are the thesis's numbers for an "
        "RTX 4070 Ti Super, with a gap where its text gives none."
    )
    longer = weights(OWN)
    longer["published"]["n"] = 128
    assert "at N = 128 are" in drawn_and_said(pruned_kernels, longer)[1], "the thesis has no longer sequence"
    other = weights(OWN, methods=("random_pruning",))
    assert "random pruning" in drawn_and_said(pruned_kernels, other)[1], "the thesis' method is not there"
    no_weights = other | {"cases": other["cases"].assign(kind="mesh")}
    for module in (pruned_kernels, pruned_methods, pruned_dense):
        assert module.draw(no_weights, {}) is None, "a mesh has no sparsity to go over"


def test_methods_of_pruning_stand_side_by_side_with_dense_products():
    dense = {"gemm": ("cublas", "dense", "tf32", (0.25, 0.5, 1.0)), "half": ("cublas", "dense", "float16", (1, 1, 1))}
    shown, said = drawn_and_said(pruned_methods, weights(OWN | dense))
    assert "random pruning" in shown and "N = 128" in shown and "gemm" in shown and "half" not in shown
    assert said.startswith(
        "On 6 pruned matrices, in 4 of 12 combinations of method, sparsity and N a kernel of the study is faster than "
        "the fastest of cuSPARSE's CSR and COO algorithms"
    )
    assert "at most 2.00× (rows, random pruning, 90 %, N = 4096)" in said
    assert said.endswith(
        "Of the study's kernels columns is the fastest in 8; 2 kernels are the fastest in some. Dashed is cuBLAS's "
        "dense product, which also multiplies the zeros."
    )


def test_the_dense_product_wins_up_to_a_sparsity():
    dense = {
        "single": ("cublas", "dense", "float32", (3.0, 3.0, 3.0)),
        "tensor": ("cublas", "dense", "tf32", (1.0, 1.0, 1.0)),
        "half": ("cublas", "dense", "float16", (1.0, 1.0, 1.0)),
        "sparse_half": ("cusparse", "csr", "float16", (8.0, 4.0, 2.0)),
    }
    shown, said = drawn_and_said(pruned_dense, weights(OWN | dense))
    assert "dense TF32" in shown and "dense FP16" in shown and "fastest sparse / dense (time)" in shown
    # The fastest sparse kernel in FP32 takes 2.0, 2.0 and 0.5.
    assert said == (
        "6 pruned matrices. Against sparse kernels in FP32 and TF32 the dense product in TF32 beats them all up to a "
        "sparsity of about 80.0 % at N = 128 and 80.0 % at N = 4096. Against sparse kernels in FP32 the dense product "
        "in FP32 does not win on the fullest layer at N = 128 and 4096. Against sparse kernels in FP16 the dense "
        "product in FP16 beats them all up to a sparsity of about 90.0 % at N = 128 and 90.0 % at N = 4096 (which is "
        "every layer at N = 128 and 4096). The fastest sparse kernel takes at most 8.00× the time of a dense product "
        "(FP16, N = 128, 50.0 % sparsity)."
    )


def test_the_numbers_behind_an_axis_have_the_unit_of_its_label():
    world = weights(OWN | {"single": ("cublas", "dense", "float32", (3.0, 3.0, 3.0))})
    rows = pd.read_csv(io.StringIO(plotted(pruned_dense.draw(world, style.kernel_styles(world["cases"])))))
    assert set(rows["x_axis"]) == {"sparsity (%)"} and set(rows["x"].round()) == {50, 80, 90}


def test_kernels_are_ordered_by_what_they_build_on():
    ladder = pd.DataFrame({"kernel": ["c", "b", "x"], "after": ["b", "a", "x"]})
    assert ladders.ordered(ladder, ["c", "x", "b", "a", "a"]) == ["a", "x", "b", "c"], "a circle ends"


def test_means_are_geometric():
    rows = pd.DataFrame({"kernel": ["a", "a", "b"], "speedup": [1.0, 4.0, 3.0]})
    assert list(pruned.means(rows, "speedup", ["kernel"])["speedup"].round(12)) == [2.0, 3.0]


def test_numbers_of_papers_stand_beside_ours_in_the_form_of_their_tables():
    common = {"device": "h200", "study": "attention", "source": "table 5.5", "kernel": "xw_row"}
    rows = [
        common | {"suite": "w", "matrix": f"t-random_pruning-{sparsity}", "n": 128, "quantity": "over_cusparse"}
        | {"published": 2.0, "ours": ours}
        for sparsity, ours in ((0.5, 0.25), (0.95, 3.0))
    ]  # fmt: skip
    rows.append(rows[0] | {"suite": "g", "matrix": "cora", "quantity": "over_best_sc"})
    rows.append(
        rows[0] | {"suite": "all", "matrix": "low", "quantity": "share_of_matrices", "ours": 0.6, "published": 0.5}
    )
    graphs, pruned_weights, shares = study_tables.published(pd.DataFrame(rows))
    assert pruned_weights.columns == ("source", "N", "method", "kernel", "50 %", "95 %")
    assert [cell.text for cell in pruned_weights.rows[0]][1:] == [
        *("128", "random pruning", "xw_row", "0.250× / 2.00×", "3.00× / 2.00×")
    ]  # fmt: skip
    assert "the best on scalar cores" in graphs.caption and graphs.columns == ("source", "matrix", "kernel", "128")
    assert [cell.text for cell in shares.rows[0]] == ["table 5.5", "low", "all", "60 % / 50 %"]


def tiled(matrices, widths=(8, 128)):
    """Tables of a ladder of three kernels in FP16, a twin with wide sums and a library on ``matrices``: name → rows,
    kind and the times of the three and of the library at the widest B."""
    kernels = {"first": ("smat", "float16"), "second": ("sptc", "float16"), "third": ("sptc", "float16")}
    kernels |= {"lib": ("cusparse", "float32"), "third_f32": ("sptc", "float32")}
    rows, known = [], []
    for matrix, (m, kind, *times) in matrices.items():
        number = 1000 * m
        known.append({"matrix": matrix, "m": m, "k": m, "tiles_16x16": number, "tiles_16x32": m * m // 512})
        known[-1] |= {"tile_24_16x32_fraction": 1.0 if matrix.startswith("all") else 0.25}
        known[-1] |= {"source": "generated" if kind == "synthetic" else "suitesparse"}
        for n in widths:
            for (kernel, (study, sums)), time in zip(kernels.items(), [*times, times[2] / 10], strict=True):
                about = {
                    "kernel": kernel,
                    "study": study,
                    "dtype_accumulator": sums,
                    "status": "ok",
                    "noisy": False,
                    "kind": kind,
                }
                about |= {"precision": "float16", "matrix": matrix, "m": m, "n": n}
                rows.append(about | {"time_ms": time * n / widths[-1]})
    ladder = pd.DataFrame({"kernel": ["second", "third"], "after": ["first", "second"]})
    return {"cases": pd.DataFrame(rows), "matrices": pd.DataFrame(known), "ladder": ladder}


def test_rates_count_stored_tiles_for_every_kernel_alike_and_leave_out_wide_sums():
    rows = tiles.rated(tiled({"a": (100, "mesh", 4.0, 2.0, 1.0, 8.0)}))
    rows = rows[rows["n"] == 128].set_index("kernel")
    # 100,000 tiles of 256 slots, 128 columns, two operations: 6.5536 GFLOP.
    assert rows["tflops"].round(4).to_dict() == {"first": 1.6384, "second": 3.2768, "third": 6.5536, "lib": 0.8192}
    world = tiled({"a": (100, "mesh", 4.0, 2.0, 1.0, 8.0)})
    others = world | {"cases": world["cases"][world["cases"]["study"] != "sptc"]}
    for module in (ladder_synthetic, ladder_real, ladder_size, ladder_width):
        assert module.draw(others, {}) is None, "no kernel of the study ran"


MIXTURES = {
    "0d_10s": (4096, "synthetic", 4.0, 2.0, 1.0, 8.0),
    "10d_0s": (4096, "synthetic", 4.0, 1.0, 2.0, 4.0),
    "10d_10s": (4096, "synthetic", 4.0, 2.0, 1.0, 0.5),
    "10d_0s-2048": (2048, "synthetic", 2.0, 1.0, 0.5, 0.1),
}


def test_the_ladder_stands_on_each_mixture():
    shown, said = drawn_and_said(ladder_synthetic, tiled(MIXTURES))
    assert "10d_0s-2048" not in shown and "only 2:4 tiles" in shown and "TFLOP/s" in shown
    places = [shown.index(name) for name in ("first", "second", "third", "lib")]
    assert places == sorted(places), "from the lowest rung to the highest, libraries last"
    assert said == (
        "On 3 generated matrices at N = 128 the fastest of the ladder (FP16 sums) are second on only dense tiles, "
        "third on only 2:4 tiles, third on mixtures of both; the ladder's fastest is 0.500× (10d_10s) to 8.00× "
        "(0d_10s) as fast as lib (FP32 sums). X and Y are percentages of all tiles."
    )


def test_the_ladder_over_the_size_of_a_mixture():
    shown, said = drawn_and_said(ladder_size, tiled(MIXTURES))
    assert "10d_0s, only dense tiles" in shown and "0d_10s" not in shown.replace("10d_0s", "") and "2Ki" in shown
    assert said == (
        "2 generated matrices at N = 128, the ladder with FP16 sums. With 2,048 rows the fastest of the ladder is "
        "third; the ladder's fastest is 0.200× as fast as lib (FP32 sums). With 4,096 rows the fastest of the ladder "
        "is second; the ladder's fastest is 4.00× as fast as lib (FP32 sums). X and Y are percentages of all tiles."
    )


def test_the_ladder_over_the_width_of_b():
    widths = (8, 16, 32, 64)
    world = tiled({"all": (64, "synthetic", 4.0, 2.0, 1.0, 8.0), "some": (64, "synthetic", 1.0, 1.0, 1.0, 1.0)}, widths)
    shown, said = drawn_and_said(ladder_width, world)
    assert "all" in shown and "some" not in shown
    assert said.startswith(
        "On 1 generated matrix, all, third is the fastest of the ladder (FP16 sums) at 4 of 4 widths; the fastest "
        "reaches 2.10 TFLOP/s"
    )
    assert said.endswith("(third), 8.00× the rate of lib (FP32 sums).")
    short = tiled({"all": (64, "synthetic", 4.0, 2.0, 1.0, 8.0)})
    assert ladder_width.draw(short, {}) is None, "two widths are no curve"


def test_the_ladder_on_matrices_of_applications():
    real = {"mesh": (100, "mesh", 4.0, 2.0, 1.0, 8.0), "graph": (100, "graph", 4.0, 2.0, 1.0, 0.5)}
    shown, said = drawn_and_said(ladder_real, tiled(real))
    assert "mesh (25 %)" in shown and "1.00 ms" in shown and "third_f32" not in shown
    assert said == (
        "At N = 128, of the ladder (FP16 sums) and lib (FP32 sums), lib and third are each the fastest on 1 of 2 real "
        "matrices; the ladder's fastest is 0.500× (graph) to 8.00× (mesh) as fast as lib (FP32 sums)."
    )
    world = tiled(real)
    together = pd.concat([world["cases"], world["cases"].head(1).assign(study="cutespmm")])
    assert ladder_real.draw(world | {"cases": together}, {}) is None, (
        "a suite of several papers is no experiment of one"
    )


def synergies(matrices=20):
    """Tables of two kernels of cuTeSpMM, one of TC-GNN and a library: on every other matrix ``ours`` is 1.25 times as
    fast as the best on scalar cores and elsewhere half as fast; the others are slower throughout."""
    factors = {"ours": (1.25, 0.5), "ours_old": (0.4, 0.4), "theirs": (0.2, 0.2), "gemm": (9.0, 9.0)}
    studies_of = {"ours": "cutespmm", "ours_old": "cutespmm", "theirs": "tcgnn", "gemm": "cublas"}
    rows = []
    for kernel, pair in factors.items():
        for number in range(matrices):
            high = number % 2 == 0
            row = {"kernel": kernel, "study": studies_of[kernel], "matrix": f"m{number:02}", "m": 10_000 * (number + 1)}
            row |= {"synergy": "high" if high else "low", "oi_shmem": 200.0 if high else 20.0 + number}
            row |= {"best_sc_gflops": 100.0, "speedup": pair[number % 2], "useful_gflops": 100 * pair[number % 2]}
            row |= {"best_today_gflops": 110.0, "speedup_today": pair[number % 2] / 1.1, "row_bin": "20k to 50k"}
            rows += [row | {"n": n} for n in (32, 128)]
    found = pd.DataFrame(rows)
    boxes = ("least_gflops", "lower_quartile_gflops", "median_gflops", "upper_quartile_gflops", "most_gflops")
    classes = [
        {"kernel": kernel, "n": n, "synergy": name, "matrices": matrices // 2, "geomean": 1.1, "spearman": 0.5}
        | dict(zip(boxes, range(1, 6), strict=True))
        for kernel in ("ours", "ours_old", "theirs", "best_sc", "best_today")
        for n in (32, 128)
        for name in ("all", "high", "low")
    ]
    tables = {"cases": found[["study", "kernel"]], "synergy": found, "synergy_classes": pd.DataFrame(classes)}
    return tables | {"matrices": known(found, "suitesparse")}


def test_tensor_cores_stand_against_scalar_cores_matrix_by_matrix():
    shown, said = drawn_and_said(scalar_cores, synergies())
    assert "ours, N = 128" in shown and "theirs, N = 128" in shown and "ours_old" not in shown and "gemm" not in shown
    assert said == (
        "At N = 128, TF32 over best_sc in FP32: ours is faster on 10 of 20 real matrices, at most "
        "1.25× (m00), and on 10 faster than the best of all today; theirs is faster on 0 of 20 real matrices, at most "
        "0.200× (m00), and on 0 faster than the best of all today."
    )


def test_marks_against_scalar_cores_are_named_by_synergy_and_rival():
    world = synergies()
    rows = pd.read_csv(io.StringIO(plotted(scalar_cores.draw(world, style.kernel_styles(world["cases"])))))
    named = rows.query("mark == 'point'")["series"].str.extract(r"^(high|medium|low) synergy, (best_sc|best_today)$")
    assert named.notna().all(axis=None) and set(named[1]) == {"best_sc", "best_today"}


def test_figures_of_synergy_show_the_leading_kernel_of_each_study():
    world = synergies()
    assert rivals.leading(rivals.shown(world)) == ["ours", "theirs"], "the study's own kernel first, no library"
    for module in (synergy, synergy_classes, synergy_heatmap):
        shown, said = drawn_and_said(module, world)
        assert "ours" in shown and "theirs" in shown and "ours_old" not in shown and "gemm" not in shown, module
        assert said
        assert module.draw(synergies(matrices=18), {}) is None, "too few matrices for a distribution"
    assert "0.25×" in shown and "4×" in shown, "the colours have a key"
    panels = [ax for ax in synergy_heatmap.draw(world, {}).axes if ax.get_title()]
    assert len(panels) == 4 and all(ax.patch.get_hatch() for ax in panels), "classes without matrices are hatched"
    assert said.startswith(
        "TF32 over best_sc in FP32: ours is faster in 20 of 40 cases on 20 real matrices, at most 1.25× (m00, N = 32)"
    )


def test_graphs_of_a_paper_stand_beside_its_numbers():
    common = {"study": "cutespmm", "quantity": "over_best_sc", "source": "table 3", "n": 32}
    rows = [
        common | {"matrix": matrix, "kernel": kernel, "ours": ours, "published": published}
        for matrix, kernel, ours, published in [
            ("cora", "ours", 0.5, 2.0), ("cora", "theirs", 0.25, 0.5),
            ("ppi", "ours", 2.0, 2.0), ("ppi", "theirs", 0.25, 0.5),
        ]
    ]  # fmt: skip
    again = [row | {"source": "table 4"} for row in rows[:2]]
    world = synergies() | {"published": pd.DataFrame(rows + again), "matrices": known(pd.DataFrame(rows), "file")}
    shown, said = drawn_and_said(graphs, world)
    assert "cora" in shown and "N = 32" in shown and "over the best on scalar cores" in shown
    assert said == (
        "Over the best on scalar cores, in the geometric mean of the cases that the paper's tables have too: ours "
        "reaches 1.00× here and 2.00× in the paper (2 cases on 2 real matrices), theirs reaches 0.250× here and 0.500× "
        "in the paper (2 cases on 2 real matrices)."
    )
    assert graphs.draw(world | {"published": pd.DataFrame(rows[:2])}, {}) is None, "one graph is no table"


def test_sentences_do_without_what_was_not_measured():
    grid = {"kind": "grid", "nnz": 10, "m": 10**6, "time_ms": 0.1}
    rows = [grid | {"matrix": "2d5pt-10", "kernel": "stencil_cc"}, grid | {"matrix": "3d7pt-9", "kernel": "s_tc_3d7pt"}]
    said = drawn_and_said(stencils, vectors(rows))[1]
    assert said == "Highest rate: 10.0 GStencil/s by stencil_cc on 2d5pt-10.", "no grid ran on both units"

    square = {
        "study": "gemm24",
        "kernel": "tiles",
        "family": "tiles",
        "precision": "bfloat16",
        "status": "ok",
        "noisy": False,
    }
    square |= {"dtype_accumulator": "float32", "time_ms": 1.0}
    library = square | {"study": "cusparselt", "kernel": "lt", "family": "lt"}
    rows = [square | {"m": size, "n": size, "k": size} for size in (1000, 2000)]
    tables = {"published": pd.DataFrame({"kernel": [], "quantity": [], "n": [], "published": []})}
    smaller = [library | {"m": 1000, "n": 1000, "k": 1000}]
    said = drawn_and_said(squares, tables | {"cases": pd.DataFrame(rows + smaller)})[1]
    assert said == (
        "At 2,000 in BF16 tiles is the fastest, at 16.0 TFLOP/s counting 2·M·N·K. Another kernel is faster than lt on "
        "0 of 1 square that both ran."
    )
    elsewhere = [library | {"m": 4000, "n": 4000, "k": 4000}]
    said = drawn_and_said(squares, tables | {"cases": pd.DataFrame(rows + elsewhere)})[1]
    assert said == "At 4,000 in BF16 lt is the fastest, at 128 TFLOP/s counting 2·M·N·K."


def test_a_noisy_row_is_compared_with_nothing():
    rows = pd.DataFrame({"status": ["ok", "ok", "wrong", "ok"], "noisy": [False, True, pd.NA, pd.NA]})
    assert list(style.timed(rows).index) == [0, 3]
