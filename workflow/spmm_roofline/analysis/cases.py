"""Every measured row beside its baseline and its bound: the table that all other analyses and figures start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from . import roofline

if TYPE_CHECKING:
    import pandas as pd

KEY = ["device", "suite", "kernel", "matrix", "n", "l2"]

#: What must be equal for two times to be comparable; a matrix may change under its name and a protocol its meaning.
COMPARABLE = ["device", "suite", "matrix", "matrix_sha256", "n", "l2", "protocol"]

#: Name of the derived baseline; rows of it carry the precision: cusparse_best_f32 and so on.
BEST = "cusparse_best"
SHORT = {"float16": "f16", "bfloat16": "bf16", "tf32": "tf32", "float32": "f32", "float64": "f64"}


def gather(measured: pd.DataFrame, recorded: pd.DataFrame) -> pd.DataFrame:
    """Rows of both tables ``measure`` with a column ``origin``; a local row replaces the recorded one of its key."""
    import pandas as pd

    rows = pd.concat([measured.assign(origin="local"), recorded.assign(origin="recorded")], ignore_index=True)
    return rows.drop_duplicates(KEY, keep="first").sort_values(KEY, ignore_index=True)


def stale(rows: pd.DataFrame, fingerprints: Mapping[str, str], kernels: pd.DataFrame) -> pd.Series:
    """Whether the kernel of a row is no longer the one that was measured: it changed, or is gone.

    ``fingerprints`` maps every kernel that exists to the hash of its source, ``kernels`` is the table of that name,
    past compilations included. A kernel whose source changed and whose machine code and launch did not, as after an
    addition to a header, is still the one that was measured.
    """
    known = kernels[kernels["status"] == "ok"]
    code = {
        (row.kernel, row.arch, row.kernel_sha256): (row.launch_sha256, row.cubin_sha256) for row in known.itertuples()
    }
    columns = ["kernel", "arch", "kernel_sha256"]
    changed = {}
    for kernel, arch, source in rows[columns].drop_duplicates().itertuples(index=False, name=None):
        now = fingerprints.get(kernel, "")
        was, is_now = code.get((kernel, arch, source)), code.get((kernel, arch, now))
        changed[kernel, arch, source] = source != now and (was is None or was != is_now)
    import pandas as pd

    keys = rows[columns].itertuples(index=False, name=None)
    return pd.Series([changed[key] for key in keys], index=rows.index, dtype=bool)


def baseline(rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest cuSPARSE row of each comparable case and precision: index columns and ``baseline_ms``, ``winner``.

    The baseline is the library's best honest configuration, so each variant is measured and the minimum is taken
    case by case.
    """
    candidates = rows[(rows["study"] == "cusparse") & (rows["status"] == "ok")]
    fastest = candidates.sort_values(["time_ms", "kernel"]).drop_duplicates([*COMPARABLE, "precision"])
    columns = {"time_ms": "baseline_ms", "kernel": "winner"}
    return fastest[[*COMPARABLE, "precision", *columns]].rename(columns=columns)


