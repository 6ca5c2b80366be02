"""The command ``spmm-roofline``.

Everything beyond the parsers is imported when a subcommand runs, so that ``--help`` answers at once. A usage error
exits with code 2, a failure with code 1, each with one sentence on standard error.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from . import __version__

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


NEW_KERNEL_EXAMPLES = """\
examples:
  spmm-roofline new-kernel row_per_warp --study scalar --format csr
  spmm-roofline new-kernel mine --study ours --format hrpb --dtype float16 --after cutespmm

Run it in a checkout of the project. For csr the code is a simple product that is correct; for any other format you
write the loop."""


COMPARE_EXAMPLES = """\
A and B are folders of measured rows (resources/recorded/h200, results/measure/h200, results) or bundles.

examples:
  spmm-roofline compare old.tar.gz results
  spmm-roofline compare old/results results --kernel 'window_*' --html compare.html
  spmm-roofline compare results results --match window_f16=staged_f16
  spmm-roofline compare resources/recorded/h100 resources/recorded/h200 --across-devices

verdicts of a case, a kernel and all changed kernels together:
  slower, faster  the ratio is certainly not 1, and the change matters (--least)
  same            the 95 % interval lies within the least change that matters
  insufficient    the interval is too wide to say

Kernels whose machine code is the same in A and B show what two runs differ by. Their common shift, such as a machine
that is 1 % slower today, is removed from all ratios (--absolute keeps it), and their spread widens all intervals. They
are never faster or slower themselves, unless --all says so: use it after an edit that machine code does not show, such
as one of a work list made in Python.

