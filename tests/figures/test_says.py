"""What figures say follows from their rows: for each a small table on which its usual statement holds, and tables on
which the opposite does."""

import pandas as pd
import pytest

from spmm_roofline import analysis, contracts, figures
from spmm_roofline.figures import rivals

#: A verified case, of which a test says what matters.
CASE = {
    "device": "h200",
    "suite": "sample",
    "study": "scalar",
    "kernel": "rows",
    "matrix": "mesh",
    "kind": "mesh",
    "m": 100,
    "k": 100,
    "n": 32,
    "nnz": 1000,
    "l2": "cold",
    "precision": "float32",
    "dtype_a": "float32",
    "dtype_accumulator": "float32",
    "status": "ok",
    "noisy": False,
    "time_ms": 1.0,
    "useful_gflops": 100.0,
    "speedup": float("nan"),
    "bound": "",
    "bound_fraction": float("nan"),
    "intensity_flop_per_byte": 1.0,
    "compulsory_bytes": 1_000_000,
    "rel_error": 1e-7,
}
LIBRARY = {"study": "cusparse", "kernel": "cusparse_best_f32"}
HALF = {"precision": "float16", "dtype_a": "float16"}
NARROW = HALF | {"dtype_accumulator": "float16"}
#: Sources of the matrices of these tests.
SOURCES = {"toy": "generated", "all": "generated", "0d": "generated", "10d": "generated", "pruned": "dlmc"}

WORLDS = []


def rows(*found, **common):
    """Rows of one table; what they do not say is that of :data:`CASE`."""
    return pd.DataFrame([CASE | common | row for row in found], columns=None if found else list(CASE))


def world(cases=None, **tables):
    """Tables around ``cases``, with the source of every matrix by its name: a real one where :data:`SOURCES` has
    none."""
    cases = rows() if cases is None else cases
    names = {name for table in (cases, *tables.values()) if "matrix" in table for name in table["matrix"]}
    source = [
        next((kind for start, kind in SOURCES.items() if name.startswith(start)), "suitesparse") for name in names
    ]
    matrices = pd.DataFrame({"matrix": list(names), "source": source}, dtype=object)
    return {"cases": cases, "matrices": matrices} | tables


def of(figure):
    """Register the worlds of a figure: why, tables, and what it says of them."""

    def register(worlds):
        WORLDS.extend((figure, *told) for told in worlds())

    return register


@of("throughput")
def _():
    fast, slow = {"useful_gflops": 2000.0}, {"kernel": "narrow", "time_ms": 2.0} | NARROW
    toy = {"matrix": "toy"}
    yield (
        "one kernel leads",
        world(rows(fast, slow, fast | toy, slow | toy)),
        (
            "rows is the fastest in 2 of 2 cases on 2 matrices (1 real and 1 generated); the highest rate is "
            "2.00 TFLOP/s, by rows on mesh at N = 32."
        ),
    )
    yield (
        "a tie, one with sums in FP16",
        world(rows(fast, slow, fast | {"n": 8}, slow | {"n": 8, "time_ms": 0.5})),
        (
            "narrow (FP16 sums) and rows are each the fastest in 1 of 2 cases on 1 real matrix; the highest "
            "rate is 2.00 TFLOP/s, by rows on mesh at N = 32."
        ),
    )
    yield "one kernel alone is no comparison", world(rows(fast)), ""


def means(*found):
    """Table ``speedup``: kernel, study, mean over so many matrices and on how many of them it wins."""
    names = ("kernel", "study", "n", "geomean", "geomean_low", "geomean_high", "matrices", "wins")
    return pd.DataFrame([dict(zip(names, row, strict=True)) for row in found])


@of("speedup")
def _():
    cases = [{"matrix": name, "speedup": 2.0} for name in ("a", "b", "c", "d")]
    won = means(("rows", "scalar", 8, 2.0, 1.5, 2.5, 4, 4), ("rows", "scalar", 32, 0.5, 0.4, 0.6, 3, 1))
    yield (
        "ours wins at one width",
        world(rows(*cases), speedup=won),
        (
            "On 4 real matrices, rows at N = 8 has the highest mean, 2.00× (95 % interval 1.50× to 2.50×), and is "
            "faster than cuSPARSE on 4 of 4; rows at N = 32 has the lowest, 0.500×, and is faster on 1 of 3. Each mean "
            "is over the matrices that its kernel ran, 3 to 4."
        ),
    )
    lost = means(("narrow", "sptc", 8, 0.5, 0.25, 0.75, 3, 0))
    yield (
        "ours loses everywhere; three matrices have no interval",
        world(rows(*cases[:3], **NARROW | {"kernel": "narrow", "speedup": 0.5}), speedup=lost),
        (
            "On 3 real matrices, narrow (FP16 sums) at N = 8 has the highest mean, 0.500×, and is faster than"
            " cuSPARSE on 0 of 3."
        ),
    )
    library = {"study": "cusparse", "speedup": 0.9}
    own = means(("alg1", "cusparse", 8, 0.5, 0.5, 0.5, 1, 0), ("alg2", "cusparse", 8, 1.0, 1.0, 1.0, 1, 0))
    variants = rows({"kernel": "alg1"}, {"kernel": "alg2"}, **library)
    yield (
        "cuSPARSE alone",
        world(variants, speedup=own),
        (
            "Only cuSPARSE has a time. On 1 real matrix, alg2 at N = 8 comes closest to the best of its "
            "algorithms, at 1.00× in the geometric mean, and alg1 at N = 8 stays furthest behind, at 0.500×."
        ),
    )
    elsewhere = rows({"kernel": "alg1"}, {"kernel": "rows", "study": "scalar", "speedup": None}, **library)
    yield (
        "a kernel without a baseline has not won",
        world(elsewhere, speedup=own.head(1)),
        (
            "No other kernel has a time on a case of cuSPARSE. On 1 real matrix, alg1 at N = 8 comes closest "
            "to the best of its algorithms, at 0.500× in the geometric mean."
        ),
    )


@of("heatmap")
def _():
    won, lost = {"speedup": 2.0}, {"speedup": 0.5, "kernel": "narrow"} | NARROW
    missing = {"matrix": "toy"}
    yield (
        "ours wins; no baseline is no win",
        world(rows(won, won | {"n": 8}, lost, missing)),
        (
            "2 of 3 cells on 1 real matrix are faster than cuSPARSE; the extremes are 2.00× (rows on mesh, N "
            "= 32) and 0.500× (narrow (FP16 sums) on mesh, N = 32)."
        ),
    )
    yield (
        "ours loses",
        world(rows(lost, lost | {"matrix": "toy", "speedup": 1.0})),
        (
            "0 of 2 cells on 2 matrices (1 real and 1 generated) are faster than cuSPARSE; the extremes are "
            "1.00× (narrow (FP16 sums) on toy, N = 32) and 0.500× (narrow (FP16 sums) on mesh, N = 32)."
        ),
    )
    yield (
        "sums in FP16 win",
        world(rows(lost | won, {"speedup": 1.5}, {"speedup": 0.9, "matrix": "toy"})),
        (
            "2 of 3 cells on 2 matrices (1 real and 1 generated) are faster than cuSPARSE, 1 of them with "
            "FP16 sums; the extremes are 2.00× (narrow (FP16 sums) on mesh, N = 32) and 0.900× (rows on toy, "
            "N = 32)."
        ),
    )
    yield (
        "one cell",
        world(rows(lost)),
        (
            "0 of 1 cell on 1 real matrix are faster than cuSPARSE; the speed-up is 0.500× (narrow (FP16 "
            "sums) on mesh, N = 32)."
        ),
    )


@of("roofline")
def _():
    memory = {"bound": "memory", "bound_fraction": 0.5}
    compute = {"bound": "compute", "bound_fraction": 0.25, "kernel": "narrow", "time_ms": 2.0} | NARROW
    yield (
        "memory binds",
        world(rows(memory, memory | {"matrix": "toy", "bound_fraction": 0.996})),
        (
            "On 2 matrices (1 real and 1 generated) the lowest limit is memory for 2 of 2 rows; the "
            "fastest kernel of a case reaches 75 % of its limit in the median of 2 cases; rows on toy at N = 32 "
            "comes closest, at 99.6 %."
        ),
    )
    yield (
        "nothing binds by memory",
        world(rows(compute)),
        (
            "On 1 real matrix the lowest limit is the unit that multiplies for 1 of 1 row; the fastest "
            "kernel of a case reaches 25 % of its limit in the median of 1 case; narrow (FP16 sums) on mesh at "
            "N = 32 comes closest, at 25 %."
        ),
    )
    launch = {"bound": "launch", "bound_fraction": 0.9, "n": 8}
    yield (
        "all three bind, and the slower kernel of a case is not its fastest",
        world(rows(memory, memory | {"kernel": "slow", "time_ms": 9.0, "bound_fraction": 0.1}, compute, launch)),
        (
            "On 1 real matrix the lowest limit is memory for 2, the unit that multiplies for 1 and the "
            "replay of an empty graph for 1 of 4 rows; the fastest kernel of a case reaches 50 % of its limit in "
            "the median of 3 cases; rows on mesh at N = 8 comes closest, at 90 %."
        ),
    )
    yield (
        "the fastest kernel has no limit, and is not replaced by the next",
        world(rows({"time_ms": 0.1, "kernel": "unknown"}, memory)),
        ("On 1 real matrix the lowest limit is memory for 1 of 1 row; rows on mesh at N = 32 comes closest, at 50 %."),
    )
    yield (
        "no limit",
        world(rows({})),
        ("No limit is known for these rows: the device has no measured DRAM rate or no datasheet here."),
    )


