"""Time the kernels that `SpMM` may take on generated matrices: what its costs are fitted to, or judged by.

    python benchmarks/choices.py --seed 1 --matrices 201 --write fitted.csv
    python benchmarks/choices.py --seed 3 --matrices 77 --write more.csv \\
        --families long,mesh2d,uniform,long,powerlaw,banded
    python benchmarks/choices.py --seed 2 --matrices 36 --write third.csv
    python benchmarks/choices.py --seed 6 --matrices 163 --write fourth.csv
    python benchmarks/choices.py --seed 7 --matrices 107 --write fifth.csv
    python benchmarks/choices.py --seed 8 --matrices 308 --write sixth.csv
    python benchmarks/choices.py --seed 9 --matrices 265 --write seventh.csv
    python benchmarks/choices.py --seed 10 --matrices 224 --write eighth.csv \\
        --families long,uniform,rmat,powerlaw,long,fem3d,banded,pruned
    python benchmarks/choices.py --seed 11 --matrices 236 --write ninth.csv \\
        --families long,uniform,rmat,powerlaw,mesh2d,fem3d,banded,pruned
    python benchmarks/choices.py --seed 5 --matrices 200 --kernels 'cublaslt*' --write dense.csv \\
        --families pruned,long,uniform,long
    python benchmarks/choices.py --seed 4 --matrices 31 --rivals --write judged.csv
    python benchmarks/choices.py --files folder --rivals --write files.csv
    python benchmarks/regret.py --times judged.csv --device h100
    python benchmarks/choices.py --sampled --seed 22 --matrices 1000 --write sampled.csv \\
        --families uniform,rmat,powerlaw,mesh2d,fem3d,banded,pruned,long
    python benchmarks/choices.py --sampled --files folder --write sampled.csv
    python benchmarks/choices.py --sampled --seed 21 --matrices 400 --write judged-sampled.csv \\
        --families uniform,rmat,powerlaw,mesh2d,fem3d,banded,pruned,long

The seed draws the matrices, from every generator of general structures, with sizes and row lengths over three orders of
magnitude, and some of the widths for each of them. Times are medians with a warm L2; a product that deviates from
float64 ends the run. Kernels that multiply in another dtype by the same instructions, as BF16 does by those of FP16,
are not timed. `--rivals` adds re-creations of other projects' kernels and cuSPARSE's algorithms. `--sampled` times the
kernels of sampled products instead, in products of eight columns and more. `--files` takes the matrices of a folder.

The table is as `regret.py` reads it. It is written after each matrix, so that a run may be cut short. A table that is
there already keeps its other rows: of other matrices, and of other kernels with `--kernels`. The tables in
resources/choices hold what the first eleven commands measured on an H100, in an hour: the last one the matrices to
judge by, all others those to fit to. An H200 measured the last one, and the first 109 matrices of the first. The
twelfth measured real matrices of SuiteSparse and other collections on both: 122 to fit to, of which 46 that are not
recorded have times of rivals as well, and 45 small ones to judge by. Kernels that joined later have fewer times:
on the H100, `spread_rows_fma*` and `even_rows_fma_f64` lack 11 matrices of the first command, and `even_rows_fma_f16` 6
matrices to judge by.

The tables of sampled products are those of the last three commands on an H100. The files of the second one are 60
matrices of SuiteSparse with 100,000 to 2.2 million stored entries; where these are a triangle, the whole matrix is
there as well.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from peers import files_in, structure
from regret import FILES, costed, known
from sampled import Case, of_kernel
from scipy.sparse import csr_array, tril, triu

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.kernels import choose
from spmm_roofline.kernels.cubins import machine_code
from spmm_roofline.kernels.head import Head
from spmm_roofline.kernels.launch import Unsupported, check_case, format_options, prepare
from spmm_roofline.kernels.operands import allocate
from spmm_roofline.kernels.packers import pack, packer_of
from spmm_roofline.matrices.generated import GENERATORS
from spmm_roofline.measure.timing import Clock
from spmm_roofline.multiply.memory import dense
from spmm_roofline.multiply.sampled import Sampled
from spmm_roofline.needs import without_cupy

COLUMNS = ["group", "matrix", "m", "k", "nnz", "longest", "blocks", "panel_tiles", "dtype", "n", "kernel", "time_us"]
#: Columns that name a time.
KEY = ["matrix", "dtype", "n", "kernel"]
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 41, 48, 64, 96, 100, 128, 160, 192, 256, 300, 384, 512, 768, 1024)
#: Widths of each matrix.
WIDTHS_OF_MATRIX = 7
#: Widths of the matrices of files; of each drawn matrix in sampled products, and their narrowest.
WIDTHS_OF_FILES = [1, 8, 32, 64, 128, 256, 512]
WIDTHS_OF_SAMPLES, NARROWEST_SAMPLES = 4, 8
#: Samples of the time of a product, and ms that they may take.
REPEATS, MOST_MS = 30, 20
#: Families of matrices by default, named as their generators; there are ``long`` rows of small matrices as well.
FAMILIES = "uniform,uniform,rmat,powerlaw,mesh2d,fem3d,banded,pruned"
#: Entries of a matrix, elements of C, and multiplications of a product, at most.
MOST_ENTRIES, MOST_ELEMENTS, MOST_WORK = 6_000_000, 60_000_000, 1_500_000_000
#: Family, name and structure of a matrix, and the widths of its products.
Made = tuple[str, str, csr_array, list[int]]
#: Dtypes in which sampled products are timed.
DTYPES_OF_SAMPLES = ("float16", "tf32", "float32")
#: Largest error of an element of C, relative to the largest of |A|·|B|. Factors are exact in every dtype.
TOLERANCE = {"float16": 1e-3, "tf32": 2e-6, "float32": 2e-6, "float64": 1e-13}


def exact_values(rng: np.random.Generator, number: int) -> np.ndarray:
    """Values that every dtype holds, float32[number]."""
    return (rng.integers(8, 24, number) / 16).astype(np.float32)


def drawn(seed: int, number: int, family: str) -> Made:
    """Family, name, structure and widths of a matrix; the arguments decide all of it.

    Sizes alone decide the structure of ``fem3d`` and of an unshuffled ``mesh2d``: two seeds may draw the same one.
    """
    rng = np.random.default_rng([seed, number])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def rows(mean: float, most: float = 600_000) -> int:
        return int(between(500, min(most, MOST_ENTRIES / mean)))

    if family == "long":
        m, k = int(between(2_000, 16_000)), int(between(2_000, 16_000))
        mean = min(k * between(0.01, 0.4), MOST_ENTRIES / m)
        given = {"rows": m, "columns": k, "nnz_per_row": round(mean, 2)}
    elif family == "uniform":
        mean = between(1.2, 500)
        m = rows(mean)
        given = {"rows": m, "columns": int(max(m * between(0.2, 3), 2 * mean)), "nnz_per_row": round(mean, 2)}
    elif family == "rmat":
        scale = int(rng.integers(10, 19))
        given = {"scale": scale, "edge_factor": int(between(2, min(100, MOST_ENTRIES / 2**scale)))}
    elif family == "powerlaw":
        mean = between(2, 60)
        m = rows(mean, 300_000)
        given = {"rows": m, "columns": m, "nnz_per_row": round(mean, 2), "exponent": round(rng.uniform(2.05, 3.5), 2)}
        given |= {key: int(rng.random() < 0.25) for key in ("dense_rows", "dense_columns")}
    elif family == "mesh2d":
        given = {"nodes": int(between(30, 800)), "shuffled": bool(rng.random() < 0.4)}
    elif family == "fem3d":
        points, dofs = int(rng.choice([7, 27])), int(rng.integers(1, 7))
        most = (MOST_ENTRIES / (points * dofs**2)) ** (1 / 3)
        given = {"nodes": int(between(6, min(most, 80))), "dofs": dofs, "points": points}
    elif family == "banded":
        half = int(between(1, 200))
        given = {"rows": max(rows(2 * half + 1), 2 * half + 2), "half_width": half}
    else:
        sizes = [int(size) for size in rng.choice([256, 512, 768, 1024, 2048, 3072, 4096], 2)]
        given = {"rows": sizes[0], "columns": sizes[1], "sparsity": round(1 - between(0.005, 0.5), 4)}
    entries = GENERATORS["uniform" if family == "long" else family].make(rng, **given)
    a = csr_array((np.ones(len(entries.rows), np.float32), (entries.rows, entries.columns)), shape=entries.shape)
    a.sum_duplicates()
    a.data = exact_values(rng, a.nnz)
    fits = [n for n in WIDTHS if a.shape[0] * n <= MOST_ELEMENTS and a.nnz * n <= MOST_WORK]
    widths = sorted(map(int, rng.choice(fits, min(WIDTHS_OF_MATRIX, len(fits)), replace=False)))
    return family, f"{family}-{seed}-{number}", a, widths


def of_file(path: Path) -> list[Made]:
    """As :func:`drawn`, of a file; if it holds a triangle, of the triangle and of the symmetric matrix."""
    rng = np.random.default_rng(0)
    a, name = structure(path, rng), path.name.partition(".")[0]
    found = [(name, a)]
    if a.shape[0] == a.shape[1] and tril(a, -1).nnz and not triu(a, 1).nnz:
        found = [(f"{name}-lower", a), (name, csr_array(a + a.T))]
    for _, each in found:
        each.sort_indices()
        each.data = exact_values(rng, each.nnz)
    return [(FILES, own, each, [n for n in WIDTHS_OF_FILES if each.nnz * n <= MOST_WORK]) for own, each in found]


def samples(a: Any, widths: list[int], clock: Clock) -> Iterator[dict[str, Any]]:
    """Dtype, n, kernel and time in µs of each sampled product. ``a``: CuPy's CSR, m×k."""
    if not widths:
        return
    case = Case(a, widths)
    for dtype in DTYPES_OF_SAMPLES:
        for kernel in choose.SAMPLED[dtype]:
            sampled = Sampled(case.matrix, dtype, kernel)
            for n in widths:
                outcome = of_kernel(case, dtype, sampled, clock, n)
                yield {"dtype": dtype, "n": n, "kernel": kernel, "time_us": outcome.time_us}


