"""Judge what SpMM chooses, on recorded rows: how much longer that kernel takes than the best one known.

    python benchmarks/regret.py
    python benchmarks/regret.py --dtype float32 --device h100 --suite flagship --worst 30
    python benchmarks/regret.py --half fitted --write regret.csv
    python benchmarks/regret.py --times resources/choices/judged-h100.csv.gz --device h100
    python benchmarks/regret.py --times resources/choices/judged-h100-sampled.csv.gz --device h100

The best kernel known of a case is the fastest of the general kernels, of the re-creations of other projects' kernels
that hold every matrix, of cuSPARSE's algorithms and of the dense product, all of them row-major. A case is a matrix and
a width N on one device, with a warm or a cold L2. `spmm` is the time of the best kernel that is no general one over
that of the chosen kernel: below 1, a case is lost.

Costs are fitted to all recorded rows. Those that are fitted to one half of the matrices (`costs.py --half fitted`) can
be judged on the other one, with `--costs` and `--half judged`, and so can they on the files that costs are fitted to,
with `--times resources/choices/fitted-h100-files.csv.gz`. The half of a matrix follows from its name, less what tells
relatives apart: the triangle of a symmetric matrix, and a matrix with scaled values.

Kernels without rows of their own are judged by those of a kernel that does the same (`STANDS_FOR`).

`--times` judges the rows of a table in place of recorded ones, of matrices that were made for the purpose: `group`,
`matrix`, `dtype`, `n`, `m`, `k`, `nnz`, `longest` (entries of the longest row), `blocks` (tiles of the usual format),
`panel_tiles` (those of panels, if known), `kernel` and `time_us`, with a warm L2. A table without cuSPARSE's kernels or
re-creations says nothing about them. A table of sampled products is judged by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spmm_roofline import contracts
from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.arrays import ceil_div
from spmm_roofline.formats.base import Survey
from spmm_roofline.kernels import choose, costs, heads, registry
from spmm_roofline.kernels.front_matter import SAMPLING
from spmm_roofline.kernels.head import Head
from spmm_roofline.multiply.memory import dense

ROOT = Path(__file__).resolve().parents[1]
SUITES = (
    "flagship",
    "cutespmm",
    "attention",
    "beyond-l2",
    "real-sample",
    "quick",
    "all-kinds",
    "few-columns",
    "double-precision",
)
#: Tables of times: fitted-<device>.csv.gz, and judged-<device>.csv.gz for judging alone. The names of those of sampled
#: products end in -sampled, and of those of real matrices in -files.
CHOICES = ROOT / "resources/choices"
#: Recorded rows, one folder a device.
RECORDED = ROOT / "resources/recorded"
#: Group of the matrices of files in its tables.
FILES = "files"
DEVICES = ("h100", "h200")
DTYPES = ("float16", "bfloat16", "tf32", "float32", "float64")
#: What tells one matrix from another, whose name may be another: some generators follow from sizes alone.
STRUCTURE = ["m", "k", "nnz", "row_length_max", "blocks"]
#: Ends of the names of a matrix's relatives: of scaled values, and of its triangle.
RELATIVES = re.compile("(sc)?(-lower)?$")
#: Studies whose kernels are re-creations for any matrix, and libraries.
RIVALS = ("scalar", "cutespmm", "tcgnn", "cusparse", "cublas")
#: Kernel without rows of its own → the kernel whose time it takes: the same order of work, or the same product by
#: another entry of the library.
STANDS_FOR = {
    "short_rows_fma": "gespmm_seq_row",
    "short_rows_fma_tf32": "gespmm_seq_row",
    "cublaslt_gemm": "cublas_gemm",
    "cublaslt_gemm_tf32": "cublas_gemm_tf32",
    "cublaslt_gemm_f16": "cublas_gemm_f16",
    "cublaslt_gemm_bf16": "cublas_gemm_bf16",
}
#: Dtypes of kernels that compute a product of a dtype at no lower precision.
WITHIN = {dtype: (dtype,) for dtype in DTYPES} | {"tf32": ("tf32", "float32")}


def half_of(matrix: str) -> str:
    """The half to which a matrix belongs, with its relatives: ``fitted`` or ``judged``."""
    return "judged" if hashlib.sha256(RELATIVES.sub("", matrix).encode()).digest()[0] % 2 else "fitted"


def known(root: Path = ROOT / "kernels") -> dict[str, Head]:
    """General kernels and their rivals by name: those that take B and C in row-major order, for any matrix."""
    return {
        name: head
        for name, head in heads(str(root)).items()
        if head.study in (choose.GENERAL, *RIVALS)
        and set(head.layout.values()) == {"row_major"}
        and (head.study == choose.GENERAL or head.format == "dense" or FORMATS[head.format].holds_any)
        and head.steps == 1
    }


def sampling(root: Path = ROOT / "kernels") -> dict[str, Head]:
    """Kernels of sampled products between which there is a choice, by name."""
    names = [name for of_dtype in choose.SAMPLED.values() if of_dtype.windows for name in of_dtype]
    return {name: registry.head(name, str(root)) for name in names}


def costed(kernels: Mapping[str, Head]) -> list[Head]:
    """The kernels that have costs of their own: of products, dense and sampled ones too; no twins in another dtype."""
    own = [head for name, head in kernels.items() if choose.costed(name) == name]
    studies = choose.GENERAL, SAMPLING
    return [head for head in own if head.study in studies or head.name in choose.DENSE.values()]


def rows_of(recorded: Path, device: str, suites: tuple[str, ...], kernels: Mapping[str, Head]) -> pd.DataFrame:
    """Timed rows of a device with what a choice knows of their matrices."""
    files = [path for suite in suites for path in sorted((recorded / device / suite).glob("*.csv"))]
    files = [path for path in files if path.stem in kernels]
    if not files:
        return pd.DataFrame()  # nobody has recorded these suites on this device
    rows = contracts.read_all(files, "measure")
    rows = rows[(rows["status"] == "ok") & ~rows["noisy"].eq(True)]
    rows = rows[["suite", "kernel", "matrix", "m", "k", "n", "nnz", "l2", "time_ms"]]
    described = contracts.read(recorded / device / "matrices.csv", "matrices").drop_duplicates("matrix")
    packed = contracts.read(recorded / device / "formats.csv", "formats")
    packed = packed[packed["status"] == "ok"].drop_duplicates(["format", "matrix"])
    blocks = packed.pivot(index="matrix", columns="format", values="blocks")
    blocks = blocks.rename(columns={choose.USUAL: "blocks", choose.PANELS: "panel_tiles"})[["blocks", "panel_tiles"]]
    rows = rows.merge(described[["matrix", "row_length_max"]], on="matrix")
    return rows.merge(blocks.dropna(subset="blocks"), on="matrix").assign(device=device)


def rows_of_table(path: Path, device: str, kernels: Mapping[str, Head]) -> pd.DataFrame:
    """The same of a table of times, in µs, on one device; rows without a time, of refused products, are left out."""
    rows = pd.read_csv(path).dropna(subset=["time_us"])
    rows = rows[rows["kernel"].isin(list(kernels))]
    rows = rows.rename(columns={"group": "suite", "longest": "row_length_max"})
    unknown = {} if "panel_tiles" in rows else {"panel_tiles": np.nan}
    return rows.assign(device=device, l2="warm", time_ms=rows["time_us"] / 1e3, **unknown)


def rows_to_fit(kernels: Mapping[str, Head]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What costs are fitted to: rows that were recorded, and those of tables."""
    tables = sorted(CHOICES.glob("fitted-*"))
    recorded = (rows_of(RECORDED, device, SUITES, kernels) for device in DEVICES)
    timed = (rows_of_table(path, path.name.split(".")[0].split("-")[1], kernels) for path in tables)
    return pd.concat(recorded), pd.concat(timed)