@of("roofline_counted")
def _():
    about = {"counted": True, "dram_flop_per_byte": 1.0, "cache_flop_per_byte": 1.0, "l2_limit_gflops": 1.0}
    saved = {"save_dram_bytes": 0.0, "save_l2_bytes": 0.0, "save_flops": 0.0}

    def told(*found):
        return world(rows(), roofline=rows(*found, **about | saved))

    dram = {"bound": "dram", "bound_fraction": 0.5, "distance": 2.0, "save_dram_bytes": 5.0}
    compute = {"bound": "compute", "bound_fraction": 0.25, "distance": 4.0}
    yield (
        "memory binds",
        told(dram, dram | {"matrix": "toy", "bound_fraction": 0.75}),
        (
            "Of 2 cases on 2 matrices (1 real and 1 generated) the lowest limit is DRAM in 2; in the "
            "median a case reaches 62 % of it, and the limits allow 2.00× its rate. Closest to its limit is "
            "rows on toy, N = 32, with 75 %. To be twice as fast, 2 of 2 must move or compute less."
        ),
    )
    yield (
        "nothing binds by memory, and the rate of L2 is unknown",
        told(compute | {"l2_limit_gflops": None}),
        (
            "Of 1 case on 1 real matrix the lowest limit is computation in 1; in the median a case "
            "reaches 25 % of it, and the limits allow 4.00× its rate. Closest to its limit is rows on mesh, N"
            " = 32, with 25 %. To be twice as fast, 0 of 1 must move or compute less. The rate of L2 was not "
            "measured and limits nothing here."
        ),
    )
    launch = {"bound": "launch", "bound_fraction": 0.9, "distance": 1.1, "n": 8}
    l2 = {"bound": "l2", "bound_fraction": 0.75, "distance": 1.5, "n": 128, "save_l2_bytes": 5.0}
    yield (
        "all four bind",
        told(dram, compute | {"n": 16}, launch, l2),
        (
            "Of 4 cases on 1 real matrix the lowest limit is DRAM in 1, L2 in 1, computation in 1 and an "
            "empty replay in 1; in the median a case reaches 62 % of it, and the limits allow 1.75× its rate. "
            "Closest to its limit is rows on mesh, N = 8, with 90 %. To be twice as fast, 2 of 4 must move or "
            "compute less."
        ),
    )
    yield (
        "no limit",
        told({"bound": ""}),
        ("1 case counted; the device has no measured DRAM rate or no datasheet here."),
    )


@of("statuses")
def _():
    def told(**counts):
        return {"status": pd.DataFrame({"kernel": "rows", "status": [*counts], "rows": [*counts.values()]})}

    yield (
        "rows without a time",
        told(ok=5, wrong=1, unsupported=3),
        ("4 of 9 rows have no time: 3 unsupported and 1 wrong."),
    )
    yield "one of them", told(ok=5, out_of_memory=1), ("1 of 6 rows has no time: out of memory.")
    yield "all have one", told(ok=5), ""


@of("stalls")
def _():
    def told(**kernels):
        names = ("selected", "long_scoreboard", "barrier", "wait", "membar")
        about = [
            {"kernel": kernel, "matrix": matrix, "state": state, "warps": count, "waits": state != "selected"}
            for kernel, (matrix, *warps) in kernels.items()
            for state, count in zip(names, warps, strict=True)
        ]
        return world(stalls=pd.DataFrame(about).assign(suite="sample", n=32))

    memory, barrier = ("mesh", 1.0, 6.0, 2.0, 1.0, 1.0), ("toy", 1.0, 1.0, 8.0, 1.0, 0.0)
    yield (
        "memory",
        told(a=memory, b=memory),
        ("2 of 2 kernels on 1 real matrix wait most for this: global memory; it takes up to 60 % of the waiting (b)."),
    )
    yield (
        "not memory, on other cases",
        told(a=barrier, b=barrier, c=memory),
        (
            "2 of 3 kernels on 2 matrices (1 real and 1 generated) wait most for this: barrier; it takes up "
            "to 80 % of the waiting (b). 3 of 3 kernels were profiled on only some of these cases."
        ),
    )
    yield (
        "no warp waits",
        told(a=("toy", 1.0, 0.0, 0.0, 0.0, 0.0)),
        ("No warp of 1 kernel waits on 1 generated matrix."),
    )


@of("matrices")
def _():
    def told(*found):
        names = ("matrix", "source", "kind", "nnz", "tile_fill_16x16_fraction")
        return {"matrices": pd.DataFrame([dict(zip(names, row, strict=True)) for row in found]).assign(m=100)}

    mesh, toy = ("mesh", "suitesparse", "mesh", 1000, 0.5), ("toy", "generated", "banded", 20, 0.0625)
    yield (
        "several, one without a non-zero",
        told(mesh, toy, ("empty", "file", "graph", 0, None)),
        (
            "2 matrices (1 real and 1 generated) of 2 kinds, with 20 to 1,000 non-zeros; the mean fill of the"
            " tiles of a matrix lies between 6.2 % (toy) and 50 % (mesh), 28 % in the median. 1 without entries is not "
            "drawn."
        ),
    )
    yield (
        "one",
        told(mesh),
        ("1 real matrix of 1 kind, with 1,000 non-zeros; the mean fill of the tiles of a matrix is 50 %."),
    )
    empty = [(f"empty-{number}", "file", "graph", 0, None) for number in range(2)]
    yield (
        "two without entries",
        told(mesh, *empty),
        (
            "1 real matrix of 1 kind, with 1,000 non-zeros; the mean fill of the tiles of a matrix is 50 %. 2 without "
            "entries are not drawn."
        ),
    )


@of("rounding")
def _():
    def told(*errors, width=32):
        wide, narrow = HALF | {"kernel": "mma_f32", "study": "sptc"}, NARROW | {"kernel": "mma", "study": "sptc"}
        pairs = [
            [wide | {"matrix": name, "rel_error": exact}, narrow | {"matrix": name, "rel_error": error, "n": width}]
            for name, exact, error in errors
        ]
        tables = world(rows(*(row for pair in pairs for row in pair)))
        return tables | {"matrices": tables["matrices"].assign(row_length_max=10)}

    yield (
        "FP16 is the less exact",
        told(("mesh", 1e-4, 2e-3), ("toy", 1e-4, 4e-4)),
        (
            "On 2 matrices (1 real and 1 generated), the error of sums in FP16 is larger than that of the "
            "twin with sums in FP32 in 2 of 2 pairs of kernels on a matrix, 12 times as large in the median. "
            "The largest error of sums in FP16 is 2.0‰ (mma on mesh, longest row 10), where the twin has "
            "0.10‰."
        ),
    )
    yield (
        "FP16 is the more exact",
        told(("mesh", 2e-3, 1e-3)),
        (
            "On 1 real matrix, the error of sums in FP16 is larger than that of the twin with sums in FP32 in"
            " 0 of 1 pair of kernels on a matrix, 0.50 times as large in the median. The largest error of "
            "sums in FP16 is 1.0‰ (mma on mesh, longest row 10), where the twin has 2.0‰."
        ),
    )
    yield (
        "both are exact",
        told(("toy", 0.0, 0.0)),
        (
            "On 1 generated matrix, the error of sums in FP16 is larger than that of the twin with sums in "
            "FP32 in 0 of 1 pair of kernels on a matrix. The largest error of sums in FP16 is 0‰ (mma on toy,"
            " longest row 10), where the twin has 0‰."
        ),
    )
    yield "twins of different widths are no pair", told(("mesh", 1e-4, 2e-3), width=8), ""


@of("balance")
def _():
    def told(cuda, tensor, intensity, measured=True):
        rates = [("float64_cuda", cuda, True), ("float64_tensor", tensor, measured)]
        ceilings = [
            {"ceiling": name, "level": "", "measured" if known else "datasheet": rate} for name, rate, known in rates
        ]
        ceilings.append({"ceiling": "dram", "level": "dram", "measured": 1000.0})
        columns = ["ceiling", "level", "measured", "datasheet"]
        product = {"study": "memory_bound", "n": 1, "precision": "float64", "intensity_flop_per_byte": intensity}
        cases = rows(product, product | {"matrix": "toy", "kind": "diagonal", "intensity_flop_per_byte": 0.1})
        return world(cases, ceilings=pd.DataFrame(ceilings).reindex(columns=columns).assign(through=""))

    yield (
        "memory binds all",
        told(10_000.0, 20_000.0, 0.125),
        (
            "DRAM and CUDA cores meet at 10.0 FLOP/B. Memory binds 2 of 2 kinds of product on 2 matrices (1 "
            "real and 1 generated); the highest intensity is 0.125 FLOP/B (SpMV). The ceiling of tensor cores"
            " is 2.00× that of CUDA cores and can help only products above 10.0 FLOP/B, which is 0 of these."
        ),
    )
    yield (
        "memory does not bind, and tensor cores are no faster",
        told(10_000.0, 5_000.0, 50.0),
        (
            "DRAM and CUDA cores meet at 10.0 FLOP/B. Memory binds 1 of 2 kinds of product on 2 matrices (1 "
            "real and 1 generated); the highest intensity is 50.0 FLOP/B (SpMV). The ceiling of tensor cores "
            "is 0.500× that of CUDA cores and helps no product."
        ),
    )
    yield (
        "a ceiling of the datasheet",
        told(10_000.0, 20_000.0, 0.125, measured=False),
        (
            "DRAM and CUDA cores meet at 10.0 FLOP/B. Memory binds 2 of 2 kinds of product on 2 matrices (1 "
            "real and 1 generated); the highest intensity is 0.125 FLOP/B (SpMV). The ceiling of tensor cores"
            " is 2.00× that of CUDA cores and can help only products above 10.0 FLOP/B, which is 0 of these. "
            "The ceiling of FP64 tensor was not measured and is the datasheet's."
        ),
    )


def and_library(tables, kernel, time_ms):
    """Tables of a ladder with another library beside ``lib``."""
    other = tables["cases"].query("kernel == 'lib'").assign(kernel=kernel, time_ms=time_ms)
    return tables | {"cases": pd.concat([tables["cases"], other], ignore_index=True)}