def _drawn(job: tuple[int, int, str]) -> list[Made]:
    return [drawn(*job)]


def timed(a: Any, widths: list[int], clock: Clock, kernels: list[Head]) -> Iterator[dict[str, Any]]:
    """Dtype, n, kernel and time in µs of each product. ``a``: CuPy's CSR, m×k, float32."""
    import cupy

    (m, k), forms = a.shape, {}
    exact = a.astype(cupy.float64)
    for n in widths:
        suited = [head for head in kernels if not choose.is_wider(head, n)]
        if not suited:
            continue
        factors = cupy.random.default_rng().integers(-64, 65, (k, n)).astype(cupy.float64) / 64
        right = exact @ factors
        largest = float((exact @ abs(factors)).max())
        for head in suited:
            dtype = head.dtype["a"]
            if head.format == "dense" and not dense(m, k, a.nnz, dtype):
                continue
            try:
                check_case(head, m, n, k)
                key = (head.format, dtype, str(format_options(head)))
                if key not in forms:
                    form = FORMATS[head.format]
                    forms[key] = pack(form, a, dtype, format_options(head), packer_of(form))
                b, c = allocate(head, "b", k, n), allocate(head, "c", m, n)
                b.fill(factors)
                c.poison()
                call = prepare(head, None if head.vendor else machine_code(head), forms[key], b, c)
                cupy.cuda.get_current_stream().synchronize()  # the clock's stream waits for no other
                with clock.stream:
                    call(clock.stream)
                clock.stream.synchronize()
            except (Unsupported, FormatError, MemoryError):
                continue
            except RuntimeError as error:
                raise RuntimeError(f"{head.name} fails at n = {n}: {error}") from error
            error = float(abs(c.view - right).max()) / (largest or 1.0)
            if not error < TOLERANCE[dtype]:
                raise AssertionError(f"{head.name} is wrong at n = {n}: error {error:.2g}")
            time_ms = clock.time(call, cold=False, repeat_cap=REPEATS, time_cap_ms=MOST_MS).median_ms
            yield {"dtype": dtype, "n": n, "kernel": head.name, "time_us": time_ms * 1e3}


