"""The command ``spmm-roofline``.

Everything beyond the parsers is imported when a subcommand runs, so that ``--help`` answers at once. A usage error
exits with code 2, a failure with code 1, each with one sentence on standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

MATRIX_FILES = "my.mtx may be a .mtx, .mtx.gz, .mtx.xz, .smtx, .npz or .rb file."

ADVISE_EXAMPLES = f"""\
examples:
  spmm-roofline advise my.mtx --n 128 --dtype float16
  spmm-roofline advise my.mtx --n 128 --layout row_major --sums float32 --json

{MATRIX_FILES}"""

TRAIN_EXAMPLES = """\
examples:
  spmm-roofline train --recorded resources/recorded --out resources/selector.json
  spmm-roofline train --results results --out my.json
  spmm-roofline advise my.mtx --n 128 --model my.json

Run it in a checkout of the project: the heads of all kernels and the datasheets of the devices are read."""

PACK_EXAMPLES = f"""\
examples:
  spmm-roofline pack my.mtx --format hrpb -o hrpb.npz
  spmm-roofline pack my.mtx --format csr --dtype float16 -o csr.npz

{MATRIX_FILES}"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {_one_line(message)}; {self.prog} --help says more\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``spmm-roofline``; 0 on success, 1 with one sentence on standard error for a failure.

    Raises ``SystemExit`` with code 2 for a usage error.
    """
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = options.run
    try:
        run(options)
    except Exception as error:
        if not isinstance(error, _failures()):
            raise
        print(f"spmm-roofline: {_one_line(_said(error))}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="spmm-roofline", description="Which SpMM kernel is fastest for a matrix, and why.")
    commands = parser.add_subparsers(required=True, metavar="command", title="commands")

    advise = _command(
        commands,
        "advise",
        _advise,
        "predict the time of every kernel on a matrix and name the fastest",
        "Predict the time of every kernel on a matrix and name the fastest, without a GPU.",
        ADVISE_EXAMPLES,
    )
    advise.add_argument("matrix", help="file of A")
    advise.add_argument("--n", type=_whole_number, required=True, help="columns of B")
    advise.add_argument(
        "--dtype",
        type=_precision,
        default="float32",
        help="precision class: float16, bfloat16, tf32, float32 (default) or float64",
    )
    advise.add_argument("--device", help="device, where the model knows several")
    advise.add_argument(
        "--l2", choices=("cold", "warm"), default="cold", help="cold (default) or warm: whether A and B were just used"
    )
    advise.add_argument(
        "--layout", choices=("row_major", "column_major"), help="only kernels with B and C in this layout"
    )
    advise.add_argument("--sums", type=_precision, help="dtype: only kernels that accumulate in it")
    advise.add_argument("--top", type=_whole_number, default=5, help="kernels to list (default: 5)")
    advise.add_argument("--model", help="another model than the stored one, made by spmm-roofline train")
    advise.add_argument("--json", action="store_true", help="print the advice as JSON")

    train = _command(
        commands,
        "train",
        _train,
        "train the model that advise predicts with",
        "Train the model that `spmm-roofline advise` predicts with.",
        TRAIN_EXAMPLES,
    )
    source = train.add_mutually_exclusive_group(required=True)
    source.add_argument("--recorded", type=Path, help="folder of recorded rows, one subfolder per device")
    source.add_argument("--results", type=Path, help="folder of a run's results, of which the analysis is read")
    train.add_argument("--out", type=Path, required=True, help="file for the model, JSON")
    train.add_argument(
        "--devices", type=Path, default=Path("config/devices"), help="folder of datasheets (default: config/devices)"
    )

    pack = _command(
        commands,
        "pack",
        _pack,
        "pack a matrix into a format and save its arrays",
        "Pack a matrix into a format and save its arrays as .npz.",
        PACK_EXAMPLES,
    )
    pack.add_argument("matrix", help="file of A")
    pack.add_argument("--format", required=True, help="name of the format; an unknown one lists all")
    pack.add_argument("--dtype", type=_precision, help="dtype of the values (default: that of the format)")
    pack.add_argument("-o", "--out", type=Path, required=True, help="file for the arrays, .npz")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    description: str,
    examples: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, usage_error=parser.error)
    return parser


def _whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def _precision(text: str) -> str:
    from .selector.question import SelectionError, precision

    try:
        return precision(text)
    except SelectionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# --- the commands -----------------------------------------------------------------------------------------------------


def _advise(options: argparse.Namespace) -> None:
    import dataclasses
    import json

    from .matrices.canonical import canonical
    from .matrices.file import read
    from .selector.advice import select
    from .selector.words import printed

    csr = canonical(read(options.matrix), options.matrix).csr
    arguments = ("n", "dtype", "device", "l2", "model", "layout", "sums")
    advice = select(csr, **{name: getattr(options, name) for name in arguments})
    shown = dataclasses.replace(advice, choices=advice.choices[: options.top])
    m, k = csr.shape
    print(json.dumps(dataclasses.asdict(shown), indent=1) if options.json else printed(shown, m, k, csr.nnz))


def _train(options: argparse.Namespace) -> None:
    from .analysis.selector import train_on_recorded, train_on_tables
    from .kernels.registry import heads
    from .paths import KERNELS

    found = heads(str(KERNELS))
    plain = {name: head.as_dict() for name, head in found.items()}
    if options.results:
        tables = {name: options.results / "analysis" / f"{name}.csv" for name in _TABLES}
        train_on_tables(**tables, heads=plain, out=options.out)
    else:
        prints = {name: head.sha256() for name, head in found.items()}
        train_on_recorded(options.recorded, options.devices, plain, prints, options.out)
    print(f"wrote {options.out}")


#: Tables of the analysis that a model is trained on.
_TABLES = ("cases", "matrices", "ceilings", "devices")


def _pack(options: argparse.Namespace) -> None:
    from .formats import FORMATS
    from .formats.pack import save_packed

    if options.format not in FORMATS:
        options.usage_error(f"no format is called {options.format!r}; the formats are {', '.join(FORMATS)}")
    packed = save_packed(options.matrix, options.format, options.dtype, options.out)
    m, k = packed.shape
    print(f"wrote {options.out}: {m:,} x {k:,} as {packed.name} in {packed.dtype}, {packed.nbytes:,} bytes")


# --- errors -----------------------------------------------------------------------------------------------------------


def _failures() -> tuple[type[Exception], ...]:
    """Errors that are the user's to mend, imported once something has failed."""
    from .contracts import ContractError
    from .formats import FormatError
    from .matrices.canonical import MatrixError
    from .selector.question import SelectionError

    return ContractError, FormatError, MatrixError, SelectionError, OSError, MemoryError


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())