def laddered(**matrices):
    """Tables of two kernels with sums in FP16 and a library: matrix → rows, width and their times, None for none."""
    kernels = {"first": NARROW | {"study": "smat"}, "second": NARROW | {"study": "sptc"}}
    kernels["lib"] = HALF | {"study": "cusparse"}
    found = [
        about | {"kernel": kernel, "matrix": matrix, "m": m, "n": n, "time_ms": time, "kind": kind}
        for matrix, (m, widths, kind, *times) in matrices.items()
        for n in widths
        for (kernel, about), time in zip(kernels.items(), times, strict=True)
        if time is not None
    ]
    tables = world(rows(*found))
    sizes = {matrix: m for matrix, (m, *_) in matrices.items()}
    known = tables["matrices"].assign(m=tables["matrices"]["matrix"].map(sizes), tiles_16x16=1000)
    known = known.assign(k=known["m"], tiles_16x32=known["m"] * known["m"] // 512, tile_24_16x32_fraction=1.0)
    return tables | {"matrices": known}


@of("ladder_synthetic")
def _():
    ours = {"0d_10s": (4096, [128], "synthetic", 4.0, 2.0, 8.0), "10d_10s": (4096, [128], "synthetic", 1.0, 2.0, 8.0)}
    yield (
        "the ladder wins",
        laddered(**ours),
        (
            "On 2 generated matrices at N = 128 the fastest of the ladder (FP16 sums) are second on only 2:4 "
            "tiles, first on mixtures of both; the ladder's fastest is 4.00× (0d_10s) to 8.00× (10d_10s) as "
            "fast as lib (FP32 sums). X and Y are percentages of all tiles."
        ),
    )
    tables = laddered(**ours)
    yield (
        "two libraries",
        and_library(tables, "lib2", 16.0),
        (
            "On 2 generated matrices at N = 128 the fastest of the ladder (FP16 sums) are second on only 2:4 "
            "tiles, first on mixtures of both; the ladder's fastest is 4.00× (0d_10s) to 8.00× (10d_10s) as "
            "fast as the fastest of lib (FP32 sums) and lib2 (FP32 sums). X and Y are percentages of all tiles."
        ),
    )
    yield (
        "the library wins",
        laddered(**{"10d_0s": (4096, [128], "synthetic", 4.0, 2.0, 1.0)}),
        (
            "On 1 generated matrix at N = 128 the fastest of the ladder (FP16 sums) is second on only dense "
            "tiles; the ladder's fastest is 0.500× as fast as lib (FP32 sums). X and Y are percentages of all tiles."
        ),
    )
    missing = ours | {"10d_10s": (4096, [128], "synthetic", 1.0, 2.0, None)}
    yield (
        "the library lacks a matrix",
        laddered(**missing),
        (
            "On 2 generated matrices at N = 128 the fastest of the ladder (FP16 sums) are second on only 2:4 "
            "tiles, first on mixtures of both; the ladder's fastest is 4.00× as fast as lib (FP32 sums), on "
            "the 1 matrix that both ran. X and Y are percentages of all tiles."
        ),
    )
    yield (
        "no library",
        laddered(**{"10d_0s": (4096, [128], "synthetic", 4.0, 2.0, None)}),
        (
            "On 1 generated matrix at N = 128 the fastest of the ladder (FP16 sums) is second on only dense tiles. "
            "X and Y are percentages of all tiles."
        ),
    )
    yield (
        "tiles per block row",
        laddered(**{"10d_0s-per-row": (4096, [128], "synthetic", 4.0, 2.0, None)}),
        (
            "On 1 generated matrix at N = 128 the fastest of the ladder (FP16 sums) is second on only dense tiles. "
            "X and Y are tiles per block row."
        ),
    )


@of("ladder_real")
def _():
    ours = {"mesh": (100, [8, 128], "mesh", 4.0, 2.0, 8.0), "graph": (100, [8, 128], "graph", 1.0, 0.5, 1.0)}
    yield (
        "the ladder wins",
        laddered(**ours),
        (
            "At N = 128, of the ladder (FP16 sums) and lib (FP32 sums), second is the fastest on 2 of 2 real "
            "matrices; the ladder's fastest is 2.00× (graph) to 4.00× (mesh) as fast as lib (FP32 sums)."
        ),
    )
    yield (
        "the library wins on one of two",
        laddered(**ours | {"mesh": (100, [128], "mesh", 4.0, 2.0, 1.0)}),
        (
            "At N = 128, of the ladder (FP16 sums) and lib (FP32 sums), lib and second are each the fastest "
            "on 1 of 2 real matrices; the ladder's fastest is 0.500× (mesh) to 2.00× (graph) as fast as lib "
            "(FP32 sums)."
        ),
    )
    yield (
        "no library",
        laddered(mesh=(100, [128], "mesh", 4.0, 2.0, None)),
        ("At N = 128, of the ladder (FP16 sums), second is the fastest on 1 of 1 real matrix."),
    )


@of("ladder_size")
def _():
    sizes = {
        "0d_10s": (4096, [128], "synthetic", 4.0, 2.0, 8.0),
        "0d_10s-2048": (2048, [128], "synthetic", 4.0, 2.0, 1.0),
    }
    yield (
        "the ladder wins on the larger",
        laddered(**sizes),
        (
            "2 generated matrices at N = 128, the ladder with FP16 sums. With 2,048 rows the fastest of the "
            "ladder is second; the ladder's fastest is 0.500× as fast as lib (FP32 sums). With 4,096 rows the"
            " fastest of the ladder is second; the ladder's fastest is 4.00× as fast as lib (FP32 sums)."
            " X and Y are percentages of all tiles."
        ),
    )
    alone = {name: (*row[:-1], None) for name, row in sizes.items()}
    yield (
        "no library",
        laddered(**alone),
        (
            "2 generated matrices at N = 128, the ladder with FP16 sums. With 2,048 rows the fastest of the "
            "ladder is second. With 4,096 rows the fastest of the ladder is second. "
            "X and Y are percentages of all tiles."
        ),
    )
    yield "one size is no curve", laddered(**{"0d_10s": sizes["0d_10s"]}), ""


@of("ladder_width")
def _():
    widths = [8, 16, 32, 64]
    yield (
        "the ladder wins",
        laddered(all=(64, widths, "synthetic", 4.0, 2.0, 8.0)),
        (
            "On 1 generated matrix, all, second is the fastest of the ladder (FP16 sums) at 4 of 4 widths; "
            "the fastest reaches 0.00205 TFLOP/s at N = 8 (second) and 0.0164 TFLOP/s at N = 64 (second), "
            "4.00× the rate of lib (FP32 sums)."
        ),
    )
    yield (
        "the library wins",
        laddered(all=(64, widths, "synthetic", 4.0, 2.0, 1.0)),
        (
            "On 1 generated matrix, all, second is the fastest of the ladder (FP16 sums) at 4 of 4 widths; "
            "the fastest reaches 0.00205 TFLOP/s at N = 8 (second) and 0.0164 TFLOP/s at N = 64 (second), "
            "0.500× the rate of lib (FP32 sums)."
        ),
    )
    yield (
        "no library",
        laddered(all=(64, widths, "synthetic", 4.0, 2.0, None)),
        (
            "On 1 generated matrix, all, second is the fastest of the ladder (FP16 sums) at 4 of 4 widths; "
            "the fastest reaches 0.00205 TFLOP/s at N = 8 (second) and 0.0164 TFLOP/s at N = 64 (second)."
        ),
    )
    tables = laddered(all=(64, widths, "synthetic", 4.0, 2.0, 1.0))
    yield (
        "of two libraries only the faster has that rate",
        and_library(tables, "slower_lib", 8.0),
        (
            "On 1 generated matrix, all, second is the fastest of the ladder (FP16 sums) at 4 of 4 widths; "
            "the fastest reaches 0.00205 TFLOP/s at N = 8 (second) and 0.0164 TFLOP/s at N = 64 (second), "
            "0.500× the rate of lib (FP32 sums), the fastest of 2 libraries."
        ),
    )
    two = {name: (64, widths, "synthetic", 4.0, 2.0, time) for name, time in (("all-a", 8.0), ("all-b", 1.0))}
    yield (
        "of two matrices of one size the first",
        laddered(**two),
        (
            "On 1 generated matrix, all-a, second is the fastest of the ladder (FP16 sums) at 4 of 4 widths; "
            "the fastest reaches 0.00205 TFLOP/s at N = 8 (second) and 0.0164 TFLOP/s at N = 64 (second), "
            "4.00× the rate of lib (FP32 sums)."
        ),
    )


def tiled_sizes(**matrices):
    """Tables of the thesis on tiles alone: matrix of 64 full tiles → its super-tiles of 32, 64 and 128 rows."""
    known = []
    for name, counts in matrices.items():
        row = {"matrix": name, "kind": "synthetic" if name.startswith("toy") else "mesh", "nnz": 64 * 256}
        for side, count in zip((16, 32, 64, 128), (64, *counts), strict=True):
            row |= {
                f"tiles_{side}x{side}": count,
                f"tile_fill_{side}x{side}_fraction": 64 * 256 / (count * side * side),
            }
        known.append(row)
    tables = world(rows(*({"matrix": name, "study": "sptc"} for name in matrices)))
    return tables | {"matrices": tables["matrices"].merge(pd.DataFrame(known), on="matrix")}


@of("stored_zeros")
def _():
    scattered = tiled_sizes(mesh=(64, 64, 64), toy=(32, 16, 8))
    yield (
        "zeros grow with the tile",
        scattered,
        (
            "On 2 matrices (1 real and 1 generated), 38 %, 16 % and 7.0 % of the 16×16 tiles in super-tiles of "
            "32×32, 64×64 and 128×128 hold a non-zero, in the median. Of the stored values 100 % are not zero "
            "with 16×16 tiles and 7.0 % with the largest super-tiles. Each doubling of the side stores more "
            "zeros on 2 of 2, and no doubling does on 0."
        ),
    )
    full = tiled_sizes(mesh=(16, 4, 1))
    yield (
        "no zeros are stored",
        full,
        (
            "On 1 real matrix, 100 %, 100 % and 100 % of the 16×16 tiles in super-tiles of 32×32, 64×64 and 128×128 "
            "hold a non-zero, in the median. Of the stored values 100 % are not zero with 16×16 tiles and 100 % with "
            "the largest super-tiles. Each doubling of the side stores more zeros on 0 of 1, and no doubling does on 1."
        ),
    )
    others = pd.concat([scattered["cases"], rows({"study": "cutespmm"})])
    yield "a suite of several papers is no experiment of one", scattered | {"cases": others}, ""
    grid = scattered["matrices"].assign(tiles_64x64=float("nan"))
    yield "a grid has no tiles that were counted", scattered | {"matrices": grid}, ""


@of("bricks")
def _():
    def told(**matrices):
        tables = world(rows(*({"matrix": name, "study": "cutespmm"} for name in matrices)))
        names = ("matrix", "brick_fill_16x4_fraction", "alpha_fraction")
        known = pd.DataFrame([dict(zip(names, (name, *fills), strict=True)) for name, fills in matrices.items()])
        return tables | {"matrices": tables["matrices"].merge(known.assign(nnz=100), on="matrix")}

    yield (
        "most are denser than the paper's sparser example",
        told(mesh=(0.25, 0.5), toy=(0.125, 0.125), web=(0.05, 0.06)),
        (
            "On 3 matrices (2 real and 1 generated), the mean fill of aligned bricks is 12 % in the median, "
            "5.0 % (web) to 25 % (mesh); it reaches 10 %, just above what the paper states for NotreDame_www, "
            "its sparser example, on 2 of 3. Packed, the fill is 12 % in the median, 1.20× the aligned one of the "
            "same matrix in the median and at most 2.00× (mesh)."
        ),
    )
    yield (
        "none is, and packing gains nothing",
        told(NotreDame_www=(0.0625, 0.0625)),
        (
            "On 1 real matrix, the mean fill of aligned bricks is 6.2 % in the median; it reaches 10 %, just "
            "above what the paper states for NotreDame_www, its sparser example, on 0 of 1. Packed, the fill is "
            "6.2 % in the median, 1.00× the aligned one of the same matrix in the median and at most 1.00× "
            "(NotreDame_www). NotreDame_www has 6.2 %, in the paper nearly 10 %."
        ),
    )
    yield "a grid has no bricks that were counted", told(mesh=(None, 0.5)), ""


def pruned(*found, **published):
    """Tables of weights pruned to a sparsity: kernel, study, sparsity, width, time and speed-up of each row. Over the
    call of its study a kernel is half as fast again as over the best of cuSPARSE."""
    names = ("kernel", "study", "sparsity", "n", "time_ms", "speedup")
    cases = [dict(zip(names, row, strict=True)) | {"kind": "pruned"} for row in found]
    for case in cases:
        own = case["study"] == "attention" and case["speedup"] is not None
        case["over_own_call"] = 1.5 * case["speedup"] if own else float("nan")
    for case in cases:
        sparsity = case.pop("sparsity")
        case |= {"matrix": f"pruned-l0_regularization-{sparsity}-layer", "nnz": round(10_000 * (1 - sparsity))}
    paper = {"study": "attention", "quantity": "over_own_call", "kernel": "own", "n": 128} | published
    columns = ["study", "quantity", "kernel", "n", "matrix", "published"]
    return world(rows(*cases), published=pd.DataFrame([paper] if published else [], columns=columns))


@of("pruned_kernels")
def _():
    won = [("own", "attention", 0.5, 128, 1.0, 2.0), ("own", "attention", 0.9, 128, 1.0, 4.0)]
    told = {"matrix": "t-l0_regularization-0.9", "published": 1.5}
    yield (
        "ours wins, above the thesis",
        pruned(*won, **told),
        (
            "On 2 pruned matrices, pruned by L0 regularisation, the fastest of these kernels at N = 128 are "
            "own at 50 % sparsity (3.00×) and own at 90 % sparsity (6.00×, 1.50× in the thesis), over "
            "cuSPARSE as the thesis called it. Of 1 ratio that the thesis prints too, 0 are above ours. "
            "Dashed are the thesis's numbers for an RTX 4070 Ti Super, with a gap where its text gives none."
        ),
    )
    lost = [("own", "attention", 0.5, 128, 1.0, 0.25), ("own", "attention", 0.9, 128, 1.0, 0.5)]
    yield (
        "ours loses, below the thesis",
        pruned(*lost, **told),
        (
            "On 2 pruned matrices, pruned by L0 regularisation, the fastest of these kernels at N = 128 are "
            "own at 50 % sparsity (0.375×) and own at 90 % sparsity (0.750×, 1.50× in the thesis), over "
            "cuSPARSE as the thesis called it. Of 1 ratio that the thesis prints too, 1 is above ours. "
            "Dashed are the thesis's numbers for an RTX 4070 Ti Super, with a gap where its text gives none."
        ),
    )
    yield (
        "the thesis prints ratios over another baseline",
        pruned(*won, **told | {"quantity": "over_cusparse"}),
        (
            "On 2 pruned matrices, pruned by L0 regularisation, the fastest of these kernels at N = 128 are "
            "own at 50 % sparsity (3.00×) and own at 90 % sparsity (6.00×), over cuSPARSE as the thesis called it."
        ),
    )
    without = pruned(*won, **told)
    without["cases"]["over_own_call"] = float("nan")
    yield "the thesis' call was not run, and the best of cuSPARSE does not stand for it", without, ""


@of("pruned_methods")
def _():
    won = [("own", "attention", 0.5, 128, 1.0, 2.0), ("own", "attention", 0.9, 128, 1.0, 4.0)]
    yield (
        "ours wins",
        pruned(*won),
        (
            "On 2 pruned matrices, in 2 of 2 combinations of method, sparsity and N a kernel of the study is "
            "faster than the fastest of cuSPARSE's CSR and COO algorithms, at most 4.00× (own, L0 "
            "regularisation, 90 %, N = 128)."
        ),
    )
    lost = [("own", "attention", 0.5, 128, 1.0, 0.25), ("other", "attention", 0.9, 128, 1.0, 1.0)]
    yield (
        "ours loses or ties",
        pruned(*lost),
        (
            "On 2 pruned matrices, in 0 of 2 combinations of method, sparsity and N a kernel of the study is "
            "faster than the fastest of cuSPARSE's CSR and COO algorithms, at most 1.00× (other, L0 "
            "regularisation, 90 %, N = 128). Of the study's kernels other and own are each the fastest in 1; "
            "2 kernels are the fastest in some."
        ),
    )
    yield "the dense product alone", pruned(*((("gemm", "cublas", *row[2:])) for row in won)), ""
    yield (
        "beside the dense product, and a layer without entries does not count",
        pruned(*won, ("gemm", "cublas", 0.5, 128, 1.0, 1.0), ("own", "attention", 1.0, 128, 1.0, 9.0)),
        (
            "On 2 pruned matrices, in 2 of 2 combinations of method, sparsity and N a kernel of the study is "
            "faster than the fastest of cuSPARSE's CSR and COO algorithms, at most 4.00× (own, L0 "
            "regularisation, 90 %, N = 128). Dashed is cuBLAS's dense product, which also multiplies the zeros."
        ),
    )


@of("pruned_dense")
def _():
    def told(*times, **changes):
        sparse = [
            ("own", "attention", sparsity, 128, time, 1.0) for sparsity, time in zip((0.5, 0.9), times, strict=False)
        ]
        tables = pruned(*sparse, *(("gemm", "cublas", sparsity, 128, 1.0, 1.0) for sparsity in (0.5, 0.9)))
        return tables | {"cases": tables["cases"].assign(**changes)}

    yield (
        "the dense product wins at first",
        told(2.0, 0.5),
        (
            "2 pruned matrices. Against sparse kernels in FP32 the dense product in FP32 beats them all up to"
            " a sparsity of about 50.0 % at N = 128. The fastest sparse kernel takes at most 2.00× the time "
            "of a dense product (FP32, N = 128, 50.0 % sparsity)."
        ),
    )
    yield (
        "it wins on every layer",
        told(4.0, 2.0),
        (
            "2 pruned matrices. Against sparse kernels in FP32 the dense product in FP32 beats them all up to"
            " a sparsity of about 90.0 % at N = 128 (which is every layer at N = 128). The fastest sparse "
            "kernel takes at most 4.00× the time of a dense product (FP32, N = 128, 50.0 % sparsity)."
        ),
    )
    yield (
        "it never wins",
        told(1.0, 0.5),
        (
            "2 pruned matrices. Against sparse kernels in FP32 the dense product in FP32 does not win on the "
            "fullest layer at N = 128. The fastest sparse kernel takes at most 1.00× the time of a dense "
            "product (FP32, N = 128, 50.0 % sparsity)."
        ),
    )
    yield (
        "a sparse kernel adds in FP16",
        told(4.0, 2.0, precision="float16", dtype_accumulator="float16"),
        (
            "2 pruned matrices. Against sparse kernels in FP16, FP16 sums among them, the dense product in "
            "FP16 beats them all up to a sparsity of about 90.0 % at N = 128 (which is every layer at N = "
            "128). The fastest sparse kernel takes at most 4.00× the time of a dense product (FP16, N = 128, "
            "50.0 % sparsity)."
        ),
    )
    yield (
        "no sparse kernel",
        pruned(("gemm", "cublas", 0.5, 128, 1.0, 1.0), ("own", "attention", 0.9, 128, 1.0, 1.0)),
        "",
    )


def synergies(*found, ranks=(), classes=()):
    """Tables of kernels on TF32 tensor cores: kernel, study, matrix, width and speed-up over the best scalar one."""
    names = ("kernel", "study", "matrix", "n", "speedup")
    about = [dict(zip(names, row, strict=True)) for row in found]
    own = rows(*about, best_sc_gflops=100.0, synergy="low", m=1000, row_bin="below 20k")
    # Later kernels on scalar cores are four times as fast as the paper's.
    own = own.assign(best_today_gflops=400.0, speedup_today=own["speedup"] / 4)
    own["best_sc_gflops"] = own["best_sc_gflops"].where(own["speedup"].notna())
    ranked = [
        {"kernel": kernel, "n": n, "synergy": name, "matrices": count, "geomean": mean, "spearman": rank}
        for kernel, n, name, count, mean, rank in classes
    ]
    return world(own, synergy=own, synergy_classes=pd.DataFrame(ranked))


HIT, MISS = ("bricks", "cutespmm", "mesh", 128, 2.0), ("bricks", "cutespmm", "toy", 128, 0.5)


@of("scalar_cores")
def _():
    yield (
        "tensor cores win on one",
        synergies(HIT, MISS),
        (
            "At N = 128, TF32 over best_sc in FP32: bricks is faster on 1 of 2 matrices (1 "
            "real and 1 generated), at most 2.00× (mesh), and on 0 faster than the best of all today."
        ),
    )
    yield (
        "they lose",
        synergies(MISS),
        (
            "At N = 128, TF32 over best_sc in FP32: bricks is faster on 0 of 1 generated "
            "matrix, at most 0.500× (toy), and on 0 faster than the best of all today."
        ),
    )
    far = (*HIT[:-1], 8.0)
    yield (
        "tensor cores win against later kernels too",
        synergies(far, MISS),
        (
            "At N = 128, TF32 over best_sc in FP32: bricks is faster on 1 of 2 matrices (1 real and 1 generated), at "
            "most 8.00× (mesh), and on 1 faster than the best of all today."
        ),
    )
    few = ("other", "cutespmm", "mesh", 128, 9.0)
    yield (
        "a kernel of one matrix does not lead those of two",
        synergies(HIT, MISS, few),
        (
            "At N = 128, TF32 over best_sc in FP32: bricks is faster on 1 of 2 matrices (1 "
            "real and 1 generated), at most 2.00× (mesh), and on 0 faster than the best of all today."
        ),
    )
    yield "nothing to compare with", synergies((*HIT[:-1], None)), ""


@of("synergy_heatmap")
def _():
    yield (
        "tensor cores win on one",
        synergies(HIT, MISS),
        (
            "TF32 over best_sc in FP32: bricks is faster in 1 of 2 cases on 2 matrices (1 "
            "real and 1 generated), at most 2.00× (mesh, N = 128)."
        ),
    )
    yield (
        "they lose",
        synergies(MISS),
        (
            "TF32 over best_sc in FP32: bricks is faster in 0 of 1 case on 1 generated "
            "matrix, at most 0.500× (toy, N = 128)."
        ),
    )


@of("synergy")
def _():
    rank = [("bricks", 32, "all", 5, 1.0, 0.75), ("bricks", 128, "all", 5, 1.0, -0.5)]
    yield (
        "with both signs",
        synergies(HIT, MISS, classes=rank),
        (
            "On 2 matrices (1 real and 1 generated), Spearman's rank correlation of modelled intensity and "
            "rate lies between -0.50 (bricks at N = 128) and 0.75 (bricks at N = 32)."
        ),
    )
    yield (
        "one",
        synergies(HIT, classes=rank[:1]),
        ("On 1 real matrix, Spearman's rank correlation of modelled intensity and rate is 0.75 (bricks at N = 32)."),
    )
    yield (
        "none",
        synergies(HIT, classes=[("bricks", 32, "all", 5, 1.0, None)]),
        ("There is no rank correlation on 1 real matrix: fewer than five, or all of one intensity or one rate."),
    )


@of("synergy_classes")
def _():
    table = [("bricks", 32, "high", 3, 1.5, 0.5), ("bricks", 32, "low", 1, 0.5, 0.5)]
    yield (
        "the high class wins",
        synergies(HIT, classes=table),
        (
            "Highest geometric means of TF32 over best_sc in FP32: 1.50× on 3 matrices of "
            "high synergy (bricks, N = 32), 0.500× on 1 matrix of low synergy (bricks, N = 32)."
        ),
    )
    yield (
        "none wins",
        synergies(HIT, classes=table[1:]),
        ("Highest geometric means of TF32 over best_sc in FP32: 0.500× on 1 matrix of low synergy (bricks, N = 32)."),
    )
    yield (
        "nothing to compare with",
        synergies(HIT, classes=[("bricks", 32, "low", 1, None, None)]),
        ("No kernel on scalar cores ran in FP32 to compare with."),
    )


@of("preprocessing")
def _():
    def told(*found):
        names = ("kernel", "matrix", "preprocess_products", "break_even", "speedup")
        own = [dict(zip(names, row, strict=True)) for row in found]
        return world(synergy=rows(*own, n=128))

    cheap = [("bricks", matrix, 10.0, 20, 2.0) for matrix in ("a", "b", "toy-c", "toy-d")]
    dear = [("windows", matrix, 40.0, None, 0.5) for matrix in ("a", "b", "toy-c")]
    yield (
        "it pays for one kernel, and another has fewer matrices",
        told(*cheap, *dear),
        (
            "On 4 matrices (2 real and 2 generated) at N = 128 packing costs as much as 10.0 multiplications "
            "(bricks) to 40.0 multiplications (windows) in the median; against the best on scalar cores it "
            "pays on the most matrices for bricks (4 of 4). 1 of 2 kernels has a time on only some of these "
            "cases."
        ),
    )
    yield (
        "it never pays",
        told(*((*row[:3], None, 0.5) for row in cheap)),
        (
            "On 4 matrices (2 real and 2 generated) at N = 128 packing costs as much as 10.0 multiplications "
            "(bricks) in the median; against the best on scalar cores it pays on no matrix."
        ),
    )
    yield "too few matrices", told(*cheap[:3]), ""


@of("graphs")
def _():
    def told(*found):
        names = ("kernel", "matrix", "ours", "published")
        own = pd.DataFrame([dict(zip(names, row, strict=True)) for row in found])
        return world(published=own.assign(study="cutespmm", quantity="over_best_sc", n=32))

    yield (
        "above the paper",
        told(("bricks", "cora", 2.0, 1.0), ("bricks", "ppi", 2.0, 1.0)),
        (
            "Over the best on scalar cores, in the geometric mean of the cases that the paper's tables have "
            "too: bricks reaches 2.00× here and 1.00× in the paper (2 cases on 2 real matrices)."
        ),
    )
    yield (
        "below it, where not all was measured",
        told(("bricks", "cora", 0.5, 1.0), ("bricks", "ppi", None, 9.0)),
        (
            "Over the best on scalar cores, in the geometric mean of the cases that the paper's tables have "
            "too: bricks reaches 0.500× here and 1.00× in the paper (1 case on 1 real matrix)."
        ),
    )
    yield "nothing was measured", told(("bricks", "ppi", None, 9.0)), ""


@of("squares")
def _():
    def told(*found, **published):
        about = {"tiles": "gemm24", "narrow": "gemm24", "lt": "cusparselt"}
        own = [
            {"kernel": kernel, "family": kernel, "study": about[kernel], "time_ms": time}
            | {"m": size, "n": size, "k": size}
            | (NARROW if kernel == "narrow" else HALF)
            for kernel, size, time in found
        ]
        post = {"quantity": "over_cusparselt", "kernel": "tiles", "published": 0.5}
        posts = pd.DataFrame([post | published] if published else [], columns=[*post, "n"])
        return world(rows(*own), published=posts)

    yield (
        "ours wins, and the post has no such square",
        told(("tiles", 1000, 1.0), ("lt", 1000, 2.0), n=500),
        (
            "At 1,000 in FP16 tiles is the fastest, at 2.00 TFLOP/s counting 2·M·N·K, which is 2.00× the rate"
            " of lt. Another kernel is faster than lt on 1 of 1 square that both ran."
        ),
    )
    yield (
        "the library wins and is not compared with itself",
        told(("tiles", 1000, 2.0), ("lt", 1000, 1.0), n=1000),
        (
            "At 1,000 in FP16 lt is the fastest, at 2.00 TFLOP/s counting 2·M·N·K; tiles, the fastest other, "
            "reaches 0.500× the rate of lt. Another kernel is faster than lt on 0 of 1 square that both ran. The "
            "dashes beside bars are the post's own ratios, on its GPU."
        ),
    )
    yield (
        "a tie, with sums in FP16",
        told(("narrow", 1000, 1.0), ("lt", 1000, 1.0), ("lt", 500, 1.0)),
        (
            "At 1,000 in FP16 lt and narrow (FP16 sums) are the fastest, at 2.00 TFLOP/s counting 2·M·N·K. "
            "Another kernel is faster than lt on 0 of 1 square that both ran."
        ),
    )
    yield (
        "no library",
        told(("tiles", 1000, 1.0)),
        ("At 1,000 in FP16 tiles is the fastest, at 2.00 TFLOP/s counting 2·M·N·K."),
    )
    yield "the library alone", told(("lt", 1000, 1.0)), ""


def bound(*found, l2=60_000_000, kind="diagonal", limit=1.375):
    """Tables of vectors in float64: kernel, matrix, bytes and time; kernels whose names end in ``tc`` have limits."""
    names = ("kernel", "matrix", "compulsory_bytes", "time_ms")
    about = {"study": "memory_bound", "precision": "float64", "n": 1, "kind": kind}
    cases = rows(*(dict(zip(names, row, strict=True)) for row in found), **about)
    tensor = cases["kernel"].str.endswith("tc")
    cuda = cases[~tensor].groupby("matrix")["time_ms"].min()
    own = cases[tensor]
    gain = own["matrix"].map(cuda) / own["time_ms"]
    bounds = own.assign(gain=gain, gain_limit=1.25)[["study", "kernel", "matrix", "n", "gain", "gain_limit"]]
    workloads = pd.DataFrame({"unit_limit": [limit, limit]})
    devices = pd.DataFrame({"l2_bytes": [l2]}, dtype="Int64")
    return world(cases, bounds=bounds, devices=devices, workloads=workloads)


@of("scale")
def _():
    def told(*ratios, **device):
        sizes = (10**6, 2 * 10**6, 10**9)
        both = [
            [("scale_cc", f"toy-{size}", size, 1.0), ("scale_tc", f"toy-{size}", size, ratio)]
            for size, ratio in zip(sizes, ratios, strict=True)
        ]
        return bound(*(row for pair in both for row in pair), **device)

    yield (
        "CUDA cores win inside",
        told(2.0, 2.0, 1.0),
        (
            "On 3 generated matrices CUDA cores reach 2.00× the rate of tensor cores where L2 holds x and y and "
            "1.00× beyond it (L2 holds 60.0 MB), in the geometric mean; at the largest size scale_cc moves "
            "1.00 TB/s. Tensor cores gain nothing on any size, where arithmetic allows at most 25 %."
        ),
    )
    yield (
        "tensor cores win",
        told(0.5, 0.5, 0.5),
        (
            "On 3 generated matrices CUDA cores reach 0.500× the rate of tensor cores where L2 holds x and y and "
            "0.500× beyond it (L2 holds 60.0 MB), in the geometric mean; at the largest size scale_tc moves "
            "2.00 TB/s. Tensor cores gain at most 100 %, where arithmetic allows at most 25 %."
        ),
    )
    yield (
        "nobody knows how large L2 is",
        told(2.0, 2.0, 2.0, l2=None),
        (
            "On 3 generated matrices CUDA cores reach 2.00× the rate of tensor cores over all sizes, in the "
            "geometric mean; at the largest size scale_cc moves 1.00 TB/s. Tensor cores gain nothing on any "
            "size, where arithmetic allows at most 25 %."
        ),
    )


@of("spmv")
def _():
    def told(*found, **device):
        tables = bound(*(row[:-1] for row in found), kind="mesh", **device)
        return tables | {"cases": tables["cases"].assign(speedup=[row[-1] for row in found])}

    won = ("dasp_tc", "mesh", 10**6, 0.5, 2.0), ("csr_cc", "mesh", 10**6, 1.0, 1.0)
    yield (
        "tensor cores win",
        told(*won),
        (
            "Geometric mean of the rate of the fastest on CUDA cores, cuSPARSE among them, over that of "
            "dasp_tc, on tensor cores: 0.500× on 1 real matrix inside L2. Tensor cores are faster on 1 of 1 "
            "matrix, at most 2.00× (mesh); 1 matrix passes the limit of 1.38×."
        ),
    )
    lost = ("dasp_tc", "toy", 10**9, 2.0, 0.5), ("csr_cc", "toy", 10**9, 1.0, 1.0)
    yield (
        "they lose beyond L2",
        told(*won, *lost),
        (
            "Geometric mean of the rate of the fastest on CUDA cores, cuSPARSE among them, over that of "
            "dasp_tc, on tensor cores: 0.500× on 1 real matrix inside L2 and 2.00× on 1 generated matrix "
            "beyond L2. Tensor cores are faster on 1 of 2 matrices, at most 2.00× (mesh); 1 matrix passes the "
            "limit of 1.38×."
        ),
    )
    other = ("other_tc", "mesh", 10**6, 0.25, 4.0)
    yield (
        "of two kernels on tensor cores the faster counts, and L2 and the limit are unknown",
        told(*won, other, l2=None, limit=None),
        (
            "Geometric mean of the rate of the fastest on CUDA cores, cuSPARSE among them, over that of "
            "other_tc, on tensor cores: 0.250× on 1 real matrix. Tensor cores are faster on 1 of 1 matrix, at "
            "most 4.00× (mesh)."
        ),
    )
    yield "no baseline", told(*((*row[:-1], None) for row in won)), ""


@of("stencils")
def _():
    def told(**times):
        found = [(kernel, "toy", 1, time) for kernel, time in times.items()]
        tables = bound(*found, kind="grid")
        swap = {"matrix": {"toy": "2d5pt-100"}}
        known = pd.DataFrame({"matrix": ["2d5pt-100"], "source": ["generated"]})
        own = {name: table.replace(swap) for name, table in tables.items()}
        return own | {"cases": own["cases"].assign(m=10**6), "matrices": known}

    yield (
        "tensor cores win",
        told(stencil_cc=0.2, stencil_tc=0.1),
        (
            "Tensor cores are faster than the fastest on CUDA cores on 1 of 1 generated matrix, and reach "
            "2.00× its rate. Highest rate: 10.0 GStencil/s by stencil_tc on 2d5pt-100."
        ),
    )
    yield (
        "they lose",
        told(stencil_cc=0.1, stencil_tc=0.2),
        (
            "Tensor cores are faster than the fastest on CUDA cores on 0 of 1 generated matrix, and reach "
            "0.500× its rate. Highest rate: 10.0 GStencil/s by stencil_cc on 2d5pt-100."
        ),
    )
    yield "they did not run", told(stencil_cc=0.1), ("Highest rate: 10.0 GStencil/s by stencil_cc on 2d5pt-100.")


@of("bounds")
def _():
    def told(*found):
        names = ("kernel", "matrix", "gain", "gain_limit", "verdict", "rival")
        own = [dict(zip(names, (*row, *["rows"] * (6 - len(row))), strict=True)) for row in found]
        gemm = {"kernel": "gemm", "study": "cublas"}
        return world(rows({"kernel": "narrow"} | NARROW, {"kernel": "rows"}, gemm), bounds=rows(*own))

    within, beyond = ("mma", "mesh", 1.2, 1.5, "within_limit"), ("narrow", "toy", 3.0, 1.5, "not_profiled")
    unknown = ("mma", "toy", None, 1.5, "")
    yield (
        "within and beyond",
        told(within, within, beyond, unknown),
        (
            "Of 3 cases on 2 matrices (1 real and 1 generated), 2 keep the limit and 3 gain at all; the "
            "highest speed over CUDA cores is 3.00× (narrow (FP16 sums) on toy, N = 32), where the limit is "
            "1.50×."
        ),
    )
    yield (
        "no gain",
        told(("mma", "mesh", 0.5, 1.5, "within_limit")),
        (
            "Of 1 case on 1 real matrix, 1 keeps the limit and 0 gain at all; the highest speed over CUDA "
            "cores is 0.500× (mma on mesh, N = 32), where the limit is 1.50×."
        ),
    )
    yield "nothing to compare with", told(unknown), ""
    yield "a dense library is no rival on CUDA cores", told((*within, "gemm")), ""


@of("traffic")
def _():
    def told(*found):
        names = ("kernel", "matrix", "cache_over_compulsory", "cache_gb_per_s")
        own = [dict(zip(names, row, strict=True)) | {"dram_over_compulsory": 1.0} for row in found]
        return world(rows({"kernel": "narrow"} | NARROW), counters=rows(*own))

    a, b = ("rows", "mesh", 2.0, 500.0), ("narrow", "mesh", 8.0, 900.0)
    yield (
        "two kernels on the same case",
        told(a, b),
        (
            "2 kernels on 1 real matrix: in the median narrow (FP16 sums) takes 8.00× the compulsory bytes "
            "through L2, the most, and rows 2.00×, the least; the highest rate through L2 is 900 GB/s, by "
            "narrow (FP16 sums) on mesh at N = 32."
        ),
    )
    yield (
        "one has a matrix more",
        told(a, b, ("rows", "toy", 4.0, 500.0)),
        (
            "2 kernels on 2 matrices (1 real and 1 generated): in the median narrow (FP16 sums) takes 8.00× "
            "the compulsory bytes through L2, the most, and rows 3.00×, the least; the highest rate through "
            "L2 is 900 GB/s, by narrow (FP16 sums) on mesh at N = 32. 1 of 2 kernels was profiled on only "
            "some of these cases."
        ),
    )
    yield (
        "one kernel",
        told(a),
        (
            "1 kernel on 1 real matrix: in the median rows takes 2.00× the compulsory bytes through L2; the "
            "highest rate through L2 is 500 GB/s, by rows on mesh at N = 32."
        ),
    )


@of("between")
def _():
    def told(*found):
        names = ("suite", "cases", "speedup", "bound_fraction", "other_bound_fraction")
        about = {"device": "a100", "other": "h200", "kernel": "", "l2": "cold"}
        return world(between=pd.DataFrame([about | dict(zip(names, row, strict=True)) for row in found]))

    yield (
        "two suites, of which the larger says how near the limits are",
        told(("small", 3, 2.0, 0.1, 0.2), ("large", 9, 1.25, 0.3, 0.4), ("", 12, 1.4, 0.2, 0.3)),
        (
            "h200 is 2.00× as fast as a100 in the suite small (cold L2), the most of 2 rows, and 1.25× in large, the "
            "least; on the most cases, those of large, kernels reach 30 % of their limit on a100 and 40 % on h200."
        ),
    )
    yield (
        "one suite, on which the other device is slower and no limit is known",
        told(("small", 3, 0.5, float("nan"), float("nan"))),
        "h200 is 0.500× as fast as a100 in the suite small (cold L2).",
    )


@of("swapped")
def _():
    def told(*found):
        names = ("kernel", "other_kernel", "loss", "other_loss")
        about = {"device": "a100", "other": "h200", "precision": "float16"}
        return world(swapped=pd.DataFrame([about | dict(zip(names, row, strict=True)) for row in found]))

    yield (
        "a choice that costs on one device only",
        told(("rows", "rows", 0.0, 0.0), ("rows", "tiles", 0.5, 0.01)),
        (
            "On a100, the fastest kernel of h200 is another one on 1 of 2 cases and costs more than 3.0 % on 1, at "
            "worst 50 %. On h200, the fastest kernel of a100 is another one on 1 of 2 cases and costs more than 3.0 % "
            "on 0, at worst 1.0 %."
        ),
    )
    yield (
        "devices that agree",
        told(("rows", "rows", 0.0, 0.0)),
        (
            "On a100, the fastest kernel of h200 is another one on 0 of 1 case and costs more than 3.0 % on 0, at "
            "worst 0 %. On h200, the fastest kernel of a100 is another one on 0 of 1 case and costs more than 3.0 % on "
            "0, at worst 0 %."
        ),
    )


@of("selector")
def _():
    def told(*found):
        names = ("matrix", "held_out", "kernel", "fastest", "regret", "tried_regret")
        own = [{"precision": "float16"} | dict(zip(names, row, strict=False)) | dict(*row[6:]) for row in found]
        return world(rows({"kernel": "narrow"} | NARROW), selector=rows(*own))

    meant = "Regret is the extra time of the chosen kernel relative to the fastest candidate. "
    tried = "Running the three candidates with the shortest predicted times once leaves "
    right = ("mesh", "matrix", "rows", "rows", 0.0, 0.0)
    wrong = ("toy", "matrix", "rows", "narrow", 0.5, 0.0)
    yield (
        "one wrong choice with its matrix held out",
        told(right, wrong),
        meant
        + (
            "With each matrix held out, on 2 cases of 2 matrices (1 real and 1 generated), its geometric mean is "
            "22 % in FP16 (0 % on 1 case of real matrices), at most 50 %; it is below 20 % in 1 of 2. "
        )
        + tried
        + (
            "0 % over all precisions, with each matrix held out. The worst choice is rows instead of narrow (FP16 "
            "sums) on toy at N = 32 in FP16, each matrix held out."
        ),
    )
    # Times of 4, 1 and 2 times the fastest: a geometric mean of 2, and of 2 on the one real matrix.
    far = [
        (matrix, "kind", "rows", "narrow", regret, 9.0) for matrix, regret in (("toy", 3.0), ("0d", 0.0), ("mesh", 1.0))
    ]
    yield (
        "worse with its kind held out, which does not enter what three tries leave",
        told(right, wrong, *far),
        meant
        + (
            "With each matrix held out, on 2 cases of 2 matrices (1 real and 1 generated), its geometric mean is "
            "22 % in FP16 (0 % on 1 case of real matrices), at most 50 %; it is below 20 % in 1 of 2. With every "
            "matrix of its kind held out, on 3 cases of 3 matrices (1 real and 2 generated), its geometric mean is "
            "100 % in FP16 (100 % on 1 case of real matrices), at most 300 %; it is below 20 % in 1 of 3. "
        )
        + tried
        + (
            "0 % over all precisions, with each matrix held out. The worst choice is rows instead of narrow (FP16 "
            "sums) on toy at N = 32 in FP16, every matrix of its kind held out."
        ),
    )
    single = {"precision": "float32"}
    yield (
        "a precision at a time, and better with its kind held out",
        told(wrong, (*right, single), ("mesh", "kind", "rows", "rows", 0.1, 0.0, single)),
        meant
        + (
            "With each matrix held out, on 2 cases of 2 matrices (1 real and 1 generated), its geometric mean is "
            "50 % in FP16, at most 50 %; 0 % in FP32, at most 0 %; it is below 20 % in 1 of 2. With every matrix of "
            "its kind held out, on 1 case of 1 real matrix, its geometric mean is 10 % in FP32, at most 10 %; it is "
            "below 20 % in 1 of 1. "
        )
        + tried
        + (
            "0 % over all precisions, with each matrix held out. The worst choice is rows instead of narrow (FP16 "
            "sums) on toy at N = 32 in FP16, each matrix held out."
        ),
    )
    yield (
        "none",
        told(right),
        meant
        + (
            "With each matrix held out, on 1 case of 1 real matrix, its geometric mean is 0 % in FP16, at most 0 %; it "
            "is below 20 % in 1 of 1. "
        )
        + tried
        + "0 % over all precisions, with each matrix held out. The chosen kernel is the fastest candidate everywhere.",
    )
    yield "no matrix held out alone", told(*far), ""


def profiles(**kernels):
    """Table ``performance`` of four cases in FP16: kernel → study, share of the fastest, share within twice."""
    found = [
        {"kernel": kernel, "study": study, "tau": tau, "share_fraction": share}
        for kernel, (study, *shares) in kernels.items()
        for tau, share in zip((1.0, 2.0), shares, strict=True)
    ]
    return pd.DataFrame(found).assign(precision_class="float16", cases=4, matrices=2)


def side_by_side(*found, precision="float16"):
    """Table ``together``: kernel, study, matrix, speed-up, break-even."""
    names = ("kernel", "study", "matrix", "speedup", "break_even")
    own = rows(*(dict(zip(names, row, strict=True)) for row in found), preprocess_products=5.0, shared=True)
    return own.assign(precision_class=precision, break_even=own["break_even"].astype("Int64"))


@of("performance")
def _():
    both = side_by_side(("mma", "sptc", "toy-a", 2.0, 1), ("mma", "sptc", "toy-b", 2.0, 1))
    narrow = rows({"kernel": "mma"} | NARROW)
    ours = profiles(mma=("sptc", 0.75, 1.0), lib=("cusparse", 0.25, 0.5))
    yield (
        "one kernel leads on toys",
        world(narrow, performance=ours, together=both),
        (
            "In FP16, on 4 cases of 2 generated matrices, mma (FP16 sums) is most often the fastest, in 3, "
            "and is most often within twice the least time, in 4."
        ),
    )
    lib = profiles(mma=("sptc", 0.25, 0.75), lib=("cusparse", 0.75, 0.5))
    asked = pd.concat([both, side_by_side(("gemm", "cublas", "mesh", 1.0, None)).assign(shared=False)])
    yield (
        "the library leads, and a study is not there",
        world(narrow, performance=lib, together=asked),
        (
            "In FP16, on 4 cases of 2 generated matrices, lib is most often the fastest, in 3, and mma (FP16 "
            "sums) is most often within twice the least time, in 3. Kernels of cublas were asked for fewer "
            "than half of these cases."
        ),
    )
    tie = profiles(mma=("sptc", 0.5, 1.0), lib=("cusparse", 0.5, 1.0))
    yield (
        "a tie",
        world(narrow, performance=tie, together=both),
        (
            "In FP16, on 4 cases of 2 generated matrices, lib and mma (FP16 sums) are each most often the "
            "fastest, in 2, and are most often within twice the least time, in 4."
        ),
    )


@of("speedup_heatmap")
def _():
    def told(*found, **cases):
        return world(rows({"kernel": "mma"} | cases), together=side_by_side(*found))

    study = [("mma", "sptc", "mesh", 2.0, 1), ("mma", "sptc", "toy", 0.5, None)]
    ours = [("window", "flagship", "mesh", 4.0, 1), ("window", "flagship", "toy", 2.0, 1)]
    yield (
        "a study wins on one, the project on both",
        told(*study, *ours, **NARROW),
        (
            "In FP16 a kernel of the published studies is faster than cuSPARSE on 1 of 2 matrices (1 real and"
            " 1 generated) and a kernel of this project is faster than cuSPARSE on 2 of 2 matrices (1 real "
            "and 1 generated); the highest mean is 4.00× by window on mesh."
        ),
    )
    yield (
        "a study alone loses",
        told(*((*row[:3], 0.5, None) for row in study), **NARROW),
        (
            "In FP16 a kernel of the published studies is faster than cuSPARSE on 0 of 2 matrices (1 real and"
            " 1 generated); the highest mean is 0.500× by mma (FP16 sums) on toy."
        ),
    )
    yield (
        "the project alone",
        told(*ours),
        (
            "In FP16 a kernel of this project is faster than cuSPARSE on 2 of 2 matrices (1 real and 1 "
            "generated); the highest mean is 4.00× by window on mesh."
        ),
    )
    gemm = [("gemm", "cublas", matrix, 9.0, 1) for matrix in ("mesh", "toy")]
    missing = ("mma", "sptc", "graph", None, None)
    yield (
        "neither a library nor a case without a baseline counts",
        told(*study, *gemm, missing),
        (
            "In FP16 a kernel of the published studies is faster than cuSPARSE on 1 of 2 matrices (1 real and"
            " 1 generated); the highest mean is 2.00× by mma on mesh."
        ),
    )
    yield "libraries alone", told(*gemm), ""


@of("break_even")
def _():
    def told(*found):
        return world(rows({"kernel": "mma"} | NARROW), together=side_by_side(*found))

    matrices = ("a", "b", "c", "toy")
    yield (
        "one catches up",
        told(
            *(("mma", "sptc", name, 2.0, 50) for name in matrices),
            *(("rows", "scalar", name, 0.5, None) for name in matrices),
            ("one", "scalar", "a", 9.0, 1),
        ),
        (
            "In FP16, on 4 cases of 4 matrices (3 real and 1 generated) that 2 kernels all have, mma (FP16 "
            "sums) has most often caught up with cuSPARSE after 100 multiplications, in 4; preprocessing "
            "takes as long as 5.0 multiplications at most (rows, median of its cases)."
        ),
    )
    yield (
        "none does",
        told(*(("mma", "sptc", name, 0.5, None) for name in matrices)),
        (
            "In FP16, on 4 cases of 4 matrices (3 real and 1 generated) that 1 kernel has, no kernel has "
            "caught up with cuSPARSE after 100 multiplications; preprocessing takes as long as 5.0 "
            "multiplications at most (mma (FP16 sums), median of its cases)."
        ),
    )
    yield (
        "too late is not caught up",
        told(*(("mma", "sptc", name, 1.01, 5000) for name in matrices)),
        (
            "In FP16, on 4 cases of 4 matrices (3 real and 1 generated) that 1 kernel has, no kernel has "
            "caught up with cuSPARSE after 100 multiplications; preprocessing takes as long as 5.0 "
            "multiplications at most (mma (FP16 sums), median of its cases)."
        ),
    )
    yield (
        "a tie",
        told(*((kernel, "scalar", name, 2.0, 0) for kernel in ("x", "y") for name in matrices)),
        (
            "In FP16, on 4 cases of 4 matrices (3 real and 1 generated) that 2 kernels all have, x and y have"
            " most often caught up with cuSPARSE after 100 multiplications, in 4; preprocessing takes as long"
            " as 5.0 multiplications at most (y, median of its cases)."
        ),
    )
    apart = [(kernel, "scalar", name, 2.0, 0) for kernel, own in (("x", "ab"), ("y", "cd")) for name in own]
    yield (
        "no case in common",
        told(*apart),
        (
            "In FP16, no case on 4 real matrices has a time of all kernels; preprocessing takes as long as "
            "5.0 multiplications at most (y, median of its cases)."
        ),
    )


@of("paper_counters")
def counters_of_a_paper():
    common = {"study": "attention", "source": "section 5.3.2", "matrix": "pruned-l0_regularization-0.5-q", "n": 4096}
    excess = {"quantity": "excess_sectors_fraction", "comparable": True, "published": 0.87}
    cycles = {"quantity": "cycles_per_instruction", "comparable": False, "published": 533.54, "ours": 200.0}
    sparser = cycles | {"matrix": "pruned-l0_regularization-0.98-q", "published": 28.72, "ours": 20.0}

    def told(*found):
        return world(paper_counters=pd.DataFrame([common | {"kernel": "rows"} | row for row in found]))

    yield (
        "it agrees",
        told(excess | {"ours": 0.86}),
        (
            "Of 1 counter that the thesis prints and we counted too, 1 should not depend on the GPU; 1 of these "
            "differs by less than 10 %. Farthest apart are the excess sectors of rows: 86 % here, 87 % in the thesis."
        ),
    )
    yield (
        "it differs",
        told(excess | {"ours": 0.4}, cycles | {"kernel": "tiles"}),
        (
            "Of 2 counters that the thesis prints and we counted too, 1 should not depend on the GPU; 0 of these "
            "differ by less than 10 %. Farthest apart are the excess sectors of rows: 40 % here, 87 % in the thesis."
        ),
    )
    yield (
        "only what depends on the GPU",
        told(cycles, sparser),
        (
            "Of 2 counters that the thesis prints and we counted too, none is independent of the GPU. A warp of rows "
            "takes 200 cycles for an instruction at 50 % sparsity and 20.0 at 98 %, in the thesis 534 and 28.7."
        ),
    )
    yield "we counted nothing", told(excess | {"ours": float("nan")}), ""


#: A kernel and the one below it, which execute the same.
COUNTED = {
    **{"instructions": 4000.0, "global_loads": 400.0, "shared_loads": 200.0, "shared_load_wavefronts": 600.0},
    **{"cycles_per_instruction": 10.0, "branch_warps": 0.5, "memory_warps": 4.0},
}
PAIR = {
    **{"study": "sptc", "kernel": "wide", "below": "narrow", "matrix": "10d", "n": 64, "products": 100.0},
    **{"tile_k": 32, "below_tile_k": 16, "loads_alike": True, "all_dense": True, "speedup": 2.0},
    **COUNTED,
    **{f"below_{name}": value for name, value in COUNTED.items()},
}


def pairs(*changes):
    ladder = pd.DataFrame({"kernel": ["wide"], "after": ["narrow"]})
    return world(rungs=pd.DataFrame([PAIR | changed for changed in changes]), ladder=ladder)


@of("wide_tiles")
def wider_tiles():
    start = (
        "On 1 generated matrix of dense tiles, in 1 case, wide is 2.00× as fast as narrow. For a product of 16×16 by "
        "16×8 it executes "
    )
    waits = "A warp waits {} cycles for global memory for a product instead of 160."
    yield (
        "wider loads",
        pairs({"shared_loads": 100.0, "instructions": 3900.0}),
        (
            f"{start}1.00 loads from shared memory instead of 2.00, with 6.00 wavefronts instead of 6.00: wider loads, "
            "each with 2.00× the wavefronts, as the thesis suspects. Of 40.0 instructions it saves 1.00, 100 % of them "
            f"loads from shared memory. {waits.format(156)}"
        ),
    )
    yield (
        "no wider loads",
        pairs({"instructions": 3000.0, "global_loads": 300.0, "memory_warps": 2.0}),
        (
            f"{start}2.00 loads from shared memory instead of 2.00, with 6.00 wavefronts instead of 6.00: no fewer "
            "loads, so that no wider load explains the gain. Of 40.0 instructions it saves 10.0, 90 % of them other "
            f"instructions: the tests, addresses and branches of the loop. {waits.format('60.0')}"
        ),
    )
    yield (
        "nothing saved",
        pairs({"instructions": 5000.0}),
        (
            f"{start}2.00 loads from shared memory instead of 2.00, with 6.00 wavefronts instead of 6.00: no fewer "
            "loads, so that no wider load explains the gain. It saves no instructions (50.0 instead of 40.0). "
            f"{waits.format(200)}"
        ),
    )
    yield "tiles that are 2:4", pairs({"all_dense": False}), ""


@of("branch_stall")
def branches_of_the_loop():
    apart = {"kernel": "narrow_separate", "tile_k": 16}
    same = (
        "On 1 generated matrix, in the median of 1 case, narrow spends 5.0 % of its warps' cycles resolving branches "
        "(5.0 %) and 40 % waiting for global memory. narrow_separate spends "
    )
    yield (
        "fewer branches",
        pairs(apart | {"branch_warps": 0.25, "cycles_per_instruction": 8.0}),
        f"{same}2.5 % and 40 % of the same cycles, 80 % in all, and is 2.00× as fast (2.00×).",
    )
    yield (
        "more waiting",
        pairs(apart | {"memory_warps": 6.0, "cycles_per_instruction": 12.0, "speedup": 0.5}),
        f"{same}5.0 % and 60 % of the same cycles, 120 % in all, and is 0.500× as fast (0.500×).",
    )
    yield "no kernel without the branch", pairs({}), ""


#: Rows of blocks of transformers.
PRUNED = {
    **{
        "suite": "pruned",
        "block": "pruned",
        "implementation": "ours",
        "kernel": "staged_f16",
        "dtype": "float16",
        "precision_class": "float16",
    },
    **{"pattern": "q-0.9", "sparsity_fraction": 0.9, "batch": 1, "sequence": 1024, "head_width": 64},
    **{"kernel": "window_f16", "time_ms": 1.0, "projections_ms": 0.5, "over_baseline": 0.8},
}
MASKED = {
    **{"suite": "masks", "block": "masked", "dtype": "float16", "pattern": "window 512", "batch": 1, "sequence": 4096},
    **{"head_width": 64, "padding": float("nan"), "bound_ms": 0.1, "bound_fraction": float("nan")},
}


def blocks(common, *changes):
    return world(blocks=pd.DataFrame([common | changed for changed in changes]))


@of("pruned_block")
def pruned_layers():
    longer = {"sequence": 16_384, "time_ms": 10.0, "over_baseline": 1.25}
    yield (
        "it pays on short sequences",
        blocks(PRUNED, {}, longer),
        (
            "Pruning pays in 1 of 2 cases: FP16 from 90 % sparsity on. At best the sparse layer takes 0.800× the time "
            "of the dense one, at 90 % sparsity, FP16, batch 1 and length 1,024. At length 16,384 the projections take "
            "5.0 % of the sparse layer in the median."
        ),
    )
    yield (
        "it never pays",
        blocks(PRUNED, longer),
        ("Pruning pays in 0 of 1 case. At length 16,384 the projections take 5.0 % of the sparse layer in the median."),
    )
    yield (
        "the best layer is dense",
        blocks(PRUNED, {}, {"kernel": "cublaslt_gemm_f16", "over_baseline": 0.7}),
        (
            "Pruning pays in 1 of 2 cases: FP16 from 90 % sparsity on. At best the sparse layer takes 0.800× the time "
            "of the dense one, at 90 % sparsity, FP16, batch 1 and length 1,024. In 1 SpMM takes the dense product, "
            "and the same work, measured again, takes 0.700× the time. At length 1,024 the projections take 50 % of "
            "the sparse layer in the median."
        ),
    )
    yield "no dense layer beside it", blocks(PRUNED, {"over_baseline": float("nan")}), ""


@of("masked_block")
def masks_of_attention():
    ours = {"implementation": "ours", "time_ms": 0.5, "bound_fraction": 0.2, "padding": 1.5}
    masked, whole = {"implementation": "sdpa_mask", "time_ms": 2.0}, {"implementation": "flash", "time_ms": 1.0}
    yield (
        "faster than both",
        blocks(MASKED, ours, masked, whole),
        (
            "FP16, heads of 64: our masked attention is 4.00× as fast as SDPA with the mask in the geometric mean of "
            "1 case (faster in 1; 4.00× on window 512 at 4,096) and 2.00× as fast as SDPA without it in the geometric "
            "mean of 1 case (faster in 1; 2.00× on window 512 at 4,096). It reaches 20 % of the bound in the median, "
            "and computes 1.50× the scores that the mask holds."
        ),
    )
    yield (
        "slower than attention to everything",
        blocks(MASKED, ours | {"bound_fraction": float("nan")}, whole | {"time_ms": 0.25}),
        (
            "FP16, heads of 64: our masked attention is 0.500× as fast as SDPA without it in the geometric mean of "
            "1 case (faster in 0; 0.500× on window 512 at 4,096)."
        ),
    )
    yield "nothing beside it", blocks(MASKED, ours), ""


def cells(grid):
    """A matrix of the user with a grid of non-zeros: a digit is the number of bits of a cell's count."""
    return world(matrices=pd.DataFrame([{"matrix": "mine", "m": 30, "k": 30, "occupancy": grid}]))


@of("spy")
def spies():
    yield (
        "a diagonal",
        cells("100/020/003"),
        "3 of 9 cells hold a non-zero; 100 % of these lie within a twentieth of the diagonal.",
    )
    yield (
        "half of it elsewhere",
        cells("101/020/303"),
        "5 of 9 cells hold a non-zero; 60 % of these lie within a twentieth of the diagonal.",
    )
    yield "no non-zero", cells("00/00"), "0 of 4 cells hold a non-zero."
    yield "a grid operator", cells(float("nan")), ""


KINDS = {kind.name: kind for kind in figures.kinds()}


@pytest.fixture(autouse=True)
def few_matrices(monkeypatch):
    """Distributions over one matrix: what is said of them is what counts here."""
    monkeypatch.setattr(rivals, "LEAST_MATRICES", 1)


@pytest.mark.parametrize("figure, why, tables, said", WORLDS, ids=[f"{name}: {why}" for name, why, *_ in WORLDS])
def test_a_sentence_follows_from_the_rows(figure, why, tables, said):
    assert KINDS[figure].says(tables) == said


@pytest.mark.parametrize("figure", sorted(KINDS))
def test_every_figure_has_its_sentence_tested(figure):
    own = {said for name, _, _, said in WORLDS if name == figure and said}
    assert len(own) > 1, f"the sentence of figures/{figure}.py needs a table on which the opposite is true"


@pytest.fixture(scope="module")
def nothing():
    return {
        name: contracts.frame([], contract).assign(case=pd.Series(dtype="int64"))
        for name, contract in analysis.tables().items()
    }


@pytest.mark.parametrize("figure", sorted(KINDS))
def test_without_rows_nothing_is_drawn_or_said(figure, nothing):
    assert KINDS[figure].draw(nothing, {}) is None
    assert KINDS[figure].says(nothing) == ""
