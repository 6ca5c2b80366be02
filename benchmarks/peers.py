"""The fastest general kernel of this project compared with other codes: products A·B with a warm L2.

    python benchmarks/peers.py --matrices folder
    python benchmarks/peers.py --matrices folder --times peers.csv --n 32,128,512 --write result.csv
    python benchmarks/peers.py --matrices folder --libraries build/libmine.so --tables rows
    spmm-roofline compare rows rows --match window_f16=mine

Each general kernel, and each of `--also`, multiplies every matrix of the folder (.mtx, .npz, .smtx, also compressed) in
FP16 and in FP32 (TF32 included) through `spmm_roofline.SpMM`. So does the library's dense product on a matrix for which
`SpMM` chooses it. A product counts if it agrees with float64. The kernel that `SpMM` chooses is reported separately.

Other codes on the same GPU come in two ways. `--libraries` are shared libraries of kernels/external/spmm_peer.h: their
kernels multiply the same matrices under the same clock, and a wrong product costs them this case alone. `--times` is a
table of times: columns peer, dtype (fp16, bf16, tf32, fp32), matrix, n, time_ms, rel_err. Peers called cusparse* and
torch* are the vendor's and are compared separately.

`--tables` writes all rows as tables `measure` of the suite `peers`, one for each kernel, which `spmm-roofline compare`
sets side by side.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from spmm_roofline import SpMM, contracts
from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import device_dtype, widened
from spmm_roofline.kernels import HeadError, heads, registry
from spmm_roofline.kernels.choose import GENERAL
from spmm_roofline.kernels.head import Head
from spmm_roofline.kernels.launch import Call, Unsupported, check_case, library_version, prepare
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.matrices.canonical import structure_sha256
from spmm_roofline.matrices.file import KINDS, expand, read
from spmm_roofline.measure import PROTOCOL
from spmm_roofline.measure.device import Gpu, runtime_version, short_name, timestamp, visible
from spmm_roofline.measure.rows import git_commit, sizes
from spmm_roofline.measure.timing import Clock
from spmm_roofline.measure.verify import verify
from spmm_roofline.measure.worker import fill_at_random, timed
from spmm_roofline.needs import without_cupy

ROOT = Path(__file__).resolve().parents[1]

#: Precision of the table's dtypes and of kernels.
PRECISION = {"fp16": "FP16", "bf16": "FP16", "tf32": "FP32", "fp32": "FP32"}
PRECISION |= {"float16": "FP16", "bfloat16": "FP16", "float32": "FP32"}
#: Dtypes of the general kernels that are measured.
DTYPES = ("float16", "tf32", "float32")
#: Study of the kernels of libraries, and suite of the rows in tables.
EXTERNAL, SUITE = "external", "peers"
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


def taken(a: Any, widths: list[int]) -> dict[tuple[str, int], float]:
    """(Kernel that SpMM chooses, width) → median time in ms of a plan, copy of ``a`` included, in every dtype."""
    found = {}
    for dtype in DTYPES:
        for n in widths:
            try:
                multiply, plan_ms = planned(a, dtype, n=n)
            except FormatError as error:
                print(f"SpMM in {dtype} at n = {n}: {error}", file=sys.stderr)
                continue
            found[multiply.kernel_for(n), n] = plan_ms
    return found


@dataclass(frozen=True)
class Candidate:
    """A kernel that multiplies one matrix; ``prepare(b, c)`` makes a call of it, having checked that it takes the case.

    ``plan_ms``: time of the plan in ms; None if it is that of the call.
    """

    head: Head
    prepare: Callable[[Dense, Dense], Call]
    plan_ms: float | None = None


def general(a: Any, also: set[str]) -> Iterator[Candidate]:
    """Each general kernel, and those in ``also``. ``a``: CuPy's CSR, m×k."""
    for head in heads(str(ROOT / "kernels")).values():
        if (head.study == GENERAL and head.dtype["a"] in DTYPES) or head.name in also:
            try:
                multiply, plan_ms = planned(a, head.dtype["a"], kernel=head.name)
            except FormatError as error:
                print(f"{head.name}: {error}", file=sys.stderr)
                continue
            yield Candidate(head, partial(_product, multiply), plan_ms)


