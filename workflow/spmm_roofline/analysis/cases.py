"""Every measured row beside its baseline and its bound: the table that all other analyses and figures start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from . import roofline
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

KEY = ["device", "suite", "kernel", "matrix", "n", "l2"]

#: What must be equal for two times to be comparable; a matrix may change under its name and a protocol its meaning.
COMPARABLE = ["device", "host", "suite", "matrix", "matrix_sha256", "n", "l2", "protocol"]

#: The same whatever the suite: what makes two rows of two suites one case.
CASE = [column for column in COMPARABLE if column != "suite"]

#: What tells cases apart where no time was taken: a row without one does not say on which host it failed.
UNTIMED = [column for column in COMPARABLE if column != "host"]

#: Name of the derived baseline; rows of it carry the precision: cusparse_best_f32 and so on.
BEST = "cusparse_best"
SHORT = {
    "float8_e4m3": "f8",
    "float16": "f16",
    "bfloat16": "bf16",
    "tf32": "tf32",
    "float32": "f32",
    "float64": "f64",
}

#: Hosts whose replays of an empty graph differ by no more than this are of one kind.
HOST_TOLERANCE = 0.25

#: Clock of the multiprocessors, of the highest, below which a row counts as throttled.
THROTTLED = 0.95


def gather(measured: pd.DataFrame, recorded: pd.DataFrame) -> pd.DataFrame:
    """Rows of both tables ``measure`` with a column ``origin``; a local row replaces the recorded one of its key."""
    import pandas as pd

    rows = pd.concat([measured.assign(origin="local"), recorded.assign(origin="recorded")], ignore_index=True)
    return rows.drop_duplicates(KEY, keep="first").sort_values(KEY, ignore_index=True)


def stale(rows: pd.DataFrame, fingerprints: Mapping[str, str], compilations: pd.DataFrame) -> pd.Series:
    """Whether the kernel of a row is no longer the one that was measured: it changed, or is gone.

    ``fingerprints`` maps every kernel that exists to the hash of its source, ``compilations`` is the table ``kernels``
    with past compilations. A kernel whose source changed and whose machine code and launch did not, as after an
    addition to a header, is still the one that was measured.
    """
    known = compilations[compilations["status"] == "ok"]
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

    keys = zip(*(rows[name].to_numpy() for name in columns), strict=True)
    return pd.Series([changed[key] for key in keys], index=rows.index, dtype=bool)


def packed_otherwise(
    rows: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str],
    compilations: pd.DataFrame,
) -> pd.Series:
    """Whether the kernel that packed A for a row is :func:`stale`; false for a format that needs none."""
    import pandas as pd

    names = [heads[kernel].get("packer") or "" if kernel in heads else "" for kernel in rows["kernel"].to_numpy()]
    packers = pd.Series(names, index=rows.index, dtype=object)
    asked = (packers != "") & (rows["packer_sha256"] != "")
    of = pd.DataFrame({"kernel": packers, "arch": rows["arch"], "kernel_sha256": rows["packer_sha256"]})[asked]
    return stale(of, fingerprints, compilations).reindex(rows.index, fill_value=False)


def hosts(rows: pd.DataFrame) -> pd.Series:
    """Kind of host of each row: the least replay of an empty graph, in µs, on hosts of its kind; empty if unknown.

    Every time includes the replay, which takes 2 µs on some hosts and 4.5 µs on others with the same GPU: a ratio of
    two times of 10 µs from two of these is off by a tenth. The kinds follow from the medians over the rows of a kernel
    in a suite, which jitter less: beginning with the least, all within :data:`HOST_TOLERANCE` of it are one kind. A
    row is of the kind to which its own replay is nearest, since the shards of a kernel may have run on several hosts.
    """
    import numpy as np
    import pandas as pd

    found = pd.Series("", index=rows.index, dtype="string")
    replay = rows["replay_ms"].astype("float64")
    for _, own in replay[replay > 0].groupby(rows["device"]):
        of_kernel = [rows.loc[own.index, name] for name in ("suite", "kernel", "origin")]
        kinds: list[float] = []
        for median in sorted(own.groupby(of_kernel).median().unique()):
            if not kinds or median > kinds[-1] * (1 + HOST_TOLERANCE):
                kinds.append(median)
        far = np.abs(np.log(own.to_numpy()[:, None] / np.array(kinds)))
        found[own.index] = np.array([f"{1e3 * least:.1f}" for least in kinds])[far.argmin(axis=1)]
    return found


def replay_us(kinds: pd.Series) -> pd.Series:
    """The replay of an empty graph on a kind of host, as :func:`hosts` names it, in µs: float64, missing if unknown."""
    import pandas as pd

    return pd.to_numeric(kinds.replace("", pd.NA)).astype("float64")


def timed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose time enters means, comparisons and claims: verified, and not noisy."""
    return rows[(rows["status"] == "ok") & ~rows["noisy"].fillna(False).astype(bool)]


