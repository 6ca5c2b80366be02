"""The fastest general kernel of this project compared with other codes: products A·B with a warm L2.

    python benchmarks/peers.py --matrices folder
    python benchmarks/peers.py --matrices folder --times peers.csv --n 32,128,512 --write result.csv

Each general kernel, and each of `--also`, multiplies every matrix of the folder (.mtx, .npz, .smtx, also compressed) in
FP16 and in FP32 (TF32 included) through `spmm_roofline.SpMM`. A product counts if it agrees with float64. The kernel
that `SpMM` chooses is reported separately. `--times` is a table of other codes' times on the same GPU: columns peer,
dtype (fp16, bf16, tf32, fp32), matrix, n, time_ms, rel_err. Peers called cusparse* and torch* are the vendor's and are
compared separately.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from spmm_roofline import SpMM
from spmm_roofline.formats import FormatError
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.choose import GENERAL
from spmm_roofline.kernels.cubins import machine_code
from spmm_roofline.kernels.launch import Call
from spmm_roofline.matrices.file import KINDS, expand, read
from spmm_roofline.measure.timing import Clock
from spmm_roofline.needs import without_cupy

ROOT = Path(__file__).resolve().parents[1]

#: Precision of the table's dtypes and of kernels.
PRECISION = {"fp16": "FP16", "bf16": "FP16", "tf32": "FP32", "fp32": "FP32", "float16": "FP16", "float32": "FP32"}
#: Largest error of a product, relative to the largest element of A·|B|, that counts.
TOLERANCE = {"float16": 1e-3, "tf32": 1e-3, "float32": 1e-5}
KEY = ["precision", "matrix", "n"]
#: Number of times A is packed; the median counts. An earlier first time, which compiles the packers, does not.
PLANS = 5


def structure(path: Path, rng: np.random.Generator) -> csr_array:
    """The matrix of a file with random values in [0.5, 1.5)."""
    entries = read(path)
    a = csr_array((np.ones(len(entries.rows)), (entries.rows, entries.columns)), shape=entries.shape)
    a.sum_duplicates()
    a.data = rng.random(a.nnz) + 0.5
    return a


def files_in(folder: Path) -> dict[str, Path]:
    """Matrix → file, for all matrix files of a folder and its subfolders."""
    found = [str(path) for kind in KINDS for path in sorted(folder.rglob(f"*.{kind}"))]
    return {spec["matrix"]: Path(spec["path"]) for spec in expand([{"path": path} for path in found])}


def deviation(c: Any, a: Any, b: Any) -> float:
    """Largest error of an element of C = A·B on the device, relative to the largest of A·|B|, against float64."""
    exact = b.astype("float64")
    return float(abs(c - a @ exact).max()) / (float((abs(a) @ abs(exact)).max()) or 1.0)


def peers(path: Path) -> pd.DataFrame:
    """Fastest correct peer and fastest vendor code of each case: peer, peer_ms, vendor_ms by precision, matrix, n."""
    table = pd.read_csv(path)
    table = table[~table.peer.str.startswith("best_peer") & (table.rel_err < 0.01)]
    table["precision"] = table.dtype.map(PRECISION)
    vendor = table.peer.str.match("cusparse|torch")
    best = table[~vendor].sort_values("time_ms").drop_duplicates(KEY).set_index(KEY)
    vendors = table[vendor].groupby(KEY).time_ms.min()
    return pd.DataFrame({"peer": best.peer, "peer_ms": best.time_ms, "vendor_ms": vendors})


def planned(a: Any, dtype: str, **options: Any) -> tuple[SpMM, float]:
    """The product with ``a``, CuPy's CSR m×k, and the median time of its plan in ms; raises :class:`FormatError`."""
    multiply = SpMM(a, dtype, **options)
    return multiply, float(np.median([SpMM(a, dtype, **options).plan_ms for _ in range(PLANS)]))


def candidates(a: Any, also: set[str]) -> Iterator[tuple[str, str, float, SpMM]]:
    """Name, dtype, time of the plan in ms, and product(b, out=c) of each general kernel and of those in ``also``.

    ``a``: CuPy's CSR, m×k.
    """
    for head in heads(str(ROOT / "kernels")).values():
        dtype = head.dtype["a"]
        if (head.study == GENERAL and dtype in PRECISION) or head.name in also:
            try:
                multiply, plan_ms = planned(a, dtype, kernel=head.name)
            except FormatError as error:
                print(f"{head.name}: {error}", file=sys.stderr)
                continue
            yield head.name, dtype, plan_ms, multiply


def taken(a: Any, widths: list[int]) -> dict[tuple[str, int], float]:
    """(Kernel that SpMM chooses, width) → median time in ms of analysing ``a`` and packing it, in every dtype."""
    found = {}
    for dtype in TOLERANCE:
        for n in widths:
            try:
                multiply, plan_ms = planned(a, dtype, n=n)
            except FormatError as error:
                print(f"SpMM in {dtype} at n = {n}: {error}", file=sys.stderr)
                continue
            found[multiply.kernel_for(n), n] = plan_ms
    return found