def _product(multiply: SpMM, b: Dense, c: Dense) -> Call:
    return Call(lambda stream: multiply(b.storage, out=c.storage))


def external(a: Any, libraries: Iterable[Head]) -> Iterator[Candidate]:
    """Each kernel of the libraries. ``a``: CuPy's CSR, m×k."""
    for head in libraries:
        packed = Csr.from_csr(a, dtype=head.dtype["a"])
        yield Candidate(head, partial(_call, head, packed))


def _call(head: Head, packed: Csr, b: Dense, c: Dense) -> Call:
    check_case(head, c.rows, c.columns, b.rows)
    return prepare(head, None, packed, b, c)


def outcome(candidate: Candidate, exact: Csr, n: int, clock: Clock) -> dict[str, Any]:
    """Columns of table ``measure`` that a case gives: its status, and its times if the product is right.

    A kernel of this project that is wrong ends the benchmark. ``exact``: A in float64, with the values that the kernel
    multiplies.
    """
    import cupy

    head, (m, k) = candidate.head, exact.shape
    try:
        b = Dense(cupy.zeros((k, n), dtype=device_dtype(head.dtype["b"])), k, n, False, head.dtype["b"])
        fill_at_random(b, cupy.random.default_rng())
        c = Dense(cupy.zeros((m, n), dtype=device_dtype(head.dtype["c"])), m, n, False, head.dtype["c"])
        call = candidate.prepare(b, c)
        c.poison()
        cupy.cuda.get_current_stream().synchronize()
        # The first product on a stream allocates scratch, so it must run on the timed stream.
        with clock.stream:
            call(clock.stream)
        clock.stream.synchronize()
        verdict = verify(exact, b, c, head.dtype_of_sums)
        if verdict.wrong and not head.external:
            raise AssertionError(f"{head.name} is wrong at n = {n}: {verdict.wrong}")
        plan_ms = call.preprocess_ms if candidate.plan_ms is None else candidate.plan_ms
        row = {"preprocess_ms": plan_ms, "format_bytes": call.format_bytes}
        if verdict.wrong:
            return row | {"status": "wrong", "message": verdict.wrong}
        timing = clock.time(call, cold=False, repeat_cap=100, time_cap_ms=300)
        # What SpMM packs beyond the entries is not known here.
        row |= timed(timing, verdict, n, exact.nnz, exact.nnz, head.steps)
        return row | {"noisy": timing.noisy, "replay_ms": clock.replay_overhead_ms()}
    except Unsupported as error:
        return {"status": "unsupported", "message": str(error)}
    except MemoryError as error:
        return {"status": "out_of_memory", "message": str(error)}
    except RuntimeError as error:  # of the library, or of CUDA if the library did what a graph does not take
        if not head.external:
            raise
        return {"status": "launch_failed", "message": str(error)}


def measured(
    name: str, a: csr_array, widths: list[int], also: set[str], libraries: list[Head], clock: Clock, known: Known
) -> Iterator[dict[str, Any]]:
    """A row of table ``measure`` for each kernel and width, with the time of the plan that SpMM makes unasked."""
    import cupyx.scipy.sparse as sparse

    on_device = sparse.csr_matrix(a)
    features = {
        "matrix_sha256": structure_sha256(a),
        "m": a.shape[0],
        "k": a.shape[1],
        "nnz": a.nnz,
        "nonempty_columns": len(np.unique(a.indices)),
    }
    unasked = taken(on_device, widths)
    chosen = {kernel for kernel, _ in unasked}
    for candidate in chain(general(on_device, also | chosen), external(on_device, libraries)):
        head = candidate.head
        exact = Csr.from_csr(on_device, dtype=head.dtype["a"])
        exact = replace(exact, dtype="float64", data=widened(exact.data, exact.dtype))
        for n in widths:
            row = outcome(candidate, exact, n, clock)
            if row["status"] != "ok":
                print(f"{head.name} on {name} at n = {n}: {row['status']}: {row['message']}", file=sys.stderr)
            yield {
                **known.of(head),
                **sizes(head, features, n),
                **row,
                "matrix": name,
                "measured_at": timestamp(),
                "taken_plan_ms": unasked.get((head.name, n)),
            }