def unseen(cases: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """The cases of matrices that are not among the rows ``fitted``, whatever their names."""
    seen, own = (pd.MultiIndex.from_frame(rows[STRUCTURE].astype("int64")) for rows in (fitted, cases))
    return cases[~own.isin(seen.unique())]


def cases(rows: pd.DataFrame, kernels: Mapping[str, Head], dtype: str) -> Iterator[tuple[dict, dict[str, float]]]:
    """Each case of a dtype, and kernel → time in ms; no case in which no general kernel of the dtype was timed."""
    own = rows[rows["kernel"].map(lambda name: kernels[name].dtype["a"] in WITHIN[dtype])]
    twins = {name: choose.costed(name) for name, head in kernels.items() if head.dtype["a"] == dtype}
    for (device, suite, matrix, n), group in own.groupby(["device", "suite", "matrix", "n"]):
        times = dict(zip(group["kernel"], group["time_ms"], strict=True))
        times |= {name: times[twin] for name, twin in twins.items() if name not in times and twin in times}
        # `cublas_gemm*` is timed with rows of any length, and takes longer where they are not whole 16 bytes.
        stands = {name: stand for name, stand in STANDS_FOR.items() if name not in times and stand in times}
        alike = {name for name, stand in stands.items() if _width(kernels[name], n) == _width(kernels[stand], n)}
        times |= {name: times[stands[name]] for name in alike}
        if not any(kernels[name].study == choose.GENERAL and kernels[name].dtype["a"] == dtype for name in times):
            continue
        first = group.iloc[0]
        about = {name: int(first[name]) for name in ("m", "k", "nnz", "row_length_max", "blocks")}
        about |= {"n": int(n), "l2": first["l2"], "panel_tiles": first["panel_tiles"]}
        yield {"device": device, "suite": suite, "matrix": matrix, **about}, times


def _width(head: Head, n: int) -> int:
    """Columns of B and C with their padding."""
    multiple = head.pads.get("n", 1)
    return ceil_div(n, multiple) * multiple


def product_of(case: Mapping[str, Any], device: Mapping[str, int]) -> choose.Product:
    """What a choice is told of a case on a device."""
    tiles, longest = case["panel_tiles"], case["row_length_max"]
    return choose.Product(
        m=case["m"],
        n=case["n"],
        nnz=case["nnz"],
        multiprocessors=device["multiprocessors"],
        look=lambda: Survey(case["blocks"], longest),
        k=case["k"],
        l2_bytes=device["l2_bytes"],
        look_at_panels=None if pd.isna(tiles) else lambda: Survey(int(tiles), longest),
    )


def judged(
    rows: pd.DataFrame, kernels: Mapping[str, Head], dtype: str, devices: Mapping[str, Mapping[str, int]]
) -> pd.DataFrame:
    """One row per case: the kernel that is chosen, the best known one, the regret, and `spmm`."""
    result = []
    for case, times in cases(rows, kernels, dtype):
        may_be_dense = dense(case["m"], case["k"], case["nnz"], dtype) > 0
        able = {
            name: kernels[name]
            for name in times
            if kernels[name].dtype["a"] == dtype
            and (kernels[name].study == choose.GENERAL or (may_be_dense and name in choose.DENSE.values()))
        }
        chosen = choose.choose(able, dtype, product_of(case, devices[case["device"]])).name
        others = {name: time for name, time in times.items() if kernels[name].study != choose.GENERAL}
        rival = min(others, key=others.__getitem__, default="")
        best = min(times, key=times.__getitem__)
        result.append(
            case
            | {
                "dtype": dtype,
                "half": half_of(case["matrix"]),
                "chosen": chosen,
                "best": best,
                "rival": rival,
            }
            | {"time_ms": times[chosen], "best_ms": times[best], "regret": times[chosen] / times[best] - 1}
            | {"spmm": others[rival] / times[chosen] if rival else np.nan}
        )
    return pd.DataFrame(result)


def judged_samples(rows: pd.DataFrame, dtype: str, device: Mapping[str, int]) -> pd.DataFrame:
    """The same of sampled products in one dtype, on one device; no kernel of others is among them."""
    result = []
    for (suite, matrix, n), group in rows[rows["dtype"] == dtype].groupby(["suite", "matrix", "n"]):
        case = {"device": group["device"].iloc[0], "suite": suite, "matrix": matrix, "n": int(n), "panel_tiles": np.nan}
        case |= {name: int(group[name].iloc[0]) for name in ("m", "k", "nnz", "row_length_max", "blocks")}
        times = dict(zip(group["kernel"], group["time_ms"], strict=True))
        chosen, best = choose.sampled(dtype, product_of(case, device)), min(times, key=times.__getitem__)
        case |= {"dtype": dtype, "half": half_of(matrix), "chosen": chosen, "best": best, "rival": "", "spmm": np.nan}
        case |= {"time_ms": times[chosen], "best_ms": times[best], "regret": times[chosen] / times[best] - 1}
        result.append(case)
    return pd.DataFrame(result)


def summary(cases: pd.DataFrame) -> pd.DataFrame:
    """Regret and `spmm` of groups of cases."""
    groups = cases.groupby(["dtype", "device", "half"])
    table = groups["regret"].agg(
        cases="size",
        geometric=lambda x: np.expm1(np.log1p(x).mean()),
        p90=lambda x: x.quantile(0.9),
        p97=lambda x: x.quantile(0.97),
        worst="max",
        over_10=lambda x: int((x > 0.1).sum()),
    )
    table["spmm"] = groups["spmm"].agg(lambda x: np.exp(np.log(x).mean()))
    table["spmm_worst"] = groups["spmm"].min()
    table["lost"] = groups["spmm"].agg(lambda x: int((x < 1).sum()))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=Path, default=RECORDED, help="folder of the devices")
    parser.add_argument("--device", action="append", help="device, h100 or h200; both by default")
    parser.add_argument("--suite", action="append", help="suite; by default all that measure the general kernels")
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--times", type=Path, help="table of times on one device, in place of the recorded rows")
    parser.add_argument("--costs", type=Path, help="costs in place of resources/costs.json")
    parser.add_argument("--half", choices=("fitted", "judged"), help="half of the matrices; both by default")
    parser.add_argument("--worst", type=int, default=15, help="cases to name for each dtype")
    parser.add_argument("--write", type=Path, help="CSV with a row for each case")
    asked = parser.parse_args()
    if asked.costs:
        costs.COSTS = asked.costs
    kernels, devices = known(), asked.device or list(DEVICES)
    described = {device: contracts.document(ROOT / f"config/devices/{device}.yaml", "device") for device in devices}
    if asked.times:
        if len(devices) > 1:
            parser.error("--times wants the --device on which they were taken")
        rows = rows_of_table(asked.times, devices[0], kernels | sampling())
        rows = rows[rows["suite"].isin(asked.suite)] if asked.suite else rows
    else:
        suites = tuple(asked.suite or SUITES)
        rows = pd.concat(rows_of(asked.recorded, device, suites, kernels) for device in devices)
    if set(rows["kernel"]) <= set(sampling()):
        found = pd.concat(judged_samples(rows, dtype, described[devices[0]]) for dtype in asked.dtype or DTYPES)
    else:
        found = pd.concat(judged(rows, kernels, dtype, described) for dtype in asked.dtype or DTYPES)
    if asked.half:
        found = found[found["half"] == asked.half]
    with pd.option_context("display.width", 200, "display.max_columns", 30, "display.max_rows", 200):
        sys.stdout.write(f"{summary(found).round(3).to_string()}\n")
        shown = ["device", "suite", "matrix", "n", "m", "k", "nnz", "chosen", "best", "best_ms", "regret", "spmm"]
        for dtype, own in found.groupby("dtype"):
            worst = own.nlargest(asked.worst, "regret")[shown]
            sys.stdout.write(f"\n{dtype}\n{worst.round(3).to_string(index=False)}\n")
    if asked.write:
        found.to_csv(asked.write, index=False)


if __name__ == "__main__":
    main()