def merged(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Both tables, with the time of ``new`` where both have one; matrices in order of appearance, by width."""
    filled = [rows for rows in (old, new) if len(rows)] or [new]  # pandas warns of dtypes if it gets an empty table
    rows = pd.concat(filled, ignore_index=True).drop_duplicates(KEY, keep="last")
    place = {matrix: at for at, matrix in enumerate(dict.fromkeys([*old["matrix"], *new["matrix"]]))}
    rows = rows.assign(place=rows["matrix"].map(place)).sort_values(["place", "n"], kind="stable")
    return rows[COLUMNS].reset_index(drop=True)


def write(rows: pd.DataFrame, path: Path) -> None:
    """Write a table; one whose name ends in .gz is compressed, and equal rows give equal bytes.

    The old table stays until the new one is whole.
    """
    compressed: Any = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None
    with TemporaryDirectory(dir=path.parent) as folder:
        whole = Path(folder) / path.name  # the name goes into the compressed bytes
        rows.to_csv(whole, index=False, float_format="%.7g", compression=compressed)
        whole.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of = parser.add_mutually_exclusive_group(required=True)
    of.add_argument("--seed", type=int, help="draws the matrices; judge by one that nothing fits")
    of.add_argument("--files", type=Path, metavar="FOLDER", help="matrices of a folder and its subfolders instead")
    parser.add_argument("--matrices", type=int, default=150, help="their number")
    parser.add_argument("--families", default=FAMILIES, help="of which the matrices are drawn in turn")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no matrix after this time")
    parser.add_argument(
        "--kernels", default="*", metavar="PATTERNS", help="time these alone, such as 'narrow_fma*,rows_fma'"
    )
    parser.add_argument("--rivals", action="store_true", help="time re-creations and cuSPARSE as well")
    parser.add_argument("--sampled", action="store_true", help="time the kernels of sampled products instead")
    parser.add_argument("--write", type=Path, required=True, help="CSV for the times, also compressed (.csv.gz)")
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)

    families = options.families.split(",")
    if unknown := set(families) - {*FAMILIES.split(","), "long"}:
        parser.error(f"no family is called {', '.join(sorted(unknown))}; there are {FAMILIES} and long")

    begin = time.perf_counter()
    every = {name: head for name, head in known().items() if head.dtype["a"] in TOLERANCE}
    kernels = costed(every)
    if options.rivals:
        kernels += [head for head in every.values() if head.study != choose.GENERAL and head not in kernels]
    patterns = options.kernels.split(",")
    kernels = [head for head in kernels if any(fnmatchcase(head.name, pattern) for pattern in patterns)]
    if not kernels:
        parser.error(f"no kernel that may be chosen is called {options.kernels!r}")
    times_of = samples if options.sampled else partial(timed, kernels=kernels)
    if not options.sampled:
        with ThreadPoolExecutor() as pool:
            list(pool.map(machine_code, (head for head in kernels if not head.vendor)))
    old = pd.read_csv(options.write) if options.write.exists() else pd.DataFrame(columns=COLUMNS)
    numbers = range(options.first, options.first + options.matrices)
    jobs: list[Any] = [(options.seed, number, families[number % len(families)]) for number in numbers]
    if options.files and not (jobs := list(files_in(options.files).values())):
        parser.error(f"no matrices in {options.files}")
    rows: list[dict[str, Any]] = []
    with multiprocessing.get_context("spawn").Pool() as pool:
        import cupy
        import cupyx.scipy.sparse as sparse

        clock = Clock()
        for family, name, a, widths in chain.from_iterable(pool.imap(of_file if options.files else _drawn, jobs)):
            spent = time.perf_counter() - begin
            if spent > options.seconds:
                break
            on_device = sparse.csr_matrix(a)
            surveys = {
                form: FORMATS[form].survey(on_device, packer=packer_of(FORMATS[form]))
                for form in (choose.USUAL, choose.PANELS)
            }
            about = {
                "group": family,
                "matrix": name,
                "m": a.shape[0],
                "k": a.shape[1],
                "nnz": a.nnz,
                "longest": surveys[choose.USUAL].longest,
                "blocks": surveys[choose.USUAL].blocks,
                "panel_tiles": surveys[choose.PANELS].blocks,
            }
            if options.sampled:
                widths = [n for n in widths if n >= NARROWEST_SAMPLES]
                widths = widths if options.files else widths[:WIDTHS_OF_SAMPLES]
            rows += [about | row for row in times_of(on_device, widths, clock=clock)]
            write(merged(old, pd.DataFrame(rows, columns=COLUMNS)), options.write)
            cupy.get_default_memory_pool().free_all_blocks()
            print(f"{name}: {a.nnz:,} entries, N = {widths}, {len(rows):,} times in {spent:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