def best_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The derived kernel cusparse_best as rows of its own: copies of the winners; ``message`` names the variant."""
    import pandas as pd

    winners = rows.merge(baseline(rows), on=[*COMPARABLE, "precision"], how="inner")
    winners = winners[winners["kernel"] == winners["winner"]]
    names = BEST + "_" + winners["precision"].map(SHORT).astype("string")
    winners = winners.assign(message=winners["winner"], kernel=pd.array(names, dtype="string")).drop(
        columns=["winner", "baseline_ms"]
    )
    return winners.sort_values(["protocol", "measured_at"]).drop_duplicates(KEY, keep="last")


def is_derived(kernel: pd.Series) -> pd.Series:
    """Which rows are the derived baseline and not a kernel that was launched."""
    return kernel.str.startswith(BEST + "_")


def compute_limits(
    rows: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    peaks: Mapping[str, Mapping[str, float]],
    measured: Mapping[str, Mapping[tuple[str, str], float]],
) -> pd.DataFrame:
    """Ceiling of the unit that multiplies in each row: ``compute_limit_gflops`` and ``compute_basis``, measured through
    the instructions that the kernel uses or from the datasheet; empty where the head or both are missing, and where
    a library does not say on what it multiplies. A row of the derived baseline has the head of its winner."""
    unknown = float("nan"), ""

    def limit(device: str, kernel: str) -> tuple[float, str]:
        head = heads.get(kernel)
        name = roofline.unit(head) if head is not None else None
        if name is None:
            return unknown
        through = roofline.instructions(head)
        return roofline.limit_gflops(name, through, measured.get(device, {}), peaks.get(device, {})) or unknown

    columns = ["device", "kernel"]
    rows = rows.assign(kernel=rows["kernel"].where(~is_derived(rows["kernel"]), rows["message"]))
    limits = {key: limit(*key) for key in rows[columns].drop_duplicates().itertuples(index=False, name=None)}
    import pandas as pd

    found = [limits[key] for key in rows[columns].itertuples(index=False, name=None)]
    return pd.DataFrame(found, index=rows.index, columns=["compute_limit_gflops", "compute_basis"])


def cases(
    measured: pd.DataFrame,
    recorded: pd.DataFrame,
    matrices: pd.DataFrame,
    kernels: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str],
    peaks: Mapping[str, Mapping[str, float]],
    dram_gb_per_s: Mapping[str, float],
    measured_peaks: Mapping[str, Mapping[tuple[str, str], float]] | None = None,
) -> pd.DataFrame:
    """Table ``analysis_cases`` from two tables ``measure`` and the tables ``matrices`` and ``kernels``.

    ``heads``: kernel → head with ``features``; ``fingerprints``: kernel → hash of its present source; ``peaks``:
    device → unit → GFLOP/s of the datasheets; ``measured_peaks``: device → (unit, instructions) → GFLOP/s, which come
    before them; ``dram_gb_per_s``: device → highest measured DRAM rate. A row whose device or kernel is in none of
    these keeps its time and has no bound.

    The bandwidth limit moves the compulsory traffic (everything once) at the measured rate; with a warm L2, or where
    the operands fit into it, a row may exceed that limit, and ``bound_fraction`` is then above 1.
    """
    import numpy as np
    import pandas as pd

    rows = gather(measured, recorded)
    rows["stale"] = stale(rows, fingerprints, kernels).astype("boolean")
    kinds = dict(zip(matrices["matrix"], matrices["kind"], strict=True))
    rows["kind"] = rows["matrix"].map(kinds).astype("string").fillna("unknown")
    rows["precision"] = rows["dtype_a"]
    rows = pd.concat([rows, best_rows(rows)], ignore_index=True).sort_values(KEY, ignore_index=True)

    # No library multiplies CSR in TF32: its users would otherwise call the FP32 product.
    against = baseline(rows).drop(columns="winner").rename(columns={"precision": "against"})
    rows["against"] = rows["precision"].replace({"tf32": "float32"})
    rows = rows.merge(against, on=[*COMPARABLE, "against"], how="left").drop(columns="against")
    rows["speedup"] = rows["baseline_ms"] / rows["time_ms"]

    ok = rows["status"] == "ok"
    flops = 2.0 * rows["nnz"].astype("float64") * rows["n"].astype("float64")
    rows["intensity_flop_per_byte"] = (flops / rows["compulsory_bytes"].astype("float64")).where(ok)
    bandwidth = rows["device"].map(dict(dram_gb_per_s)).astype("float64")
    rows["bandwidth_limit_gflops"] = (rows["intensity_flop_per_byte"] * bandwidth).where(ok)
    # A derived row has no head; it multiplies where its winner does, as every cuSPARSE row.
    limits = compute_limits(rows, heads, peaks, measured_peaks or {})
    rows["compute_limit_gflops"] = limits["compute_limit_gflops"].where(ok)
    rows["compute_basis"] = limits["compute_basis"].where(ok, "")

    strips = {name: head["tile"].get("slab") for name, head in heads.items()}
    rows["strip_columns"] = rows["kernel"].map(strips).astype("Int64")

    memory, compute = rows["bandwidth_limit_gflops"], rows["compute_limit_gflops"]
    known = memory.notna() & compute.notna()
    rows["bound"] = pd.array(np.where(known, np.where(memory <= compute, "memory", "compute"), ""), dtype="string")
    limit = np.minimum(memory, compute).where(known & (memory > 0))
    rows["bound_fraction"] = rows["useful_gflops"] / limit
    return contracts.check(rows, "analysis_cases")