@dataclass(frozen=True)
class Known:
    """What all rows of a run have in common."""

    gpu: Gpu
    cuda: str

    def of(self, head: Head) -> dict[str, Any]:
        """Columns of table ``measure`` that a kernel has on this device."""
        device = short_name(self.gpu.product, (ROOT / "config/devices").glob("*.yaml"))
        packer = FORMATS[head.format].packer if head.format in FORMATS else None
        return {
            "device": device,
            "arch": self.gpu.arch,
            "driver": self.gpu.driver,
            "cuda": library_version(head) if head.vendor else self.cuda,
            "suite": SUITE,
            "study": head.study,
            "kernel": head.name,
            "kernel_sha256": head.sha256(),
            "format": head.format,
            "packer_sha256": registry.head(packer, str(ROOT / "kernels")).sha256() if packer else "",
            "dtype_a": head.dtype["a"],
            "dtype_b": head.dtype["b"],
            "dtype_accumulator": head.dtype["accumulator"],
            "dtype_c": head.dtype["c"],
            "l2": "warm",
            "protocol": PROTOCOL,
            "git_commit": git_commit(),
        }


def write_tables(rows: Iterable[dict[str, Any]], folder: Path) -> None:
    """Write table ``measure`` of each kernel, which ``spmm-roofline compare`` reads."""
    columns = set(contracts.table("measure").names)
    by_kernel: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_kernel.setdefault(row["kernel"], []).append({name: row[name] for name in row if name in columns})
    for kernel, own in by_kernel.items():
        path = folder / f"{kernel}.csv"
        contracts.write(contracts.frame(own, "measure", str(path)), path, "measure")


def summarized(rows: Iterable[dict[str, Any]], dram_gb_per_s: float) -> pd.DataFrame:
    """The cases with a time, with what this page tells of them."""
    names = [*contracts.table("measure").names, "taken_plan_ms"]
    table = pd.DataFrame([row for row in rows if row["status"] == "ok"], columns=names)
    bytes_once = table.compulsory_bytes
    return pd.DataFrame(
        {
            "precision": table.dtype_a.map(PRECISION),
            "dtype": table.dtype_a,
            **{name: table[name] for name in ("matrix", "n", "kernel", "study", "time_ms")},
            "plan_ms": table.preprocess_ms,
            "taken_plan_ms": table.taken_plan_ms,
            "error": table.rel_error,
            "share_of_bound": bytes_once / dram_gb_per_s * 1e-6 / table.time_ms,
            "mb_once": bytes_once / 1e6,
        }
    )


def with_libraries(others: pd.DataFrame | None, libraries: pd.DataFrame) -> pd.DataFrame | None:
    """The fastest peer of each case (as :func:`peers`) among those of a table and the kernels of libraries."""
    if libraries.empty:
        return others
    best = libraries.sort_values("time_ms").drop_duplicates(KEY).set_index(KEY)
    own = pd.DataFrame({"peer": best.kernel, "peer_ms": best.time_ms, "vendor_ms": np.nan})
    if others is None:
        return own
    both = pd.concat([others.reset_index(), own.reset_index()]).sort_values("peer_ms", kind="stable")
    return both.groupby(KEY).first()


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
                    ratios = (row.peer_ms / row.time_ms, row.vendor_ms / row.time_ms)
                    cell += "".join(" ×-" if np.isnan(ratio) else f" ×{ratio:.2f}" for ratio in ratios)
                cells.append(cell)
            print(f"{name:24s} " + " | ".join(cells))
        for n, own in rows.groupby("n"):
            print(f"n = {n}: {summary(own, own.plan_ms)}")