def once(rows: pd.DataFrame) -> pd.DataFrame:
    """Each kernel and the baseline once a case, whatever the suites that measured them: the fastest row of each.

    ``rows``: of ``analysis_cases``; noisy ones are left out. ``baseline_ms`` and ``speedup`` become those of the case:
    the best of both sides, by one rule.
    """
    rows = rows[~rows["noisy"].fillna(False).astype(bool)]
    against = rows["precision"].replace({"tf32": "float32"})
    best = rows["baseline_ms"].groupby([*(rows[name] for name in CASE), against]).transform("min")
    rows = rows.assign(baseline_ms=best, speedup=best / rows["time_ms"])
    rows = rows.sort_values(["time_ms", "suite"], kind="stable", na_position="last")
    return rows.drop_duplicates([*CASE, "kernel"])


def missing(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Which cuSPARSE algorithms were not run on a case: :data:`COMPARABLE`, ``precision`` and ``baseline_missing``.

    The baseline is the library's best honest configuration: every algorithm whose head names it is run on the case, in
    the same suite and state of L2 and on the same kind of host, or there is no baseline. An algorithm that the
    library refuses counts as run on every host. One that takes a single column is wanted there alone. Cases on which
    none was run have no line.
    """
    members = _members(heads)
    hosts_of_case = rows.loc[rows["host"] != "", COMPARABLE].drop_duplicates()
    own = rows.loc[rows["kernel"].isin(members), [*COMPARABLE, "precision", "kernel"]]
    own = hosts_of_case.merge(own.rename(columns={"host": "ran_on"}), on=UNTIMED)
    own = own[(own["ran_on"] == own["host"]) | (own["ran_on"] == "")]
    run = own.groupby([*COMPARABLE, "precision"])["kernel"].agg(frozenset).rename("run").reset_index()
    of_vectors = {name for name in members if heads[name].get("one_column")}
    wanted = {dtype: frozenset(name for name, of in members.items() if of == dtype) for dtype in members.values()}
    run["baseline_missing"] = [
        ", ".join(sorted(wanted[dtype] - names - (of_vectors if n > 1 else set())))
        for dtype, n, names in zip(run["precision"], run["n"], run["run"], strict=True)
    ]
    return run.drop(columns="run")


def baseline(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], lacking: pd.DataFrame) -> pd.DataFrame:
    """The fastest cuSPARSE row of each comparable case and precision whose algorithms were all run: the columns of the
    case, ``baseline_ms`` and ``winner``. ``lacking`` is the table of :func:`missing`.

    A case whose fastest row is noisy has no baseline: the next algorithm would flatter all others.
    """
    case = [*COMPARABLE, "precision"]
    own = rows[(rows["status"] == "ok") & rows["kernel"].isin(_members(heads))].merge(lacking, on=case)
    own = own[own["baseline_missing"] == ""].sort_values(["time_ms", "kernel"]).drop_duplicates(case)
    return timed(own)[[*case, "time_ms", "kernel"]].rename(columns={"time_ms": "baseline_ms", "kernel": "winner"})


def _members(heads: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Kernel that competes for the derived baseline → its precision."""
    return {name: head["dtype"]["a"] for name, head in heads.items() if head.get("baseline") == BEST}


def over_own_call(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]]) -> pd.Series:
    """Time of the library call of a row's study over the time of the row; empty for studies without such a call.

    ``heads``: the head of that call names the study in ``baseline``.
    """
    calls = {head["baseline"]: name for name, head in heads.items() if head.get("baseline") not in (None, BEST)}
    timed_rows = timed(rows)
    theirs = timed_rows[timed_rows["kernel"].isin(calls.values())]
    theirs = theirs[[*COMPARABLE, "kernel", "time_ms"]].rename(columns={"kernel": "call"})
    wanted = rows["study"].map(calls).astype("string")
    asked = rows[COMPARABLE].assign(call=wanted)
    found = asked.merge(theirs, on=[*COMPARABLE, "call"], how="left")["time_ms"].to_numpy(dtype=float)
    return (found / rows["time_ms"]).where(rows.index.isin(timed_rows.index) & wanted.notna())