exit codes:
  0  no kernel is slower
  1  a kernel is slower, or a case with a time in A failed in B
  2  A or B cannot be read, they have no case in common, or a usage error
  3  with --strict: nothing could be judged, neither faster, slower nor the same"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {_one_line(message)}; {self.prog} --help says more\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``spmm-roofline``; 0 on success, 1 with one sentence on standard error for a failure.

    Raises ``SystemExit`` with code 2 for a usage error.
    """
    options = _parser().parse_args(arguments)
    # The matrices of the selector are small: threads of the BLAS would only wait for each other. NumPy comes later.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of µ, ± and paths, in an encoding that lacks them
    run: Callable[[argparse.Namespace], int | None] = options.run
    try:
        status = run(options) or 0
        if sys.stdout:  # None if it was closed
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130  # as a shell says it
    except Exception as error:
        if not isinstance(error, _failures()):
            raise
        print(f"spmm-roofline: {_one_line(_said(error))}", file=sys.stderr)
        return int(options.failure)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="spmm-roofline", description="Which SpMM kernel is fastest for a matrix, and why.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
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
    advise.add_argument(
        "--device",
        help="name of a device, or file of a datasheet (default: this machine's GPU, else the best-known device)",
    )
    advise.add_argument(
        "--l2", choices=("cold", "warm"), default="cold", help="L2 state: cold (default), or warm if it holds A and B"
    )
    advise.add_argument(
        "--layout",
        choices=("row_major", "column_major"),
        help="only kernels with B and C in this layout, in the caller's memory",
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
    train.add_argument("--devices", type=Path, help="folder of datasheets (default: config/devices)")

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

    new = _command(
        commands,
        "new-kernel",
        _new_kernel,
        "write the file of a new kernel, with a complete head",
        "Write kernels/STUDY/NAME.cu: a complete head with a comment at each key, and code that compiles.",
        NEW_KERNEL_EXAMPLES,
    )
    new.add_argument("name", help="name of the kernel and of its file")
    new.add_argument("--study", required=True, help="folder below kernels, which may be new")
    new.add_argument("--format", required=True, help="format of A; an unknown one lists all")
    new.add_argument("--dtype", type=_precision, default="float32", help="dtype of A, B and C (default: float32)")
    new.add_argument("--after", help="kernel that the new one builds on")
    new.add_argument("--kernels", type=Path, default=Path("kernels"), help="folder of all kernels (default: kernels)")
    _add_compare(commands)
    return parser


def _add_compare(commands: argparse._SubParsersAction[_Parser]) -> None:
    compare = _command(
        commands,
        "compare",
        _compare,
        "say whether a new run is faster or slower than an old one",
        "Say which kernels of a new run B are faster or slower than in an old run A.",
        COMPARE_EXAMPLES,
    )
    compare.set_defaults(failure=2)
    compare.add_argument("a", metavar="A", type=Path, help="old run")
    compare.add_argument("b", metavar="B", type=Path, help="new run")
    compare.add_argument(
        "--kernel", default="", metavar="PATTERN", help="only kernels that match, such as 'window_*' or 'smat/*'"
    )
    compare.add_argument("--suite", default="", metavar="PATTERN", help="only suites that match")
    compare.add_argument("--match", type=_two_names, metavar="a=b", help="compare kernel a of A with kernel b of B")
    compare.add_argument("--across-devices", action="store_true", help="compare two devices on purpose")
    compare.add_argument("--across-suites", action="store_true", help="pair cases of different suites")
    compare.add_argument(
        "--least", type=_fraction, default=0.01, help="smallest relative change that matters (default: 0.01, 1 %%)"
    )
    compare.add_argument(
        "--false-alarms",
        type=_fraction,
        default=0.01,
        metavar="RATE",
        help="largest expected fraction of wrong verdicts among faster and slower (default: 0.01)",
    )
    compare.add_argument("--absolute", action="store_true", help="keep the common shift of the unchanged kernels")
    compare.add_argument("--all", action="store_true", help="unchanged kernels may be faster or slower, too")
    compare.add_argument("--cases", action="store_true", help="exit with 1 for a single slower case, too")
    compare.add_argument("--strict", action="store_true", help="exit with 3 where nothing could be judged")
    compare.add_argument("--html", type=Path, metavar="FILE", help="write a page with a figure and all kernels")
    compare.add_argument("--csv", type=Path, metavar="FILE", help="write the compared cases, table `compare`")
    compare.add_argument("--json", action="store_true", help="print the answer as JSON")


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], int | None],
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
    parser.set_defaults(run=run, usage_error=parser.error, failure=1)
    return parser


def _whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _precision(text: str) -> str:
    from .selector.question import SelectionError, precision

    try:
        return precision(text)
    except SelectionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction between 0 and 1, such as 0.01")
    return value


def _two_names(text: str) -> tuple[str, str]:
    first, _, second = text.partition("=")
    if not first or not second:
        raise argparse.ArgumentTypeError(f"{text!r} does not name two kernels, such as window_f16=staged_f16")
    return first, second


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
    _check_workflow(options)
    from .analysis.selector import train_on_recorded, train_on_tables
    from .kernels.registry import heads
    from .paths import KERNELS, find_all

    sheets = sorted(options.devices.glob("*.yaml")) if options.devices else find_all("config/devices", "*.yaml")
    if not sheets:
        options.usage_error(f"{options.devices or 'config/devices'} holds no datasheet")
    _check_writable(options, options.out)
    found = heads(str(KERNELS))
    plain = {name: head.as_dict() for name, head in found.items()}
    if options.results:
        tables = {name: options.results / "analysis" / f"{name}.csv" for name in _TABLES}
        for table in tables.values():
            if not table.is_file():
                raise FileNotFoundError(f"{table}: there is no such table; `snakemake analysis` makes it")
        train_on_tables(**tables, heads=plain, out=options.out, datasheets=sheets, may_be_empty=False)
    else:
        prints = {name: head.sha256() for name, head in found.items()}
        train_on_recorded(options.recorded, sheets, plain, prints, options.out)
    print(f"wrote {options.out}")


#: Tables of the analysis that a model is trained on.
_TABLES = ("cases", "matrices", "ceilings", "devices")


def _pack(options: argparse.Namespace) -> None:
    from .formats import FORMATS
    from .formats.pack import save_packed

    if options.format not in FORMATS:
        options.usage_error(f"no format is called {options.format!r}; the formats are {', '.join(FORMATS)}")
    if options.out.suffix != ".npz":
        options.usage_error(f"--out is {str(options.out)!r}; the arrays are saved as .npz: name it {options.out}.npz")
    _check_writable(options, options.out)
    if options.out.exists() and options.out.samefile(options.matrix):
        options.usage_error(f"--out is the matrix itself, {options.matrix}; name another file")
    packed = save_packed(options.matrix, options.format, options.dtype, options.out)
    m, k = packed.shape
    print(f"wrote {options.out}: {m:,} x {k:,} as {packed.name} in {packed.dtype}, {packed.nbytes:,} bytes")


def _new_kernel(options: argparse.Namespace) -> None:
    from .kernels.template import create
    from .run_config import suites_with

    head = create(options.name, options.study, options.format, options.dtype, options.after, options.kernels)
    print(f"wrote {head.path}")
    suites = suites_with(head.name, head.study)
    measured = f"is measured in the suites {', '.join(suites)}" if suites else "is measured in no suite"
    steps = [
        "edit the source, the idea and the code",
        f"`{head.name}` {measured}; to add it to {'another one' if suites else 'one'}, name it or `{head.study}/*` "
        "under `kernels` of a file in config/suites",
        "`make report` compiles it and, on a GPU, checks its products and times it",
        "`python docs/tables.py` adds it to docs/reference/kernels.md, and `make test` reports what does not fit",
    ]
    print("\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1)))


def _compare(options: argparse.Namespace) -> int:
    _check_workflow(options)
    from . import contracts
    from .compare import Options, compare
    from .compare.text import as_json, printed

    if options.match and options.kernel:
        options.usage_error("--match names the two kernels; leave --kernel out")
    for out in filter(None, (options.csv, options.html)):
        _check_writable(options, out)
    shared = ("kernel", "suite", "match", "across_devices", "across_suites", "least", "false_alarms", "absolute")
    chosen = Options(**{name: getattr(options, name) for name in shared}, unchanged=options.all)
    comparison = compare(options.a, options.b, chosen)
    code = comparison.exit_code(options.strict, options.cases)
    if options.csv:
        contracts.write(comparison.cases, options.csv, "compare")
    if options.html:
        from .compare.page import render

        contracts.write_text(options.html, render(comparison))
    print(as_json(comparison, code) if options.json else printed(comparison))
    return code


def _check_workflow(options: argparse.Namespace) -> None:
    """End with a usage error where the packages are missing that read tables."""
    from importlib.util import find_spec

    if find_spec("pandas") is None or find_spec("jinja2") is None:
        options.usage_error('tables need more packages: pip install "spmm-roofline[workflow]"')


def _check_writable(options: argparse.Namespace, out: Path) -> None:
    """End with a usage error where ``out`` cannot become a file, before work that takes long."""
    if out.is_dir():
        options.usage_error(f"{out} is a folder; name a file")
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        options.usage_error(f"{out} cannot be written: {folder} is no folder that you may write to; name another one")


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
    if isinstance(error, MemoryError):
        return f"this machine has too little memory{f': {error}' if str(error) else ''}"
    return str(error) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())