def summary(rows: pd.DataFrame, plan_ms: pd.Series) -> str:
    """Geometric means over the rows of one width, and the number of products that take as long as a plan."""
    plans = plan_ms / rows.time_ms
    text = f"a plan takes as long as {plans.median():.0f} products, at most {plans.max():.0f}"
    if "peer" in rows:
        ratios, vendors = (rows.peer_ms / rows.time_ms).dropna(), (rows.vendor_ms / rows.time_ms).dropna()
        if len(vendors):
            text = f"{np.exp(np.log(vendors).mean()):.2f} × the vendor's; {text}"
        if len(ratios):
            least = f"least {ratios.min():.2f} ({rows.matrix[ratios.idxmin()]})"
            text = f"{np.exp(np.log(ratios).mean()):.2f} × the best peer of the precision, {least}; {text}"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=Path, required=True, help="folder of matrices, searched with its subfolders")
    parser.add_argument("--times", type=Path, help="table of other codes' times; its matrices alone are then measured")
    parser.add_argument("--n", default="32,128,512", help="widths of B")
    parser.add_argument("--also", default="", help="further kernels, for example a library's dense product")
    parser.add_argument("--libraries", nargs="+", default=[], metavar="FILE", help="shared libraries of spmm_peer.h")
    parser.add_argument("--write", type=Path, help="CSV for the times of all kernels")
    parser.add_argument("--tables", type=Path, metavar="FOLDER", help="folder for tables that `compare` reads")
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)
    widths = [int(n) for n in options.n.split(",")]
    others = peers(options.times) if options.times else None
    wanted = set(others.index.get_level_values("matrix")) if others is not None else None
    files = {name: path for name, path in files_in(options.matrices).items() if wanted is None or name in wanted}
    if not files:
        parser.error(f"no matrices in {options.matrices}" + (" that the table names" if wanted else ""))
    try:
        known = heads(str(ROOT / "kernels"), tuple(options.libraries))
    except HeadError as error:
        parser.error(str(error))
    libraries = [head for head in known.values() if head.external]
    also = {kernel for kernel in options.also.split(",") if kernel}
    other = {kernel for kernel in also if kernel not in known or known[kernel].dtype["a"] not in DTYPES}
    if other:
        parser.error(f"no kernel in {', '.join(DTYPES)} is called {', '.join(sorted(other))}")
    clock = Clock()
    clock.warm_up()
    bandwidth = clock.copy_gb_per_s()
    print(f"copy of device memory: {bandwidth:.0f} GB/s", file=sys.stderr)
    common = Known(visible()[0], runtime_version())
    rng, rows = np.random.default_rng(), list[dict[str, Any]]()
    for number, (name, path) in enumerate(files.items(), start=1):
        print(f"{number} of {len(files)}: {name}", file=sys.stderr)
        rows += measured(name, structure(path, rng), widths, also, libraries, clock, common)
        if options.write:
            summarized(rows, bandwidth).to_csv(options.write, index=False)
        if options.tables:
            write_tables(rows, options.tables)
    table = summarized(rows, bandwidth)
    of_libraries = table.study == EXTERNAL
    others = with_libraries(others, table[of_libraries])
    table = table[~of_libraries].sort_values("time_ms").set_index(KEY)
    if others is not None:
        table = table.join(others)
    told(table[~table.index.duplicated()].sort_index())
    print("\nThe kernel that SpMM chooses by itself:")
    for (dtype, n), own in table[table.taken_plan_ms.notna()].reset_index().groupby(["dtype", "n"]):
        print(f"{dtype}, n = {n}: {summary(own, own.taken_plan_ms)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
