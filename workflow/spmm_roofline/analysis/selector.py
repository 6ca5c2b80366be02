"""What the selector's choice costs on cases that its training did not see, and the model that is trained on all rows.

The selector itself is :mod:`spmm_roofline.selector`; here it meets the tables of this stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import contracts, forked
from ..selector.document import make, text
from ..selector.terms import FEATURES, Rates
from ..selector.training import LEAST_MATRICES, fastest_ms
from ..selector.validation import Validation
from .cases import is_derived, replay_us, timed
from .ceilings import bandwidths
from .registry import ordered, steps, table, value
from .roofline import unit

if TYPE_CHECKING:
    import pandas as pd

#: How many of the best predictions are run once where somebody has the time to try (``tried_regret``).
TRIED = 3
#: What is held out → the column that tells it.
HELD_OUT = {"matrix": "matrix_sha256", "kind": "kind"}


@table(beside=True)
def selector(cases: pd.DataFrame, matrices: pd.DataFrame, rates: Mapping[str, Rates]) -> pd.DataFrame:
    """Table ``analysis_selector``: the kernel chosen for each case when its matrix, or its kind, is held out.

    Only cases with at least two candidates count. A candidate is a kernel that was measured on the case and on at least
    :data:`~spmm_roofline.selector.training.LEAST_MATRICES` matrices that are not held out. ``rates``: device → its
    ceilings; a device without them is left out.
    """

    def chosen(part: tuple[str, str, str]) -> list[dict[str, Any]]:
        name, device, precision = part
        rows = of_device[device]
        validation = Validation(rows[rows["precision"] == precision], rates[device], fastest_ms(rows))
        return contracts.records(choices(validation.held_out(HELD_OUT[name])).assign(device=device, held_out=name))

    of_device = {device: gather(cases, matrices, device) for device in sorted(set(cases["device"]) & set(rates))}
    parts = [
        (name, device, str(precision))
        for name in HELD_OUT
        for device, rows in of_device.items()
        for precision in rows["precision"].value_counts().index  # the largest parts begin first
    ]
    # Nothing else of this stage takes as long.
    found = forked.each(chosen, parts, forked.processors())
    key = list(contracts.table("analysis_selector").key)
    rows = sorted(chain.from_iterable(found), key=lambda row: [row[column] for column in key])
    return contracts.frame(rows, "analysis_selector")


@value("rates", short=True)
def known_rates(ceilings: pd.DataFrame, devices: pd.DataFrame) -> dict[str, Rates]:
    """Device → its ceilings, from the tables ``analysis_ceilings`` and ``analysis_devices``.

    Devices of which DRAM, L2 or the size of L2 is unknown are left out.
    """
    dram, l2 = bandwidths(ceilings, "dram"), bandwidths(ceilings, "l2")
    sizes = devices.set_index("device")["l2_bytes"].dropna().to_dict()
    return {
        device: Rates(float(dram[device]), float(l2[device]), int(sizes[device]))
        for device in sorted(dram.keys() & l2.keys() & sizes.keys())
    }


def gather(cases: pd.DataFrame, matrices: pd.DataFrame, device: str) -> pd.DataFrame:
    """Verified times of ``device`` for the training: one row per kernel × structure × n × l2, with features.

    From the tables ``analysis_cases`` and ``matrices``. A structure that several suites measured counts once, with the
    geometric mean of its times, on the kind of host that launches fastest; noisy rows and the derived cusparse_best are
    left out. Rows of a kernel that has changed since stay until it is measured again: an old time says more than none.
    """
    rows = timed(cases)
    rows = rows[(rows["device"] == device) & (rows["time_ms"] > 0)]
    rows = rows[(rows["protocol"] == rows["protocol"].max()) & ~is_derived(rows["kernel"])]
    structure = ["precision", "kernel", "matrix_sha256", "n", "l2"]
    replays = replay_us(rows["host"]).fillna(0.0)
    rows = rows[replays == replays.groupby([rows[name] for name in structure]).transform("min")]
    time_ms = rows["time_ms"].astype("float64")
    rows = rows.assign(log_ms=np.log(time_ms), slots=rows["padded_gflops"] * time_ms * 1e6 / (2 * rows["n"]))
    once = rows.groupby(structure, as_index=False).agg(
        log_ms=("log_ms", "mean"),
        study=("study", "first"),
        format=("format", "first"),
        strip_columns=("strip_columns", "first"),
        compute_limit_gflops=("compute_limit_gflops", "first"),
        format_bytes=("format_bytes", "first"),
        slots=("slots", "first"),
        preprocess_ms=("preprocess_ms", "median"),
    )
    # A stencil that is stored without entries may lack some features; only kernels made for it can run it anyway.
    known = matrices.dropna(subset=[*FEATURES])
    about = known.drop_duplicates("matrix_sha256")[["matrix_sha256", "matrix", "kind", *FEATURES]]
    found = once.merge(about, on="matrix_sha256").assign(warm=lambda rows: rows["l2"] == "warm")
    return found.sort_values(["precision", "kernel", "matrix", "n", "l2"], ignore_index=True)


def choices(judged: pd.DataFrame) -> pd.DataFrame:
    """Chosen and fastest kernel of each case with two candidates or more; ``judged`` as of :func:`held_out`."""
    case = ["precision", "matrix", "kind", "n", "l2"]
    ranked = judged[judged["predicted"].notna()].sort_values([*case, "predicted", "kernel"])
    candidates = ranked.groupby(case)["kernel"].size()
    chosen = ranked.groupby(case).head(1).set_index(case)
    fastest = ranked.sort_values([*case, "log_ms"], kind="stable").groupby(case).head(1).set_index(case)
    tried = ranked.groupby(case).head(TRIED).groupby(case)["log_ms"].min()
    found = chosen[["kernel"]].assign(
        candidates=candidates,
        unseen=judged.groupby(case)["kernel"].size() - candidates,
        predicted_ms=np.exp(chosen["predicted"]),
        time_ms=np.exp(chosen["log_ms"]),
        fastest=fastest["kernel"],
        fastest_ms=np.exp(fastest["log_ms"]),
        regret=np.expm1(chosen["log_ms"] - fastest["log_ms"]),
        tried_regret=np.expm1(tried - fastest["log_ms"]),
    )
    return found[found["candidates"] > 1].reset_index()


# --- the model of all rows --------------------------------------------------------------------------------------------


def train_on_tables(
    cases: str | Path,
    matrices: str | Path,
    ceilings: str | Path,
    devices: str | Path,
    heads: Mapping[str, Mapping[str, Any]],
    out: str | Path,
    datasheets: Iterable[str | Path],
    may_be_empty: bool = True,
) -> None:
    """Write the document ``selector`` to ``out`` from the CSVs of four tables that this stage wrote.

    ``heads``: kernel → head as plain values; ``datasheets``: documents ``device``. Raises
    :class:`contracts.ContractError` for a file that breaks its contract, and for a model of no kernel unless it
    ``may_be_empty``.
    """
    rates = known_rates(contracts.read(ceilings, "analysis_ceilings"), contracts.read(devices, "analysis_devices"))
    sheets = _sheets(datasheets)
    found = contracts.read(cases, "analysis_cases"), contracts.read(matrices, "matrices")
    _write(*found, rates, heads, sheets, out, may_be_empty=may_be_empty)


def train_on_recorded(
    recorded: str | Path,
    devices: Iterable[str | Path],
    heads: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str],
    out: str | Path,
) -> None:
    """Write the document ``selector`` to ``out`` from the recorded rows alone.

    ``recorded``: folder with one folder per device; ``devices``: documents ``device``; ``heads``: kernel → head
    as plain values; ``fingerprints``: kernel → hash of its source. Raises :class:`contracts.ContractError` for a
    file that breaks its contract and for rows of which no kernel can be trained, and ``FileNotFoundError`` if
    ``recorded`` holds no device.
    """
    devices = list(devices)
    made = recorded_tables(recorded, devices, heads, fingerprints)
    compile_ms = _compile_ms(sorted(Path(recorded).glob("*/kernels.csv")))
    tables = made["cases"], made["matrices"], made["rates"]
    _write(*tables, heads, _sheets(devices), out, compile_ms, may_be_empty=False)


def recorded_tables(
    recorded: str | Path,
    devices: Iterable[str | Path],
    heads: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str],
) -> dict[str, Any]:
    """The inputs of :func:`selector` as the recorded rows alone give them; arguments as of :func:`train_on_recorded`.

    Raises ``FileNotFoundError`` if ``recorded`` holds no device.
    """
    from .. import paths
    from .inputs import Files

    root = Path(recorded)
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root}: there is no such folder; name one that holds a folder for each recorded device"
        )
    folders = sorted(path.parent for path in root.glob("*/device.json"))
    if not folders:
        hint = "; it is a device itself, so name the folder above it" if (root / "device.json").is_file() else ""
        raise FileNotFoundError(f"{root} holds no recorded device: no folder in it has a device.json{hint}")
    made: dict[str, Any] = {
        "files": Files(
            measured=[],
            profiled=[],
            recorded=folders,
            matrices=[],
            formats=[],
            kernels=paths.compiled(),
            devices=devices,
            device_records=[],
            claims=None,
            papers=[],
            measured_ceilings=[],
        ),
        "heads": heads,
        "fingerprints": fingerprints,
    }
    for step in ordered(steps(), made.keys(), wanted=("cases", "matrices", "rates")):
        made[step.name] = step.make(*(made[name] for name in step.inputs))
    return made


def _sheets(paths: Iterable[str | Path]) -> dict[str, dict[str, Any]]:
    """Device → datasheet."""
    found = (contracts.document(path, "device") for path in paths)
    return {sheet["name"]: sheet for sheet in found}


def _compile_ms(paths: Sequence[Path]) -> dict[str, float]:
    """Kernel → median time of its compilations in tables ``kernels``, where it is known."""
    import pandas as pd

    # Devices have compilations in common, so they are read one by one.
    if not paths:
        return {}
    rows = pd.concat([contracts.read(path, "kernels") for path in paths]).dropna(subset=["compile_ms"])
    return {str(name): float(value) for name, value in rows.groupby("kernel")["compile_ms"].median().items()}


def _write(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    rates: Mapping[str, Rates],
    heads: Mapping[str, Mapping[str, Any]],
    sheets: Mapping[str, Mapping[str, Any]],
    out: str | Path,
    compile_ms: Mapping[str, float] | None = None,
    may_be_empty: bool = True,
) -> None:
    rows = {device: gather(cases, matrices, device) for device in rates}
    units = {name: unit(head) or "" for name, head in heads.items() if head["dtype"]["a"] != "none"}
    document = make(rows, heads, rates, sheets, units, compile_ms)
    if not (document["devices"] or may_be_empty):
        raise contracts.ContractError(
            f"no kernel can be trained, so {out} was not written: a model needs verified times of a kernel on "
            f"{LEAST_MATRICES} matrices, and the measured rates of DRAM and L2 of its device"
        )
    contracts.write_text(out, text(contracts.validate(document, "selector", out)))
