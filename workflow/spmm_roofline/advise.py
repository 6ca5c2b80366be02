"""Which kernel to take for a matrix, without measuring: :func:`select` and the command ``spmm-roofline advise``.

The times are those of :mod:`.analysis.selector`, from the stored model of a device (``resources/selector.json``); no
GPU, no results and no kernel sources are needed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from .analysis.selector import Kernel, Model

#: What people call a dtype → what the tables call it.
DTYPES = {
    **{name: name for name in ("float16", "bfloat16", "tf32", "float32", "float64")},
    **{"half": "float16", "fp16": "float16", "bf16": "bfloat16", "single": "float32", "fp32": "float32"},
    **{"double": "float64", "fp64": "float64"},
}
L2_STATES = ("cold", "warm")
LAYOUTS = ("row_major", "column_major")

#: The stored model: in the project, or where an installed package put it.
STORED = (
    Path(__file__).resolve().parents[2] / "resources" / "selector.json",
    Path(sysconfig.get_path("data")) / "share" / "spmm-roofline" / "selector.json",
)

#: Predicted times so close to the shortest are no reason to prefer it.
CLOSE = 1.05
#: A special format is not asked whether it holds A for a kernel that takes so many times longer than a general one.
FAR = 2.0


class SelectionError(ValueError):
    """A question that cannot be answered; the message says why and what to do."""


@dataclass(frozen=True)
class Choice:
    """One kernel and the time predicted for it."""

    kernel: str
    study: str
    format: str
    dtype: Mapping[str, str]
    """dtypes of ``a``, of the sums (``accumulator``) and of ``c``"""
    layout: Mapping[str, str]
    """``row_major`` or ``column_major`` for ``b`` and ``c``"""
    format_bytes: int
    """bytes of A in this format, estimated without packing"""
    time_ms: float
    low_ms: float
    high_ms: float
    """four of five times that were held out of the training lie between these two"""
    shares: Mapping[str, float]
    """what the time goes into → its share of the sum of terms, 0…1, the largest first"""

    @property
    def bound(self) -> str:
        """What most of the time goes into."""
        return next(iter(self.shares))


@dataclass(frozen=True)
class Advice:
    """The kernels that can multiply, by predicted time, and why the first one is advised."""

    device: str
    precision: str
    n: int
    l2: str
    choices: tuple[Choice, ...]
    reason: str
    notes: tuple[str, ...] = ()

    @property
    def kernel(self) -> str:
        """Name of the kernel that is advised."""
        return self.choices[0].kernel

    @property
    def close(self) -> tuple[Choice, ...]:
        """The advised kernel and those whose predicted times are within 5 %: worth a try where one can be made."""
        return tuple(choice for choice in self.choices if choice.time_ms <= CLOSE * self.choices[0].time_ms)


def select(
    a: Any,
    n: int,
    dtype: Any = "float32",
    device: str | None = None,
    l2: str = "cold",
    model: str | Path | None = None,
    layout: str | None = None,
    sums: str | None = None,
) -> Advice:
    """The kernels for C[m×n] = A[m×k]·B[k×n] on ``device`` in order of their predicted times.

    ``a``: a SciPy sparse matrix or array of any format, or its features as
    :func:`spmm_roofline.matrices.features.features` gives them; values do not matter, stored zeros do not count. With
    features alone a kernel of a special format (2:4, dense) is no candidate, since nobody can look whether A fits.
    ``dtype``: precision class, one of :data:`DTYPES` or a NumPy dtype; ``device``: one that the model knows, needed
    where it knows several; ``l2``: whether A and B are expected in the second-level cache (``warm``) or not;
    ``model``: another file than the stored one, as the rule ``selector`` writes it; ``layout``: the one that B and C
    must have, ``row_major`` or ``column_major``; ``sums``: the dtype that a kernel must add in.

    Raises :class:`SelectionError` for what is not among these, :class:`.matrices.canonical.MatrixError` for a matrix
    without rows or columns.
    """
    from scipy.sparse import issparse

    from .analysis.selector import FEATURES

    precision = _precision(dtype)
    if isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < 1:
        raise SelectionError(f"n is {n!r}; it is the number of columns of B, a whole number from 1")
    n = int(n)
    if l2 not in L2_STATES:
        raise SelectionError(f"l2 is {l2!r}; say cold (A and B come from DRAM) or warm (they were just used)")
    if layout not in (None, *LAYOUTS):
        raise SelectionError(f"layout is {layout!r}; B and C are {' or '.join(LAYOUTS)}")
    sums = None if sums is None else _precision(sums)
    known = _model(str(model or _stored()), device)
    matrix, features = (None, a) if isinstance(a, Mapping) and not issparse(a) else _described(a)
    missing = [name for name in FEATURES if name not in features]
    if missing:
        raise SelectionError(
            f"the features lack {missing[0]!r}; spmm_roofline.matrices.features.features gives them all"
        )
    case = {name: features[name] for name in FEATURES} | {"n": n, "warm": l2 == "warm"}
    of_class = [kernel for kernel in known.kernels.values() if kernel.dtype["a"] == precision]
    if not of_class:
        classes = sorted({kernel.dtype["a"] for kernel in known.kernels.values()})
        raise SelectionError(f"no kernel in {precision} was measured on {known.device}; there are {', '.join(classes)}")
    of_class = [kernel for kernel in of_class if _suits(kernel, layout, sums)]
    if not of_class:
        raise SelectionError(
            f"no kernel in {precision} has B and C in {layout or 'any layout'} and {sums or 'any'} sums"
        )
    able = [kernel for kernel in of_class if all(case[name] % by == 0 for name, by in kernel.requires.items())]
    if not able:
        needs = "; ".join(
            sorted({f"{name} a multiple of {by}" for kernel in of_class for name, by in kernel.requires.items()})
        )
        raise SelectionError(f"no kernel in {precision} takes m={case['m']}, k={case['k']}, n={n}: all need {needs}")
    ranked = sorted(
        (_choice(known, kernel, case) for kernel in able), key=lambda choice: (choice.time_ms, choice.kernel)
    )
    choices = tuple(_that_hold(ranked, known, matrix))
    if not choices:
        raise SelectionError(f"no kernel in {precision} holds this matrix; give the matrix itself, not its features")
    return Advice(
        device=known.device,
        precision=precision,
        n=n,
        l2=l2,
        choices=choices,
        reason=_reason(choices, case, known),
        notes=tuple(_notes(case, known.kernels[choices[0].kernel])),
    )


def _precision(dtype: Any) -> str:
    name = (
        dtype
        if isinstance(dtype, str)
        else getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
    )
    if name not in DTYPES:
        raise SelectionError(
            f"dtype is {dtype!r}; the precision classes are {', '.join(dict.fromkeys(DTYPES.values()))}"
        )
    return DTYPES[name]


def _suits(kernel: Kernel, layout: str | None, sums: str | None) -> bool:
    """Whether a kernel has B and C in this layout and adds in this dtype; None is any."""
    return (layout is None or {*kernel.layout.values()} == {layout}) and sums in (None, kernel.dtype["accumulator"])


def _stored() -> Path:
    for path in STORED:
        if path.is_file():
            return path
    raise SelectionError(
        f"the stored model is in neither {STORED[0]} nor {STORED[1]}: install the package anew, or name a model that "
        "`snakemake --cores 1 selector` wrote"
    )


@lru_cache(maxsize=4)
def _model(path: str, device: str | None) -> Model:
    from .analysis.selector import read_model

    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        devices = sorted(document["devices"])
        name = devices[0] if device is None and len(devices) == 1 else device
        found = read_model(document, name) if name in devices else None
    except OSError as error:
        raise SelectionError(
            f"{path}: not readable: {error.strerror}; `snakemake --cores 1 selector` writes one"
        ) from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise SelectionError(
            f"{path}: no model of the selector ({error!r}); `snakemake --cores 1 selector` writes one"
        ) from error
    if found is None and device is None and devices:
        raise SelectionError(f"{path} knows several devices, {', '.join(devices)}: name one of them")
    if found is None:
        raise SelectionError(
            f"nothing is known of the device {device!r}, only of {', '.join(devices) or 'none'}: measure and record it "
            "(`snakemake --cores 4 record`), make its model (`snakemake --cores 1 selector`) and name that model"
        )
    return found


def _described(a: Any) -> tuple[csr_array, dict[str, Any]]:
    """Canonical CSR and features of a SciPy sparse matrix."""
    from scipy.sparse import coo_array, issparse

    from .matrices.canonical import Entries, canonical
    from .matrices.features import features

    if not issparse(a) or a.ndim != 2:
        raise SelectionError(
            f"A is {type(a).__name__}; give a two-dimensional scipy.sparse matrix or array (scipy.sparse.csr_array(a) "
            "makes one), or its features"
        )
    if a.dtype.kind == "c":
        raise SelectionError("A is complex; no kernel here multiplies complex values, so select for its pattern")
    entries = coo_array(a)
    rows, columns = entries.coords
    csr = canonical(Entries(entries.shape, rows, columns, entries.data), "A").csr
    return csr, features(csr)


def _choice(model: Model, kernel: Kernel, case: Mapping[str, Any]) -> Choice:
    from .analysis.selector import GROUPS, counts

    times, factors, parts = model.predict(kernel, case)
    time_ms, factor = float(times[0]), float(factors[0])
    grouped: dict[str, float] = {}
    for group, part in zip(GROUPS.values(), parts[0], strict=True):
        grouped[group] = grouped.get(group, 0.0) + float(part)
    total = sum(grouped.values()) or 1.0
    shares = {group: part / total for group, part in sorted(grouped.items(), key=lambda item: -item[1])}
    return Choice(
        kernel=kernel.name,
        study=kernel.study,
        format=kernel.format,
        dtype=kernel.dtype,
        layout=kernel.layout,
        format_bytes=round(float((counts(case) @ kernel.work.bytes)[0])),
        time_ms=time_ms,
        low_ms=time_ms / factor,
        high_ms=time_ms * factor,
        shares=shares,
    )


def _that_hold(ranked: Sequence[Choice], model: Model, matrix: csr_array | None) -> Iterator[Choice]:
    """The choices whose format holds the matrix.

    A format that is for one kind of matrix is asked, in order of time and once each, by packing A, which is not worth
    its while for a kernel that is far from the fastest. All others hold every matrix.
    """
    from .formats import FORMATS
    from .formats.base import FormatError

    formats = {kernel.format for kernel in model.kernels.values()}
    holds: dict[str, bool] = {name: True for name in formats if FORMATS[name].holds_any}
    general_ms = min((choice.time_ms for choice in ranked if holds.get(choice.format)), default=float("inf"))
    for choice in ranked:
        if choice.format not in holds and matrix is not None and choice.time_ms <= FAR * general_ms:
            try:
                FORMATS[choice.format].from_csr(matrix)
            except (FormatError, MemoryError):
                holds[choice.format] = False
            else:
                holds[choice.format] = True
        if holds.get(choice.format, False):
            yield choice


# --- words ------------------------------------------------------------------------------------------------------------


def _within(choice: Choice) -> str:
    from .figures.numbers import percent

    return f"± {percent(choice.high_ms / choice.time_ms - 1)}"


def _reason(choices: Sequence[Choice], case: Mapping[str, Any], model: Model) -> str:
    """What the advised kernel spends its time on, and where the next one of another format loses."""
    from .analysis.selector import compulsory_bytes
    from .figures.numbers import duration, percent, times

    best = choices[0]
    ideal = compulsory_bytes(case, best.dtype["a"]) / model.rates.dram_gb_per_s * 1e-6
    said = [
        f"{best.kernel}: predicted {duration(best.time_ms)} {_within(best)}, "
        f"{percent(best.shares[best.bound])} of it for {best.bound}",
        _structure(case),
        f"moving A, B and C once takes {duration(ideal)} at least",
    ]
    other = next((choice for choice in choices if choice.format != best.format), None)
    if other is not None:
        ratio = other.format_bytes / best.format_bytes if best.format_bytes else 1.0
        if ratio > 1.05:
            said[1] += f", so that A takes {times(ratio)} fewer bytes as {best.format} than as {other.format}"
    if len(choices) > 1:
        said.append(f"next best is {choices[1].kernel} at {duration(choices[1].time_ms)}")
        lost = {group: _spent(choices[1], group) - _spent(best, group) for group in choices[1].shares}
        worst = max(lost, key=lambda group: lost[group])
        said[-1] += f", which loses most by {worst}" if lost[worst] > 0.02 * best.time_ms else ""
    return "; ".join(said)


def _spent(choice: Choice, group: str) -> float:
    return choice.time_ms * choice.shares.get(group, 0.0)


def _structure(case: Mapping[str, Any]) -> str:
    from .figures.numbers import percent, significant

    if not case["nnz"]:
        return "A holds nothing"
    uneven = case["row_length_max"] / max(case["row_length_mean"], 1e-9)
    rows = f", the longest {significant(uneven, 2)} times that" if uneven > 4 else ""
    return (
        f"16x16 tiles are {percent(case['tile_fill_16x16_fraction'])} full, rows hold "
        f"{significant(case['row_length_mean'], 2)} non-zeros{rows}"
    )


def _notes(case: Mapping[str, Any], kernel: Kernel) -> Iterator[str]:
    """What makes the prediction for the advised kernel less sure than its interval says."""
    if not kernel.widths[0] <= case["n"] <= kernel.widths[-1]:
        yield f"{kernel.name} was measured with N from {kernel.widths[0]} to {kernel.widths[-1]}, not {case['n']}"
    for name, what in (("m", "rows"), ("nnz", "non-zeros")):
        if case[name] > kernel.most[name]:
            yield f"{kernel.name} was measured on at most {kernel.most[name]:,} {what}, this matrix has {case[name]:,}"


# --- command line -----------------------------------------------------------------------------------------------------

EXAMPLE = """\
example:
  spmm-roofline advise my.mtx --n 128 --dtype float16

