"""Attention with sparse weights, or over a sparse mask, beside PyTorch's dense attention.

    python examples/attention.py block --sparsity 0.8 0.95 --sequence 512 4096 --dtype float16 tf32
    python examples/attention.py block --weights q.smtx k.smtx v.smtx output.smtx --csv block.csv
    python examples/attention.py masked --mask window:512 blocks:0.1 random:0.05 --sequence 4096 --plot masked.svg

`block`: the attention of a transformer's layer as a module, `PrunedAttention`, whose projections are sparse products:
one plan (spmm_roofline.SpMM) for the stacked W_Q, W_K and W_V, and one for the output. Weights are files (.smtx, .mtx,
.npz, .rb; rows are output features), or random ones of which --sparsity removes the smallest. The dense module has the
same weights with their zeros.

`masked`: softmax(Q·Kᵀ/√width at the entries of a mask)·V with spmm_roofline.MaskedAttention, beside PyTorch's
scaled_dot_product_attention with the mask, and without it, which computes another result: what not using the mask
costs. window:w lets a query attend to keys at most w/2 away, blocks:p keeps square blocks of 64 and random:p entries
with probability p; the diagonal is always kept.

Times are medians of replays of a CUDA graph. `error` is the relative error of 64 rows against float64; the exit code is
1 if it exceeds the tolerance of the dtype. `plan` is the time to prepare, once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

try:
    import torch
    import torch.nn.functional as F
    from torch.nn import Module
except ImportError:  # --help works without PyTorch, and main says what to install
    torch, Module = None, object

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from measuring import graphed, let_go, missing, not_positive, reason, tensor_dtype, timed, unwritable, write

from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.matrices.file import read

DEVICE = "cuda"
#: Rows of each result that are compared with float64.
CHECKED = 64
#: dtype → largest relative error.
TOLERANCE = {"float16": 5e-3, "bfloat16": 3e-2, "tf32": 5e-3}
#: Rows and columns of the blocks of a mask.
SIDE = 64


def generator(seed: int) -> Any:
    return torch.Generator(DEVICE).manual_seed(seed)


def checked_rows(count: int) -> Any:
    """Positions of at most :data:`CHECKED` of ``count`` rows."""
    return torch.linspace(0, count - 1, min(CHECKED, count), device=DEVICE).long()


def attention64(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """softmax(Q·Kᵀ/√width)·V in float64; ``mask``: bool[queries, keys]."""
    scores = q.double() @ k.double().transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v.double()


# --- a layer with pruned weights --------------------------------------------------------------------------------------


class PrunedAttention(Module):
    """Self-attention of x (batch, sequence, features) whose weights, features × features, are mostly zeros.

    ``weights``: W_Q, W_K, W_V and W_O as torch.nn.Linear has them, rows are output features. They are planned once.
    """

    def __init__(self, weights: list[Any], heads: int, dtype: str) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.output = planned(torch.cat(weights[:3]), dtype), planned(weights[3], dtype)

    def forward(self, x: Any) -> Any:
        from spmm_roofline import linear

        return attention_of(x, partial(linear, self.qkv), partial(linear, self.output), self.heads)


def attention_of(x: Any, qkv: Callable[[Any], Any], output: Callable[[Any], Any], heads: int) -> Any:
    """Self-attention of x (batch, sequence, features) between two linear layers; ``qkv`` gives three of them."""
    batch, sequence, features = x.shape
    q, k, v = qkv(x).view(batch, sequence, 3, heads, -1).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
    return output(attended.reshape(batch, sequence, features))


def planned(weight: Any, dtype: str) -> Any:
    """The product with a dense matrix that is mostly zeros."""
    from spmm_roofline import SpMM

    rows, columns = weight.nonzero(as_tuple=True)
    pointers = F.pad(torch.bincount(rows, minlength=len(weight)).cumsum(0), (1, 0))
    return SpMM((pointers, columns, weight[rows, columns].float()), dtype, shape=tuple(weight.shape))


class DenseAttention(Module):
    """The same with dense weights."""

    def __init__(self, weights: list[Any], heads: int, dtype: str) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.output = torch.cat(weights[:3]).to(tensor_dtype(dtype)), weights[3].to(tensor_dtype(dtype))

    def forward(self, x: Any) -> Any:
        return attention_of(x, partial(F.linear, weight=self.qkv), partial(F.linear, weight=self.output), self.heads)


def pruned(weight: Any, sparsity: float) -> Any:
    """``weight`` without its smallest magnitudes, scaled so that what it multiplies stays as large as it is."""
    smallest = weight.abs().flatten().topk(round(sparsity * weight.numel()), largest=False).indices
    kept = weight.flatten().index_fill(0, smallest, 0.0).view_as(weight)
    return kept / kept.square().sum(1).mean().sqrt()


def layers(options: argparse.Namespace) -> Iterator[tuple[str, list[Any]]]:
    """Name and weights, float32, of each layer. Raises :class:`MatrixError`."""
    if options.weights:
        weights = [from_file(path, options) for path in options.weights]
        zeros = sum(int((weight == 0).sum()) for weight in weights)
        yield f"{zeros / 4 / options.features**2:.0%}", weights
        return
    for sparsity in options.sparsity:
        shape = 4, options.features, options.features
        drawn = torch.randn(shape, generator=generator(options.seed), device=DEVICE)
        yield f"{sparsity:.0%}", [pruned(weight, sparsity) for weight in drawn]


def from_file(path: str, options: argparse.Namespace) -> Any:
    """The matrix of a file, with random values if it has none."""
    if not Path(path).is_file():
        raise MatrixError(f"{path}: there is no such file")
    entries, size = read(path), options.features
    if entries.shape != (size, size):
        raise MatrixError(
            f"{path} is {entries.shape[0]} x {entries.shape[1]}, and --features is {size}: weights must be square"
        )
    rows, columns = (torch.tensor(ends, dtype=torch.int64, device=DEVICE) for ends in (entries.rows, entries.columns))
    if entries.values is None:
        values = torch.randn(len(rows), generator=generator(options.seed), device=DEVICE)
        values *= (size / max(len(rows), 1)) ** 0.5
    else:
        values = torch.tensor(entries.values, dtype=torch.float32, device=DEVICE)
    return torch.zeros((size, size), device=DEVICE).index_put_((rows, columns), values, accumulate=True)


def block_cases(options: argparse.Namespace) -> Iterator[Case]:
    for name, weights in layers(options):
        for dtype in options.dtype:
            own = [weight.to(tensor_dtype(dtype)) for weight in weights]
            for sequence in options.sequence:
                shape = options.batch, sequence, options.features
                x = torch.randn(shape, generator=generator(options.seed), device=DEVICE).to(own[0].dtype)
                about = {"sparsity": name, "dtype": dtype, "sequence": sequence}
                yield block_case(about, x, own, options.heads)


def block_case(about: dict[str, Any], x: Any, weights: list[Any], heads: int) -> Case:
    rows, last = checked_rows(x.shape[1]), x[-1].double()
    q, k, v = (
        (tokens @ weight.double().T).unflatten(-1, (heads, -1)).transpose(0, 1)
        for tokens, weight in zip((last[rows], last, last), weights[:3], strict=True)
    )
    wanted = attention64(q, k, v).transpose(0, 1).flatten(1) @ weights[3].double().T
    found = {
        "dense": lambda: partial(DenseAttention(weights, heads, about["dtype"]), x),
        "ours": lambda: partial(PrunedAttention(weights, heads, about["dtype"]), x),
    }
    return Case(about, found, lambda y: y[-1, rows], dict.fromkeys(found, wanted))


# --- attention over a mask --------------------------------------------------------------------------------------------


def mask_of(spelt: str, length: int, seed: int = 0) -> Any:
    """bool[length, length] of ``window:512``, ``blocks:0.1`` or ``random:0.05``. Raises :class:`MatrixError`."""
    kind, _, text = spelt.partition(":")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if kind not in ("window", "blocks", "random") or value <= 0 or (kind != "window" and value > 1):
        raise MatrixError(f"--mask {spelt} is none of window:512, blocks:0.1 and random:0.05, with such numbers")
    if kind == "window":
        at = torch.arange(length, device=DEVICE)
        return (at[:, None] - at).abs() <= value // 2
    size = -(-length // SIDE) if kind == "blocks" else length
    mask = torch.rand((size, size), generator=generator(seed), device=DEVICE) < value
    mask.fill_diagonal_(True)
    if kind == "blocks":
        mask = mask.repeat_interleave(SIDE, 0).repeat_interleave(SIDE, 1)[:length, :length].contiguous()
    return mask


def masked_cases(options: argparse.Namespace) -> Iterator[Case]:
    for spelt in options.mask:
        for sequence in options.sequence:
            mask = mask_of(spelt, sequence, options.seed)
            for dtype in options.dtype:
                shape = 3, options.batch, options.heads, sequence, options.width
                drawn = torch.randn(shape, generator=generator(options.seed), device=DEVICE)
                about = {"mask": spelt, "dtype": dtype, "sequence": sequence, "density": float(mask.float().mean())}
                yield masked_case(about, mask, *drawn.to(tensor_dtype(dtype)))


def masked_case(about: dict[str, Any], mask: Any, q: Any, k: Any, v: Any) -> Case:
    from spmm_roofline import MaskedAttention

    rows = checked_rows(len(mask))
    last = q[-1][:, rows], k[-1], v[-1]
    wanted, everything = attention64(*last, mask[rows]), attention64(*last)
    found = {
        "SDPA with mask": lambda: partial(F.scaled_dot_product_attention, q, k, v, attn_mask=mask),
        "SDPA without": lambda: partial(F.scaled_dot_product_attention, q, k, v),
        "ours": lambda: partial(MaskedAttention(mask), q, k, v),
    }
    must_be = dict.fromkeys(found, wanted) | {"SDPA without": everything}
    return Case(about, found, lambda y: y[-1][:, rows], must_be)


# --- measuring and output ---------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """``about``: columns of its rows; ``made``: name → function that plans and gives the action."""

    about: dict[str, Any]
    made: dict[str, Callable[[], Callable[[], Any]]]
    checked: Callable[[Any], Any]
    """picks the rows of a result that are compared with float64"""
    wanted: dict[str, Any]
    """name → what these rows must be"""


def rows_of(case: Case, repeats: int) -> list[dict[str, Any]]:
    """A row for each implementation; measured columns are None where it failed. The first one is the baseline."""
    rows = []
    for name, make in case.made.items():
        let_go()
        row = {**case.about, "implementation": name, "time_ms": None, "over_first": None, "error": None}
        row |= {"plan_ms": None, "message": ""}
        try:
            torch.cuda.synchronize()
            start = time.perf_counter()
            action = make()
            torch.cuda.synchronize()
            row["plan_ms"] = (time.perf_counter() - start) * 1e3
            replay, result = graphed(action)
            result.fill_(float("nan"))  # what a replay does not write stays visible
            row["time_ms"] = median(timed(replay, repeats))
            difference = case.checked(result).double() - case.wanted[name]
            row["error"] = float(difference.norm() / case.wanted[name].norm())
        except Exception as error:  # whatever a library raises becomes the row of this implementation
            row["message"] = reason(error)
        first = (rows or [row])[0]["time_ms"]
        if row["time_ms"] and first:
            row["over_first"] = row["time_ms"] / first
        rows.append(row)
    return rows


def told(rows: list[dict[str, Any]]) -> None:
    """Print the rows of a case."""
    about = {name: value for name, value in list(rows[0].items()) if name in ("sparsity", "mask", "dtype", "sequence")}
    print(f"\n{', '.join(f'{name} {value}' for name, value in about.items())}")
    print(f"{'':16s}{'time, ms':>12s}{'error':>10s}{'plan, ms':>10s}{'x first':>10s}")
    for row in rows:
        measured = "" if row["message"] else "{time_ms:12.4f}{error:10.1e}{plan_ms:10.1f}".format(**row)
        ratio = f"{row['over_first']:10.3f}" if row["over_first"] else ""
        print(f"{row['implementation']:16s}{measured}{ratio}{'  ' if row['message'] else ''}{row['message']}")


def drawn(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the time against the length of the sequence, a panel a mask or sparsity and dtype."""
    import matplotlib.pyplot as plt
    import seaborn as sns

    what = "mask" if "mask" in rows[0] else "sparsity"
    panels = list(dict.fromkeys((row[what], row["dtype"]) for row in rows))
    sns.set_theme(style="whitegrid", rc={"svg.hashsalt": "attention", "svg.fonttype": "none"})
    size = (3.2 * len(panels), 3)
    figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharey=True, layout="constrained")
    for ax, panel in zip(axes.flat, panels, strict=True):
        own = [row for row in rows if (row[what], row["dtype"]) == panel and row["time_ms"]]
        for name in dict.fromkeys(row["implementation"] for row in own):
            line = [(row["sequence"], row["time_ms"]) for row in own if row["implementation"] == name]
            ax.plot(*zip(*line, strict=True), marker="o", label=name)
        ax.set(title=f"{what} {panel[0]}, {panel[1]}", xlabel="length of the sequence", xscale="log", yscale="log")
    axes.flat[0].set(ylabel="time, ms")
    axes.flat[0].legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = made.add_subparsers(dest="command", required=True)
    block = commands.add_parser("block", help="a layer with pruned weights", description=PrunedAttention.__doc__)
    block.add_argument("--weights", nargs=4, metavar="FILE", help="files of W_Q, W_K, W_V and W_O")
    block.add_argument("--sparsity", nargs="+", type=float, default=[0.9], help="of random weights; default: 0.9")
    block.add_argument("--features", type=int, default=512, help="rows and columns of the weights; default: 512")
    masked = commands.add_parser("masked", help="attention over a sparse mask", description=mask_of.__doc__)
    masked.add_argument("--mask", nargs="+", default=["window:512"], metavar="KIND:NUMBER", help="default: window:512")
    masked.add_argument("--width", type=int, choices=(64, 128), default=64, help="columns of a head; default: 64")
    for command, dtypes in ((block, [*TOLERANCE]), (masked, ["float16", "bfloat16"])):
        command.add_argument("--dtype", nargs="+", choices=dtypes, default=["float16"], help="default: float16")
        command.add_argument("--sequence", nargs="+", type=int, default=[1024, 4096], help="default: 1024 4096")
        for name, default in (("--heads", 8), ("--batch", 1), ("--repeats", 50), ("--seed", 0)):
            command.add_argument(name, type=int, default=default, help=f"default: {default}")
        command.add_argument("--csv", type=Path, help="write the rows to this file")
        command.add_argument("--plot", type=Path, help="draw the times to this .svg, .png or .pdf file")
    return made