def measured(
    name: str, a: csr_array, widths: list[int], also: set[str], clock: Clock, dram_gb_per_s: float
) -> Iterator[dict[str, Any]]:
    """A row for each precision, width and candidate."""
    import cupy
    import cupyx.scipy.sparse as sparse

    rng = cupy.random.default_rng()
    exact_a = sparse.csr_matrix(a)
    m, k = a.shape
    touched = len(np.unique(a.indices))
    unasked = taken(exact_a, widths)
    for kernel, dtype, plan_ms, multiply in candidates(exact_a, also):
        size = 2 if dtype == "float16" else 4
        for n in widths:
            try:
                b = (rng.random((k, n)) * 2 - 1).astype("float16" if size == 2 else "float32")
                c = cupy.full((m, n), np.nan, dtype=b.dtype)
                # The first product on a stream allocates scratch, so it must run on the timed stream.
                clock.stream.wait_event(cupy.cuda.get_current_stream().record())
                with clock.stream:
                    multiply(b, out=c)
                clock.stream.synchronize()
                error = deviation(c, exact_a, b)
                if not error < TOLERANCE[dtype]:
                    raise ValueError(f"{kernel} is wrong on {name} at n = {n}: error {error:.2g}")
                call = Call(lambda stream, multiply=multiply, b=b, c=c: multiply(b, out=c))
                timing = clock.time(call, cold=False, repeat_cap=100, time_cap_ms=300)
            except cupy.cuda.memory.OutOfMemoryError:
                print(f"{kernel} on {name} at n = {n}: out of memory", file=sys.stderr)
                continue
            bytes_once = a.nnz * (4 + size) + 4 * (m + 1) + size * n * (touched + m)
            yield {
                "precision": PRECISION[dtype],
                "dtype": dtype,
                "matrix": name,
                "n": n,
                "kernel": kernel,
                "time_ms": timing.median_ms,
                "plan_ms": plan_ms,
                "taken_plan_ms": unasked.get((kernel, n)),
                "error": error,
                "share_of_bound": bytes_once / dram_gb_per_s * 1e-6 / timing.median_ms,
                "mb_once": bytes_once / 1e6,
            }


def told(best: pd.DataFrame) -> None:
    """Print the fastest kernel of each case with its ratios, and their geometric means."""
    best = best.reset_index()
    for precision, rows in best.groupby("precision"):
        print(
            f"\n{precision}: time in µs, share of the bound by bytes" + (", × peer, × vendor" if "peer" in rows else "")
        )
        for name, own in rows.groupby("matrix"):
            cells = []
            for row in own.itertuples():
                cell = f"{row.n}: {1e3 * row.time_ms:.1f} {row.kernel} {row.share_of_bound:.0%}"
                if "peer" in rows:
                    cell += f" ×{row.peer_ms / row.time_ms:.2f} ×{row.vendor_ms / row.time_ms:.2f}"
                cells.append(cell)
            print(f"{name:24s} " + " | ".join(cells))
        for n, own in rows.groupby("n"):
            print(f"n = {n}: {summary(own, own.plan_ms)}")


def summary(rows: pd.DataFrame, plan_ms: pd.Series) -> str:
    """Geometric means over the rows of one width, and the number of products that take as long as a plan."""
    plans = plan_ms / rows.time_ms
    text = f"a plan takes as long as {plans.median():.0f} products, at most {plans.max():.0f}"
    if "peer" in rows:
        ratios, vendors = rows.peer_ms / rows.time_ms, rows.vendor_ms / rows.time_ms
        mean, of_vendors = (np.exp(np.log(x.dropna()).mean()) for x in (ratios, vendors))
        least = f"least {ratios.min():.2f} ({rows.matrix[ratios.idxmin()]})"
        text = f"{mean:.2f} × the best peer of the precision, {least}; {of_vendors:.2f} × the vendor's; {text}"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=Path, required=True, help="folder of matrices, searched with its subfolders")
    parser.add_argument("--times", type=Path, help="table of other codes' times; its matrices alone are then measured")
    parser.add_argument("--n", default="32,128,512", help="widths of B")
    parser.add_argument("--also", default="", help="further kernels, for example a library's dense product")
    parser.add_argument("--write", type=Path, help="CSV for the times of all kernels")
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)
    widths = [int(n) for n in options.n.split(",")]
    others = peers(options.times) if options.times else None
    wanted = set(others.index.get_level_values("matrix")) if others is not None else None
    files = {name: path for name, path in files_in(options.matrices).items() if wanted is None or name in wanted}
    if not files:
        parser.error(f"no matrices in {options.matrices}" + (" that the table names" if wanted else ""))
    known = heads(str(ROOT / "kernels"))
    also = {kernel for kernel in options.also.split(",") if kernel}
    other = {kernel for kernel in also if kernel not in known or known[kernel].dtype["a"] not in TOLERANCE}
    if other:
        parser.error(f"no kernel in {', '.join(TOLERANCE)} is called {', '.join(sorted(other))}")
    clock = Clock(machine_code(known["dram_read"]), machine_code(known["dram_copy"]))
    clock.warm_up()
    bandwidth = clock.copy_gb_per_s()
    print(f"copy of device memory: {bandwidth:.0f} GB/s", file=sys.stderr)
    rng, rows = np.random.default_rng(), []
    for number, (name, path) in enumerate(files.items(), start=1):
        print(f"{number} of {len(files)}: {name}", file=sys.stderr)
        rows += measured(name, structure(path, rng), widths, also, clock, bandwidth)
        if options.write:
            pd.DataFrame(rows).to_csv(options.write, index=False)
    table = pd.DataFrame(rows).sort_values("time_ms").set_index(KEY)
    if others is not None:
        table = table.join(others)
    told(table[~table.index.duplicated()].sort_index())
    print("\nThe kernel that SpMM chooses by itself:")
    for (dtype, n), own in table[table.taken_plan_ms.notna()].reset_index().groupby(["dtype", "n"]):
        print(f"{dtype}, n = {n}: {summary(own, own.taken_plan_ms)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
