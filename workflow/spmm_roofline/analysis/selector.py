"""Which kernel to choose without measuring: times predicted from structure and ceilings, and what a wrong choice costs.

The time of a kernel is a sum of physical terms (:func:`terms`: bytes, flops, non-zeros, long rows, each over the
ceiling that limits it) with coefficients that are not negative, so that more work never predicts less time. Kernels of
one study and format share them (:data:`ALIKE`), so that cases that one of them was not measured on do not part them.
What the sum leaves over on the measured cases is carried to cases like them by a Gaussian process on the logarithm
(Rasmussen & Williams 2006, algorithm 2.1, Matérn covariance, equation 4.17); far from all of them the sum stands alone.

Predictions are made for every kernel alike: one whose rows are new is learnt like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import contracts

if TYPE_CHECKING:
    import pandas as pd

#: Columns of the table ``matrices`` that the prediction reads.
FEATURES = (
    *("m", "k", "nnz", "nonempty_columns", "empty_rows", "row_length_mean", "row_length_max", "row_length_std"),
    *("tiles_16x16", "tile_fill_16x16_fraction", "tiles_16x32", "tile_24_16x32_fraction", "alpha_fraction"),
)
VALUE_BYTES = {"float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}

#: Term → what it stands for in a sentence.
GROUPS = {
    "launch": "launching",
    "read_a": "moving A, B and C once through DRAM",
    "read_b": "moving A, B and C once through DRAM",
    "write_c": "moving A, B and C once through DRAM",
    "gather": "fetching rows of B through L2",
    "condensed": "fetching rows of B through L2",
    "miss": "fetching rows of B again from DRAM",
    "flops": "multiplying what the format stores",
    "nonzeros": "handling non-zeros one by one",
    "rows": "handling rows one by one",
    "tiles": "handling 16x16 tiles",
    "wide_tiles": "handling 16x32 tiles",
    "uneven": "waiting for long rows",
    "longest": "waiting for the longest row",
    "longest_wide": "waiting for the longest row",
}

#: What the bytes and the slots of a format grow with: counts that :func:`counts` takes from the structure.
COUNTS = ("non-zeros", "rows", "slots of 16x16 tiles", "slots of 16x32 tiles", "slots of 16x1 columns", "slots of A")

#: Kernels whose rows agree in these columns share their coefficients.
ALIKE = ("study", "format", "precision")

#: A kernel is no candidate before it was measured on so many matrices: fewer say nothing about another one.
LEAST_MATRICES = 5
#: How many of the best are run once where somebody has the time to try (``tried_regret``).
TRIED = 3
#: Shares of the cases outside the interval that is given with a prediction.
INTERVAL = 0.8

# Variances of the logarithm: common to all cases of a kernel, of what is like or unlike, of one measurement; and the
# distance at which two cases have little in common, in the coordinates of :func:`place`.
_COMMON, _LIKENESS, _NOISE, _LENGTH = 0.02, 0.1, 0.002, 2.5
_RIDGE, _ROUNDS = 1e-2, 5
# Ridge on each of COUNTS.
_RELUCTANCE = (1e-2, 1e-2, 1e-4, 1e-5, 1e-3, 1e-6)


@dataclass(frozen=True)
class Work:
    """What a kernel makes of A: multiples of :data:`COUNTS` for the bytes that it reads and the slots that it
    multiplies, and the ceiling of the unit that does; and the columns of C that it computes at a time, 0 if it does not
    work in strips of them."""

    precision: str
    strip_columns: int
    compute_limit_gflops: float
    bytes: np.ndarray
    slots: np.ndarray


@dataclass(frozen=True)
class Rates:
    """What the device reaches: GB/s of DRAM and of L2, and the bytes of L2."""

    dram_gb_per_s: float
    l2_gb_per_s: float
    l2_bytes: float


def counts(case: Mapping[str, Any]) -> np.ndarray:
    """The counts :data:`COUNTS` of each case, float64[cases, 6]; ``case`` as in :func:`terms`.

    Bytes and slots of any format are a sum of multiples of these, or close to one, so that no matrix need be packed to
    know them.
    """
    get = _columns(case)
    nnz, alpha = get("nnz"), get("alpha_fraction")
    columns = np.divide(nnz, alpha, out=np.zeros_like(nnz), where=alpha > 0)
    return np.column_stack(
        [nnz, get("m"), 256 * get("tiles_16x16"), 512 * get("tiles_16x32"), columns, get("m") * get("k")]
    )


def terms(case: Mapping[str, Any], about: Work, rates: Rates) -> np.ndarray:
    """Times in ms, float64[cases, len(GROUPS)]: what each part of a product would take at its ceiling.

    ``case``: columns :data:`FEATURES`, ``n`` and ``warm`` (bool), one entry a case; ``about``: what the kernel makes of
    A. What has no ceiling (rows, tiles, the longest row) is brought to the order of a millisecond; its coefficient says
    the rest.
    """
    get = _columns(case)
    m, nnz, n = get("m"), get("nnz"), get("n")
    dram, l2 = rates.dram_gb_per_s * 1e6, rates.l2_gb_per_s * 1e6  # bytes in a ms
    size, counted = VALUE_BYTES[about.precision], counts(case)
    a, b, c = counted @ about.bytes, get("nonempty_columns") * n * size, m * n * size
    # Of what is larger than L2 little is left there, for a warm call as for the next row that wants it.
    far = np.where(get("warm") > 0, (a + b + c) / (a + b + c + rates.l2_bytes), 1.0)
    # A strip costs the same where C has fewer columns.
    strips = np.ceil(n / (about.strip_columns or 32))
    wide = strips * about.strip_columns if about.strip_columns else n
    parts = {
        "launch": np.full_like(nnz, 1e-3),
        "read_a": far * a / dram,
        "read_b": far * b / dram,
        "write_c": c / dram,
        "gather": nnz * wide * size / l2,
        "condensed": counted[:, 4] / 16 * wide * size / l2,
        "miss": b / (b + rates.l2_bytes) * nnz * n * size / dram,
        "flops": 2 * (counted @ about.slots) * wide / (about.compute_limit_gflops * 1e6),
        "nonzeros": nnz * strips * 1e-9,
        "rows": m * strips * 1e-9,
        "tiles": get("tiles_16x16") * strips * 16e-9,
        "wide_tiles": get("tiles_16x32") * strips * 16e-9,
        "uneven": get("row_length_std") * m * n * size / l2,
        "longest": get("row_length_max") * 1e-5,
        "longest_wide": get("row_length_max") * strips * 1e-6,
    }
    return np.column_stack([parts[name] for name in GROUPS])


def compulsory_bytes(case: Mapping[str, Any], precision: str) -> float:
    """Bytes of one case that no kernel can save: A as CSR, the rows of B that A touches, and C, each once."""
    size = VALUE_BYTES[precision]
    a = case["nnz"] * (size + 4) + 4 * (case["m"] + 1)
    return float(a + (case["nonempty_columns"] + case["m"]) * case["n"] * size)


def _least(parts: np.ndarray, floor_ms: float) -> np.ndarray:
    """What no call can be faster than, in ms: A and B once through DRAM, and the fastest call that was seen."""
    names = list(GROUPS)
    return np.maximum(parts[:, names.index("read_a")] + parts[:, names.index("read_b")], floor_ms)


def place(case: Mapping[str, Any], rates: Rates) -> np.ndarray:
    """Coordinates in which like cases are close, float64[cases, 12]: logarithms and shares, each of a spread near 1."""
    get = _columns(case)
    n, mean = get("n"), get("row_length_mean")
    b = get("nonempty_columns") * n * 4
    return np.column_stack(
        [
            np.log(n),
            np.log(1 + get("nnz")) / 2.5,
            np.log(get("m")) / 2,
            np.log(1 + mean) / 1.3,
            np.log(1 + get("row_length_std") / np.maximum(mean, 0.1)) * 2,
            np.log(1 + get("row_length_max")) / 1.5,
            np.log(get("tile_fill_16x16_fraction") + 1e-3) / 1.2,
            np.log(get("alpha_fraction") + 1e-3) / 0.8,
            get("tile_24_16x32_fraction") * 2,
            get("empty_rows") / get("m") * 3,
            b / (b + rates.l2_bytes) * 2,
            get("warm"),
        ]
    )


def _columns(case: Mapping[str, Any]) -> Callable[[str], np.ndarray]:
    return lambda name: np.atleast_1d(np.asarray(case[name], dtype=np.float64))


def fit(parts: np.ndarray, times_ms: np.ndarray) -> np.ndarray:
    """Coefficients ≥ 0, float64[terms], of the terms ``parts`` [cases, terms] for ``times_ms`` [cases].

    Least squares on the logarithm of the times, by Gauss and Newton with a non-negative solution each round (Lawson &
    Hanson 1974); a small ridge on the shares keeps terms apart that say the same.
    """
    from scipy.optimize import nnls

    shares = parts / times_ms[:, None]
    scale = np.median(shares, axis=0) + shares.mean(axis=0) + 1e-12
    ridge = _RIDGE * np.sqrt(len(times_ms)) * np.eye(len(scale))
    now, found = times_ms, np.zeros(len(scale))
    for turn in range(_ROUNDS):
        wanted = 1 + np.log(times_ms / now)
        design = np.vstack([parts / now[:, None] / scale, ridge])
        found, _ = nnls(design, np.concatenate([wanted, np.zeros(len(scale))]))
        now = np.maximum(parts / scale @ found, 1e-3 * times_ms)
        now = np.sqrt(now * times_ms) if turn == 0 else now  # the first step may reach far
    return found / scale


def _likeness(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Covariance of what the terms leave over, float64[len(one), len(other)]."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    distance = np.sqrt(3 * np.maximum(squares, 0)) / _LENGTH
    return _COMMON + _LIKENESS * (1 + distance) * np.exp(-distance)


def _base(parts: np.ndarray, coefficients: np.ndarray, floor_ms: float) -> np.ndarray:
    """Logarithm of the sum of terms, which is not below what the device can do."""
    return np.log(np.maximum(parts @ coefficients, _least(parts, floor_ms)))


@dataclass(frozen=True)
class Kernel:
    """What is known of one kernel: its head in short, its coefficients, and what they left over on its cases."""

    name: str
    study: str
    format: str
    dtype: Mapping[str, str]
    layout: Mapping[str, str]
    requires: Mapping[str, int]
    kinds: int
    """kinds of matrices that it was measured on"""
    work: Work = field(repr=False)
    coefficients: np.ndarray
    """float64[len(GROUPS)], in multiples of the time at the ceiling"""
    widths: tuple[int, ...]
    """values of n that it was measured with, ascending"""
    most: Mapping[str, int]
    """``m`` and ``nnz`` of the largest matrices that it was measured on"""
    places: np.ndarray = field(repr=False)
    """float64[cases, 12], from :func:`place`"""
    residuals: np.ndarray = field(repr=False)
    """float64[cases], logarithm of measured over the sum of terms"""

    @cached_property
    def _solved(self) -> tuple[Any, np.ndarray]:
        from scipy.linalg import cho_factor, cho_solve

        factor = cho_factor(_likeness(self.places, self.places) + _NOISE * np.eye(len(self.places)), lower=True)
        return factor, cho_solve(factor, self.residuals)

    def predict(self, parts: np.ndarray, where: np.ndarray, floor_ms: float) -> tuple[np.ndarray, np.ndarray]:
        """Logarithm of the time in ms and its standard deviation, float64[cases] each.

        ``parts`` from :func:`terms` and ``where`` from :func:`place` of the same cases.
        """
        from scipy.linalg import cho_solve

        factor, weights = self._solved
        near = _likeness(where, self.places)
        known = np.einsum("ij,ji->i", near, cho_solve(factor, near.T))
        spread = np.sqrt(np.maximum(_COMMON + _LIKENESS + _NOISE - known, _NOISE))
        return _base(parts, self.coefficients, floor_ms) + near @ weights, spread


# --- training ---------------------------------------------------------------------------------------------------------


def gather(cases: pd.DataFrame, matrices: pd.DataFrame, device: str) -> pd.DataFrame:
    """Verified times of ``device``, a row a kernel × structure × n × l2, with the features of the structure.

    From the tables ``analysis_cases`` and ``matrices``. A structure that several suites measured counts once, with the
    geometric mean; the derived cusparse_best is left out. Rows of a kernel that has changed since stay until it is
    measured again: an old time of it says more than none.
    """
    from .cases import is_derived

    rows = cases[(cases["status"] == "ok") & (cases["device"] == device) & (cases["time_ms"] > 0)]
    rows = rows[(rows["protocol"] == rows["protocol"].max()) & ~is_derived(rows["kernel"])]
    time_ms = rows["time_ms"].astype("float64")
    rows = rows.assign(log_ms=np.log(time_ms), slots=rows["padded_gflops"] * time_ms * 1e6 / (2 * rows["n"]))
    once = rows.groupby(["precision", "kernel", "matrix_sha256", "n", "l2"], as_index=False).agg(
        log_ms=("log_ms", "mean"),
        study=("study", "first"),
        format=("format", "first"),
        strip_columns=("strip_columns", "first"),
        compute_limit_gflops=("compute_limit_gflops", "first"),
        format_bytes=("format_bytes", "first"),
        slots=("slots", "first"),
    )
    about = matrices.drop_duplicates("matrix_sha256")[["matrix_sha256", "matrix", "kind", *FEATURES]]
    found = once.merge(about, on="matrix_sha256").assign(warm=lambda rows: rows["l2"] == "warm")
    return found.sort_values(["precision", "kernel", "matrix", "n", "l2"], ignore_index=True)


def _arrays(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of one kernel's rows that numbers are taken from, float64 each."""
    columns = (*FEATURES, "n", "warm", "log_ms", "format_bytes", "slots", "strip_columns", "compute_limit_gflops")
    return {name: rows[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns}


def work(case: Mapping[str, np.ndarray], precision: str) -> Work:
    """What one kernel makes of A, from its measured cases: :func:`terms`' columns, ``format_bytes``, ``slots`` and
    ``strip_columns`` (NaN where it has none).

    Non-negative least squares on the relative error of both.
    """
    limit, counted = float(case["compute_limit_gflops"][0]), counts(case)
    return Work(
        precision=precision,
        strip_columns=int(np.nan_to_num(case["strip_columns"][0])),
        compute_limit_gflops=limit if limit > 0 else 1e3,  # nobody knows the unit: its coefficient will tell
        bytes=_multiples(counted, case["format_bytes"]),
        slots=_multiples(counted, case["slots"]),
    )


def _multiples(counted: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    from scipy.optimize import nnls

    some = wanted > 0
    if not some.any():
        return np.zeros(counted.shape[1])
    shares = counted[some] / wanted[some, None]
    scale = shares.max(axis=0) + 1e-12
    # Where every tile was full, bytes of tiles and of a dense A look alike: the ridge lets the larger count have them,
    # which is the safe guess for a sparser matrix. It leaves a trace of the others.
    ridge = np.diag(np.sqrt(len(shares)) * np.array(_RELUCTANCE))
    found, _ = nnls(np.vstack([shares / scale, ridge]), np.concatenate([np.ones(len(shares)), np.zeros(len(scale))]))
    return _rounded(np.where(found > 1e-3, found / scale, 0.0))


def train(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], rates: Rates) -> dict[str, Kernel]:
    """Kernel → what its rows teach; ``rows`` from :func:`gather`, ``heads``: kernel → head as plain values."""
    floor_ms = float(np.exp(rows["log_ms"].min())) if len(rows) else 0.0
    found = {}
    for _, alike in rows[rows["kernel"].isin(heads)].groupby(list(ALIKE), sort=True):
        enough = alike.groupby("kernel")["matrix"].transform("nunique") >= LEAST_MATRICES
        owned = {name: own for name, own in alike[enough].groupby("kernel", sort=True)}
        cases = {name: _arrays(own) for name, own in owned.items()}
        made = {name: work(case, heads[name]["dtype"]["a"]) for name, case in cases.items()}
        parts = {name: terms(case, made[name], rates) for name, case in cases.items()}
        if not owned:
            continue
        coefficients = _rounded(_shared(parts, cases))
        for name, own in owned.items():
            head, log_ms = heads[name], cases[name]["log_ms"]
            found[name] = Kernel(
                name=name,
                study=head["study"],
                format=head["format"],
                dtype={role: head["dtype"][role] for role in ("a", "accumulator", "c")},
                layout=dict(head["layout"]),
                requires=dict(head["requires"]),
                kinds=int(own["kind"].nunique()),
                work=made[name],
                coefficients=coefficients,
                widths=tuple(sorted(map(int, own["n"].unique()))),
                most={name: int(own[name].max()) for name in ("m", "nnz")},
                places=place(cases[name], rates),
                residuals=np.round(log_ms - _base(parts[name], coefficients, floor_ms), 4),
            )
    return dict(sorted(found.items()))


def _shared(parts: Mapping[str, np.ndarray], cases: Mapping[str, Mapping[str, np.ndarray]]) -> np.ndarray:
    """Coefficients of all kernels of ``parts`` together; ``cases`` as of :func:`_arrays`."""
    times_ms = np.exp(np.concatenate([cases[name]["log_ms"] for name in parts]))
    return fit(np.vstack(list(parts.values())), times_ms)


def _rounded(values: np.ndarray, digits: int = 4) -> np.ndarray:
    """``values`` with so many significant digits, as they are stored."""
    return np.array([float(f"{value:.{digits}g}") for value in values])


def held_out(rows: pd.DataFrame, rates: Rates, by: str) -> pd.DataFrame:
    """``rows`` with ``predicted`` and ``spread``, each from the rows of all other values of column ``by`` alone.

    Both are logarithms, NaN where fewer than :data:`LEAST_MATRICES` matrices are left to learn from. Coefficients are
    fitted anew for each value; of the Gaussian process the part that is left out is taken back out of one inverse
    (Rasmussen & Williams 2006, equations 5.10 to 5.12, in blocks).
    """
    floor_ms = float(np.exp(rows["log_ms"].min())) if len(rows) else 0.0
    predicted, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for _, alike in rows.groupby(list(ALIKE), sort=True):
        precision = alike["precision"].iloc[0]
        owned = {name: own for name, own in alike.groupby("kernel", sort=True)}
        cases = {name: _arrays(own) for name, own in owned.items()}
        inverses = {}
        for name, case in cases.items():
            where = place(case, rates)
            inverses[name] = np.linalg.inv(_likeness(where, where) + _NOISE * np.eye(len(where)))
        for group in alike[by].unique():
            out = {name: own[by].to_numpy() == group for name, own in owned.items()}
            able = [name for name, own in owned.items() if own["matrix"][~out[name]].nunique() >= LEAST_MATRICES]
            seen = {name: {key: values[~out[name]] for key, values in cases[name].items()} for name in able}
            made = {name: work(case, precision) for name, case in seen.items()}
            if not any(out[name].any() for name in able):
                continue
            coefficients = _shared({name: terms(case, made[name], rates) for name, case in seen.items()}, seen)
            for name in able:
                at, left_out = rows.index.get_indexer(owned[name].index), out[name]
                if not left_out.any():
                    continue
                base = _base(terms(cases[name], made[name], rates), coefficients, floor_ms)
                left, inverse = cases[name]["log_ms"] - base, inverses[name]
                covariance = np.linalg.inv(inverse[np.ix_(left_out, left_out)])
                predicted[at[left_out]] = base[left_out] + left[left_out] - covariance @ (inverse[left_out] @ left)
                spread[at[left_out]] = np.sqrt(np.diag(covariance))
    return rows.assign(predicted=predicted, spread=spread)


def intervals(judged: pd.DataFrame) -> dict[str, float]:
    """Precision → standard deviations within which :data:`INTERVAL` of the held-out times lie; ``judged`` from
    :func:`held_out`."""
    known = judged[judged["predicted"].notna()]
    off = ((known["log_ms"] - known["predicted"]).abs() / known["spread"]).groupby(known["precision"])
    return {precision: round(float(value), 3) for precision, value in off.quantile(INTERVAL).items()}


# --- the table --------------------------------------------------------------------------------------------------------


def selector(cases: pd.DataFrame, matrices: pd.DataFrame, rates: Mapping[str, Rates]) -> pd.DataFrame:
    """Table ``analysis_selector``: for each case what is chosen by those who never saw its matrix, or its kind.

    Only cases with at least two candidates count, a candidate being a kernel that was measured on this case and on at
    least :data:`LEAST_MATRICES` matrices that are not held out. ``rates``: device → its ceilings; a device without
    them is left out.
    """
    found = []
    for device in sorted(set(cases["device"]) & set(rates)):
        rows = gather(cases, matrices, device)
        for name, by in (("matrix", "matrix_sha256"), ("kind", "kind")):
            chosen = _choices(held_out(rows, rates[device], by)).assign(device=device, held_out=name)
            found += chosen.to_dict("records")
    key = list(contracts.table("analysis_selector").key)
    return contracts.frame(sorted(found, key=lambda row: [row[column] for column in key]), "analysis_selector")


def _choices(judged: pd.DataFrame) -> pd.DataFrame:
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


# --- the stored model -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """Everything that a prediction for one device needs."""

    device: str
    rates: Rates
    floor_ms: float
    intervals: Mapping[str, float]
    kernels: Mapping[str, Kernel]

    def predict(self, kernel: Kernel, case: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times in ms [cases], the factors of their interval [cases], and the terms in ms [cases, len(GROUPS)] that
        make them up; ``case`` as in :func:`terms`."""
        precision = kernel.dtype["a"]
        parts = terms(case, kernel.work, self.rates)
        log_ms, spread = kernel.predict(parts, place(case, self.rates), self.floor_ms)
        return np.exp(log_ms), np.exp(spread * self.intervals.get(precision, 1.0)), parts * kernel.coefficients


def write_model(
    cases: str | Path,
    matrices: str | Path,
    ceilings: str | Path,
    devices: str | Path,
    heads: Mapping[str, Mapping[str, Any]],
    out: str | Path,
) -> None:
    """Write the document ``selector`` to ``out`` from the CSVs of four tables of the analysis; ``heads``: kernel → head
    as plain values. Raises :class:`contracts.ContractError` for a table that breaks its contract."""
    rates = known_rates(contracts.read(ceilings, "analysis_ceilings"), contracts.read(devices, "analysis_devices"))
    rows = contracts.read(cases, "analysis_cases")
    document = model_document(rows, contracts.read(matrices, "matrices"), heads, rates)
    contracts.write_text(out, model_text(contracts.validate(document, "selector", out)))


def known_rates(ceilings: pd.DataFrame, devices: pd.DataFrame) -> dict[str, Rates]:
    """Device → its ceilings, from the tables ``analysis_ceilings`` and ``analysis_devices``; devices of which DRAM, L2
    or the size of L2 is unknown are left out."""
    from .ceilings import bandwidths

    dram, l2 = bandwidths(ceilings, "dram"), bandwidths(ceilings, "l2")
    sizes = devices.set_index("device")["l2_bytes"].dropna().to_dict()
    return {
        device: Rates(float(dram[device]), float(l2[device]), int(sizes[device]))
        for device in sorted(dram.keys() & l2.keys() & sizes.keys())
    }


def model_document(
    cases: pd.DataFrame, matrices: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], rates: Mapping[str, Rates]
) -> dict[str, Any]:
    """The document ``selector``: for each device what :func:`train` finds in all its rows, in readable form."""
    found = {device: _document(gather(cases, matrices, device), heads, rates[device]) for device in sorted(rates)}
    return {"devices": {device: content for device, content in found.items() if content["kernels"]}}


def _document(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], rates: Rates) -> dict[str, Any]:
    kernels = train(rows, heads, rates)
    used = rows[rows["kernel"].isin(kernels)]
    about = used.drop_duplicates("matrix").sort_values("matrix")[["matrix", *FEATURES]]
    number = {name: place for place, name in enumerate(about["matrix"])}
    keys = sorted({(number[row.matrix], int(row.n), row.l2) for row in used.itertuples()})
    position = {key: place for place, key in enumerate(keys)}
    stored = {}
    for name, own in used.groupby("kernel", sort=True):
        kernel = kernels[name]
        stored[name] = {
            "study": kernel.study,
            "format": kernel.format,
            "dtype": kernel.dtype,
            "layout": kernel.layout,
            "requires": kernel.requires,
            "kinds": kernel.kinds,
            "strip_columns": kernel.work.strip_columns,
            "compute_limit_gflops": kernel.work.compute_limit_gflops,
            "bytes": _named(COUNTS, kernel.work.bytes),
            "slots": _named(COUNTS, kernel.work.slots),
            "coefficients": _named(GROUPS, kernel.coefficients),
            "cases": [position[number[row.matrix], int(row.n), row.l2] for row in own.itertuples()],
            "residuals": kernel.residuals.tolist(),
        }
    return {
        "rates": {"dram_gb_per_s": rates.dram_gb_per_s, "l2_gb_per_s": rates.l2_gb_per_s, "l2_bytes": rates.l2_bytes},
        "floor_ms": float(np.exp(rows["log_ms"].min())) if len(rows) else 0.0,
        "intervals": intervals(held_out(used, rates, "matrix_sha256")) if len(used) else {},
        "features": list(FEATURES),
        "matrices": {row[0]: [_plain(value) for value in row[1:]] for row in about.itertuples(index=False, name=None)},
        "cases": [list(key) for key in keys],
        "kernels": stored,
    }


def _named(names: Iterable[str], values: np.ndarray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True) if value}


def _unnamed(names: Iterable[str], values: Mapping[str, float]) -> np.ndarray:
    return np.array([values.get(name, 0.0) for name in names], dtype=np.float64)


def _plain(value: Any) -> float | int:
    value = float(value)
    return int(value) if value.is_integer() else float(f"{value:.7g}")


def model_text(document: Mapping[str, Any]) -> str:
    """The document as JSON that people can read and ``diff``: a line for each matrix and each list of a kernel."""
    return _lines(document) + "\n"


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with a line an entry of a mapping; lists and mappings of plain values take one line."""
    import json

    if not isinstance(value, Mapping) or not any(isinstance(item, Mapping | list) for item in value.values()):
        return json.dumps(value, ensure_ascii=False)
    pad = " " * (depth + 1)
    inner = ",\n".join(f"{pad}{json.dumps(name)}: {_lines(item, depth + 1)}" for name, item in value.items())
    return f"{{\n{inner}\n{' ' * depth}}}"


def read_model(document: Mapping[str, Any], device: str) -> Model:
    """The model of ``device`` out of a document ``selector``. Raises ``KeyError`` if it is not in there, or damaged."""
    content = document["devices"][device]
    rates = Rates(**content["rates"])
    names, features = list(content["matrices"]), np.array(list(content["matrices"].values()), dtype=np.float64)
    keys = content["cases"]
    matrix = np.array([key[0] for key in keys], dtype=np.int64)
    case = {name: features[matrix, column] for column, name in enumerate(content["features"])} if names else {}
    case |= {"n": [key[1] for key in keys], "warm": [key[2] == "warm" for key in keys]}
    places = place(case, rates) if names else np.zeros((0, 0))
    kernels = {
        name: Kernel(
            name=name,
            **{key: entry[key] for key in ("study", "format", "dtype", "layout", "requires", "kinds")},
            work=Work(
                precision=entry["dtype"]["a"],
                strip_columns=entry["strip_columns"],
                compute_limit_gflops=entry["compute_limit_gflops"],
                bytes=_unnamed(COUNTS, entry["bytes"]),
                slots=_unnamed(COUNTS, entry["slots"]),
            ),
            coefficients=_unnamed(GROUPS, entry["coefficients"]),
            widths=tuple(sorted({keys[position][1] for position in entry["cases"]})),
            most={name: int(case[name][entry["cases"]].max()) for name in ("m", "nnz")},
            places=places[entry["cases"]],
            residuals=np.array(entry["residuals"]),
        )
        for name, entry in content["kernels"].items()
    }
    return Model(device, rates, content["floor_ms"], content["intervals"], kernels)