def refusal(options: argparse.Namespace) -> str:
    """What is wrong with the options, in a sentence; empty if nothing."""
    if options.command == "block":
        for sparsity in options.sparsity:
            if not 0 <= sparsity < 1:
                return f"--sparsity is {sparsity:g}; it must be at least 0 and below 1"
        if options.heads > 0 and options.features % options.heads:
            return f"--features is {options.features}, which {options.heads} heads do not divide"
    numbers = ["sequence", "heads", "batch", "repeats", *(["features"] if options.command == "block" else [])]
    return not_positive(options, *numbers) or unwritable(options)


def main(arguments: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(arguments)
    if sentence := refusal(options) or missing():
        command.error(sentence)
    torch.set_float32_matmul_precision("high")  # TF32 where the dtype is tf32
    rows: list[dict[str, Any]] = []
    try:
        with torch.no_grad():
            for case in block_cases(options) if options.command == "block" else masked_cases(options):
                rows += (own := rows_of(case, options.repeats))
                told(own)
    except MatrixError as error:
        command.error(str(error))
    if options.csv:
        write(rows, options.csv)
    if options.plot:
        drawn(rows, options.plot)
    wrong = [row for row in rows if row["time_ms"] and not row["error"] <= TOLERANCE[row["dtype"]]]
    for row in wrong:
        print("{implementation} in {dtype}: the relative error is {error:.1e}, too large".format(**row))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