def best_rows(rows: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The derived kernel cusparse_best as rows of its own: copies of the winners; ``message`` names the variant."""
    import pandas as pd

    winners = rows.merge(found, on=[*COMPARABLE, "precision"], how="inner")
    winners = winners[winners["kernel"] == winners["winner"]]
    names = BEST + "_" + winners["precision"].map(SHORT).astype("string")
    winners = winners.assign(message=winners["winner"], kernel=pd.array(names, dtype="string")).drop(
        columns=["winner", "baseline_ms"]
    )
    return winners.sort_values(["protocol", "measured_at"]).drop_duplicates(KEY, keep="last")


def is_derived(kernel: pd.Series) -> pd.Series:
    """Which rows are the derived baseline and not a kernel that was launched."""
    return kernel.isin([name for name in kernel.unique() if name.startswith(BEST + "_")])


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
        if head is None or (name := roofline.unit(head)) is None:
            return unknown
        through = roofline.instructions(head)
        return roofline.limit_gflops(name, through, measured.get(device, {}), peaks.get(device, {})) or unknown

    import pandas as pd

    kernels = rows["kernel"].where(~is_derived(rows["kernel"]), rows["message"])
    keys = list(zip(rows["device"], kernels, strict=True))
    limits = {key: limit(*key) for key in dict.fromkeys(keys)}
    found = [limits[key] for key in keys]
    return pd.DataFrame(found, index=rows.index, columns=["compute_limit_gflops", "compute_basis"])


def families_of(heads: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Kernel → the family that its head names, or its own name where it stands alone. A variant that its head takes
    out of the family of its file tries one decision; it is no choice of tiles and has an empty name."""
    files = {head["path"] for head in heads.values() if head.get("family")}
    return {name: head.get("family") or ("" if head.get("path") in files else name) for name, head in heads.items()}


@table()
def cases(
    measured: pd.DataFrame,
    recorded: pd.DataFrame,
    matrices: pd.DataFrame,
    compilations: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str],
    peaks: Mapping[str, Mapping[str, float]],
    dram_gb_per_s: Mapping[str, float],
    measured_peaks: Mapping[str, Mapping[tuple[str, str], float]] | None = None,
    l2_gb_per_s: Mapping[str, float] | None = None,
    described: Mapping[str, Mapping[str, Any]] | None = None,
) -> pd.DataFrame:
    """Table ``analysis_cases`` from two tables ``measure``, ``matrices`` and ``kernels``.

    ``heads``: kernel → head as plain values; ``fingerprints``: kernel → hash of its present source; ``peaks``:
    device → unit → GFLOP/s of the datasheets; ``measured_peaks``: device → (unit, instructions) → GFLOP/s, which come
    before them; ``dram_gb_per_s`` and ``l2_gb_per_s``: device → highest measured rate; ``described``: device → document
    ``measured_device`` or ``device``, for the size of L2 and the highest clock. A row whose device or kernel is in none
    of these keeps its time and has no bound.

    What binds a row is the lowest of what memory (:func:`.roofline.memory_limits`), the unit that multiplies and the
    replay of an empty graph allow: a limit that no verified time exceeds by more than noise.
    """
    import numpy as np
    import pandas as pd

    described = described or {}
    rows = gather(measured, recorded)
    changed = stale(rows, fingerprints, compilations)
    changed |= packed_otherwise(rows, heads, fingerprints, compilations)
    rows["stale"] = changed.astype("boolean")
    kinds = dict(zip(matrices["matrix"], matrices["kind"], strict=True))
    rows["kind"] = rows["matrix"].map(kinds).astype("string").fillna("unknown")
    rows["precision"] = rows["dtype_a"]
    rows["host"] = hosts(rows)
    highest = rows["device"].map({name: record.get("max_sm_clock_mhz") for name, record in described.items()})
    slow = rows["sm_clock_mhz"].astype("float64") < THROTTLED * highest.astype("float64")
    rows["throttled"] = slow.astype("boolean").where((rows["status"] == "ok").to_numpy())
    rows["steps"] = rows["kernel"].map({name: head.get("steps", 1) for name, head in heads.items()}).fillna(1)
    rows["steps"] = rows["steps"].astype("Int64")
    lacking = missing(rows, heads)
    against = baseline(rows, heads, lacking)
    rows = pd.concat([rows, best_rows(rows, against)], ignore_index=True).sort_values(KEY, ignore_index=True)

    # No library multiplies CSR in TF32: its users would otherwise call the FP32 product.
    against = against.drop(columns="winner").rename(columns={"precision": "against"})
    rows["against"] = rows["precision"].replace({"tf32": "float32"})
    lacking = lacking.rename(columns={"precision": "against"})
    rows = rows.merge(against, on=[*COMPARABLE, "against"], how="left")
    rows = rows.merge(lacking, on=[*COMPARABLE, "against"], how="left").drop(columns="against")
    lacks = rows["baseline_missing"].astype("string").fillna("all")
    rows["baseline_missing"] = lacks.where(rows["status"] == "ok", "")
    rows["speedup"] = (rows["baseline_ms"] / rows["time_ms"]).where(~rows["noisy"].fillna(False).astype(bool))

    rows["over_own_call"] = over_own_call(rows, heads)

    ok = rows["status"] == "ok"
    flops = 2.0 * rows["nnz"].astype("float64") * rows["n"].astype("float64")
    rows["intensity_flop_per_byte"] = (flops / rows["compulsory_bytes"].astype("float64")).where(ok)
    bandwidth = rows["device"].map(dict(dram_gb_per_s)).astype("float64")
    rows["bandwidth_limit_gflops"] = (rows["intensity_flop_per_byte"] * bandwidth).where(ok)
    l2_bytes = {name: record["l2_bytes"] for name, record in described.items()}
    memory = roofline.memory_limits(rows, dram_gb_per_s, l2_gb_per_s or {}, l2_bytes)
    rows["memory_limit_gflops"] = memory.min(axis=1).where(ok & memory["dram"].notna())
    limits = compute_limits(rows, heads, peaks, measured_peaks or {})
    rows["compute_limit_gflops"] = limits["compute_limit_gflops"].where(ok)
    rows["compute_basis"] = limits["compute_basis"].where(ok, "")

    rows["family"] = rows["kernel"].map(families_of(heads)).astype("string").fillna(rows["kernel"])

    slabs = {name: head["tile"].get("slab") for name, head in heads.items()}
    rows["strip_columns"] = rows["kernel"].map(slabs).astype("Int64")

    every = rows[["memory_limit_gflops", "compute_limit_gflops"]].assign(launch=roofline.launch_limit(rows))
    known = every.notna().all(axis=1) & (every["memory_limit_gflops"] > 0)
    names = np.array(["memory", "compute", "launch"])[every.fillna(np.inf).to_numpy().argmin(axis=1)]
    rows["bound"] = pd.array(np.where(known, names, ""), dtype="string")
    rows["bound_fraction"] = rows["useful_gflops"] / every.min(axis=1).where(known)
    return contracts.check(rows, "analysis_cases")