my.mtx may be a .mtx, .mtx.gz, .mtx.xz, .smtx, .npz or .rb file."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spmm-roofline", description="Which SpMM kernel is fastest for a matrix, and why."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="advise")
    advise = commands.add_parser(
        "advise",
        help="predict the time of every kernel on a matrix and name the fastest",
        description="Predict the time of every kernel on a matrix and name the fastest, without a GPU.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    advise.add_argument("matrix", help="file of A")
    advise.add_argument("--n", type=int, required=True, help="columns of B")
    advise.add_argument(
        "--dtype", default="float32", help="precision class: float16, bfloat16, tf32, float32 (default) or float64"
    )
    advise.add_argument("--device", help="device, where the model knows several")
    advise.add_argument("--l2", default="cold", help="cold (default) or warm: whether A and B were just used")
    advise.add_argument("--layout", help="row_major or column_major: only kernels with such B and C")
    advise.add_argument("--sums", help="dtype: only kernels that add in it")
    advise.add_argument("--top", type=int, default=5, help="kernels to list (default: 5)")
    advise.add_argument("--model", help="another model than the stored one, as the rule `selector` writes it")
    advise.add_argument("--json", action="store_true", help="print the advice as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``spmm-roofline``; 0 if there is advice, 2 with one line on standard error if there is none."""
    from .matrices.canonical import MatrixError, canonical
    from .matrices.file import read

    options = _parser().parse_args(arguments)
    try:
        if options.top < 1:
            raise SelectionError(f"--top is {options.top}; list at least one kernel")
        csr = canonical(read(options.matrix), options.matrix).csr
        named = ("n", "dtype", "device", "l2", "model", "layout", "sums")
        advice = select(csr, **{name: getattr(options, name) for name in named})
    except (SelectionError, MatrixError, OSError) as error:
        print(f"spmm-roofline: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    shown = dataclasses.replace(advice, choices=advice.choices[: options.top])
    print(json.dumps(dataclasses.asdict(shown), indent=1) if options.json else _printed(shown, csr))
    return 0


def _printed(advice: Advice, csr: csr_array) -> str:
    from .figures.numbers import PRECISIONS, duration

    m, k = csr.shape
    asked = f"N = {advice.n}, {PRECISIONS[advice.precision]}, {advice.l2} L2, {advice.device}"
    lines = [
        f"A: {m:,} x {k:,}, {csr.nnz:,} non-zeros; {asked}",
        f"{advice.reason}.",
        *(f"Beware: {note}." for note in advice.notes),
        "",
    ]
    rows = [("kernel", "format", "predicted", "", "sums", "B", "most of the time for")]
    for choice in advice.choices:
        layout = choice.layout["b"].replace("_major", "")
        rows.append(
            (
                choice.kernel,
                choice.format,
                duration(choice.time_ms),
                _within(choice),
                choice.dtype["accumulator"],
                layout,
                choice.bound,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)
