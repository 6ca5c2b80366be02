"""Fit what products and sampled products cost with each kernel, and write it to resources/costs.json.

    python benchmarks/costs.py
    python benchmarks/costs.py --kernels 'sampled_*'
    python benchmarks/costs.py --half fitted --write build/half.json
    python benchmarks/regret.py --half judged --costs build/half.json

The times are those recorded in resources/recorded and those in resources/choices, most of generated matrices
(`choices.py` makes them), without the tables for judging alone. With `--half fitted`, recorded matrices and those of
files count only if they are in that half, so that the other one shows what is lost on matrices that nothing was fitted
to.

Coefficients of terms are the non-negative least squares of relative errors. Trees are boosted on what is left of log t
(Friedman 2001), level by level over all leaves, apart from what the kernels of a case have in common. A time counts
less the further it is from the fastest of its case that may be chosen, because only the fastest ones decide.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from regret import DEVICES, FILES, ROOT, STANDS_FOR, costed, half_of, known, rows_to_fit, sampling
from scipy.optimize import nnls

from spmm_roofline import contracts
from spmm_roofline.formats.values import itemsize
from spmm_roofline.kernels import choose, costs
from spmm_roofline.kernels.front_matter import SAMPLING
from spmm_roofline.kernels.head import Head
from spmm_roofline.paths import COSTS

#: Trees of a kernel, levels of a tree, part of what is left that a tree takes away, samples by which a leaf shrinks.
#: Fitted without the seeds 2, 3 and 7 of choices.py, one kernel at a time, these lost 0.94 % on them, 120 trees of six
#: levels 0.97, and 80 trees of seven levels, with a part of 0.25, 1.06.
TREES, LEVELS, RATE, SHRINKAGE = 120, 7, 0.2, 1.0
#: Thresholds of a trait.
BINS = 40
#: Rounds in which the weights of least squares follow the times that they predict.
ROUNDS = 6
#: Weight of a time that was recorded, or taken on a matrix of a file: most matrices are generated, and most users' are
#: not. With 1, fits to one half of the files lose 0.1 % more on the other one, with 5 as much.
RECORDED = 2
#: Times of a kernel below which nothing is fitted.
LEAST_TIMES = 40
#: Columns of B that a kernel whose head names no slab works on at once: by format, and of lane groups.
STRIP, LANE_GROUP = 8, 128
#: Bytes of a row of B that a lane reads at once.
LANE_BYTES = 16
CASE = ["device", "suite", "matrix", "n", "l2"]
#: Kernel of sampled products → its dtype.
DTYPE_OF_SAMPLES = {name: dtype for dtype, kernels in choose.SAMPLED.items() for name in kernels}


def slabs_of(head: Head) -> costs.Slabs:
    """The columns of C that a CTA of a kernel computes at once; of sampled products, those that it reads at once."""
    if head.study == SAMPLING:
        size = itemsize(DTYPE_OF_SAMPLES[head.name])
        return costs.Slabs(choose.LINE // size, False, size)
    if head.format == "dense":
        return costs.Slabs(costs.DENSE_TILE, False, itemsize(head.dtype["b"]))
    of_rows = head.format in ("csr", "csr_swizzled", "csr_binned")
    if "lanes" in head.tile:
        columns = head.tile["lanes"] * LANE_BYTES // itemsize(head.dtype["b"])
    else:
        columns = head.tile.get("slab", LANE_GROUP if of_rows else STRIP)
    return costs.Slabs(columns, of_rows, itemsize(head.dtype["b"]))


def terms_of(head: Head) -> list[str]:
    """The terms of a kernel."""
    if head.format == "dense":
        return ["fixed", *costs.DENSE]
    also = {choose.PANELS: costs.PANELS, choose.STRIPS: costs.STRIPS}
    return [*costs.SPARSE, *also.get(head.format, ())]


def thresholds(x: np.ndarray) -> np.ndarray:
    """Where a trait, of which ``x`` float64[products] are the values, may divide products, ascending.

    Each lies halfway between two values, and has the five digits of the document, so that no product changes sides when
    it is written. Widths of B are powers of two again and again. Quantities that cancel leave the rounding of their
    logarithms, which divides nothing.
    """
    x = np.round(x, 9)
    values = np.unique(x)
    if len(values) < 2:
        return values + 1  # beyond all products: it divides none
    below = np.searchsorted(values, np.quantile(x, np.linspace(0, 1, BINS + 1)[1:-1]), side="right") - 1
    below = np.minimum(below, len(values) - 2)
    return np.unique([costs.written(limit) for limit in (values[below] + values[below + 1]) / 2])


@dataclass
class Fit:
    """What is fitted to the times of one kernel: :meth:`grow` adds a tree."""

    rows: np.ndarray
    """int64[products]: their places among all times"""
    slabs: costs.Slabs
    coefficients: np.ndarray
    """of all terms, in µs"""
    weight: np.ndarray
    """float64[products]"""
    limits: list[np.ndarray]
    """the thresholds of each trait"""
    codes: list[np.ndarray]
    """of each trait int64[products]: thresholds that the product exceeds"""
    trees: list[tuple[Any, ...]]

    def grow(self, left: np.ndarray) -> np.ndarray:
        """What a new tree predicts of ``left`` float64[products]."""
        leaf, asked = np.zeros(len(left), dtype=np.int64), []
        for level in range(LEVELS):
            gains = [
                _gains(leaf, 1 << level, code, len(of_trait) + 1, self.weight, left)
                for code, of_trait in zip(self.codes, self.limits, strict=True)
            ]
            trait = max(range(len(gains)), key=lambda i: gains[i].max(initial=0))
            limit = int(gains[trait].argmax())
            asked.append((trait, self.limits[trait][limit]))
            leaf = 2 * leaf + (self.codes[trait] > limit)
        sums, counts = (np.bincount(leaf, x, 1 << LEVELS) for x in (self.weight * left, self.weight))
        leaves = RATE * sums / (counts + SHRINKAGE)
        self.trees.append((*zip(*asked, strict=True), leaves))
        return leaves[leaf]

    def cost(self) -> costs.Cost:
        """The cost of the kernel."""
        trees = costs.Trees(*(np.array(part) for part in zip(*self.trees, strict=True)))
        return costs.Cost(self.slabs, self.coefficients, trees)


def boost(fits: Sequence[Fit], left: np.ndarray, weight: np.ndarray, case: np.ndarray) -> None:
    """Grow the trees of all kernels, tree by tree, on what is left of their times.

    ``left``, ``weight`` and ``case`` are of all times; times that do not count have the weight 0. What the kernels of a
    case have in common, such as where the entries of A lie, cannot be told from its sizes and does not matter to a
    choice: it is taken away before each tree.
    """
    for _ in range(TREES):
        sums, counts = (np.bincount(case, x) for x in (weight * left, weight))
        apart = left - (sums / np.maximum(counts, np.finfo(float).tiny))[case]
        for fit in fits:
            left[fit.rows] -= fit.grow(apart[fit.rows])


def _gains(leaf: np.ndarray, leaves: int, code: np.ndarray, bins: int, weight: np.ndarray, left: np.ndarray) -> Any:
    """How much of the squares of ``left`` each threshold of a trait removes, if it splits every leaf."""
    cell = leaf * bins + code
    sums, counts = (
        np.bincount(cell, x, leaves * bins).reshape(leaves, bins).cumsum(axis=1) for x in (weight * left, weight)
    )
    below, above = (sums[:, :-1], counts[:, :-1]), (sums[:, -1:] - sums[:, :-1], counts[:, -1:] - counts[:, :-1])
    return sum(s**2 / (c + SHRINKAGE) for s, c in (below, above)).sum(axis=0)


def begun(head: Head, rows: pd.DataFrame) -> tuple[Fit, np.ndarray]:
    """A fit without trees, of the coefficients of a kernel's terms, and what they leave of log t, float64[products].

    ``rows`` are its times, ``time_us``, and their weights, ``weight``.
    """
    slabs, names = slabs_of(head), list(costs.TERMS)
    time_us, weight = rows["time_us"].to_numpy(), rows["weight"].to_numpy()
    used = [names.index(name) for name in terms_of(head)]
    terms, traits = costs.terms_and_traits([costs.quantities(sizes, slabs) for sizes in sizes_of(rows)])
    terms = terms[used].T
    scale = terms.max(axis=0) + np.finfo(float).tiny
    predicted = time_us
    for _ in range(ROUNDS):
        root = np.sqrt(weight / (predicted * time_us))
        found, _ = nnls(terms / scale * root[:, None], time_us * root)
        predicted = terms @ (found / scale)
    coefficients = np.zeros(len(names))
    coefficients[used] = found / scale
    limits = [thresholds(x) for x in traits]
    codes = [np.searchsorted(of_trait, x) for of_trait, x in zip(limits, traits, strict=True)]
    fit = Fit(rows.index.to_numpy(), slabs, coefficients, weight, limits, codes, [])
    return fit, np.log(time_us / predicted)


def left_by_known(name: str, rows: pd.DataFrame) -> np.ndarray:
    """What a kernel's present cost leaves of log t, float64[products]."""
    predicted = [costs.log_us((name,), sizes)[0] for sizes in sizes_of(rows)]
    return np.log(rows["time_us"].to_numpy()) - predicted


def sizes_of(rows: pd.DataFrame) -> list[costs.Sizes]:
    """The products of some rows."""
    tiles = rows["panel_tiles"].astype(float).fillna(costs.unknown_panel_tiles(rows["blocks"]))
    columns = ("m", "k", "n", "nnz", "row_length_max", "blocks", "multiprocessors", "l2_bytes")
    m, k, n, nnz, longest, blocks, multiprocessors, l2_bytes = (rows[name].astype(int).tolist() for name in columns)
    given = zip(m, k, n, nnz, longest, blocks, tiles.tolist(), multiprocessors, l2_bytes, strict=True)
    return [costs.Sizes(*each) for each in given]


def times(kernels: Mapping[str, Head], half: str | None) -> pd.DataFrame:
    """All times to fit to, with their weights, and what is known of the product and the device of each."""
    recorded, timed = rows_to_fit(kernels)
    if half:
        recorded = recorded[recorded["matrix"].map(half_of) == half]
        timed = timed[(timed["suite"] != FILES) | (timed["matrix"].map(half_of) == half)]
    recorded["weight"] = RECORDED
    timed.loc[timed["suite"] == FILES, "weight"] = RECORDED
    rows = pd.concat([recorded, timed], ignore_index=True)
    stands = {stand: name for name, stand in STANDS_FOR.items() if kernels[name].format == "dense"}
    rows["kernel"] = rows["kernel"].map(lambda name: choose.costed(stands.get(name, name)))
    # Rivals may not be chosen, and how fast they are must not move a cost.
    rows = rows[rows["kernel"].isin([head.name for head in costed(kernels)])]
    rows = rows[(rows["nnz"] > 0) & (rows["time_ms"] > 0)].reset_index(drop=True)
    rows["time_us"] = rows["time_ms"] * 1e3
    # Kernels of sampled products have no dtype of A: their tables tell it.
    rows["dtype"] = rows["dtype"].fillna(rows["kernel"].map(lambda name: kernels[name].dtype["a"]))
    # Products in TF32 may take kernels of FP32, samples may not. Both may be of one matrix and width.
    is_sample = rows["kernel"].isin(list(DTYPE_OF_SAMPLES))
    rows["class"] = ("sampled " + rows["dtype"]).where(is_sample, rows["dtype"].replace("tf32", "float32"))
    rows["case"] = rows.groupby([*CASE, "class"]).ngroup()
    fastest, of_all = (rows.groupby(by)["time_us"].transform("min") for by in (["case", "dtype"], "case"))
    fastest = fastest.where(rows["dtype"] != "tf32", of_all)
    rows["weight"] = rows["weight"].fillna(1) * (fastest / rows["time_us"]) ** 2
    for device in DEVICES:
        about = contracts.document(ROOT / f"config/devices/{device}.yaml", "device")
        for name in ("multiprocessors", "l2_bytes"):
            rows.loc[rows["device"] == device, name] = about[name]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--half", choices=("fitted", "judged"), help="half of the matrices not generated; both by default"
    )
    parser.add_argument("--write", type=Path, default=COSTS, help="the document; resources/costs.json by default")
    parser.add_argument(
        "--kernels",
        default="*",
        metavar="PATTERNS",
        help="fit these alone, such as 'sampled_*'; others keep their costs",
    )
    options = parser.parse_args()
    kernels = known() | sampling()
    patterns = options.kernels.split(",")
    wanted = {name for name in kernels if any(fnmatchcase(name, pattern) for pattern in patterns)}
    rows = times(kernels, options.half)
    # Cases of the wanted kernels, with the times of others, which show what they have in common.
    rows = rows[rows["case"].isin(rows.loc[rows["kernel"].isin(wanted), "case"])].reset_index(drop=True)
    left, fits, found = np.zeros(len(rows)), {}, {}
    for head in costed(kernels):
        own = rows[rows["kernel"] == head.name]
        if head.name not in wanted and head.name in costs.known():
            found[head.name] = costs.known()[head.name].document()
            left[own.index] = left_by_known(head.name, own)
            continue
        if len(own) < LEAST_TIMES:
            parser.error(f"{head.name} has {len(own)} times, too few to fit a cost to: record it first")
        fits[head.name], left[own.index] = begun(head, own)
        print(f"{head.name}: {len(own):,} times", flush=True)
    boost(list(fits.values()), left, rows["weight"].to_numpy(), rows["case"].to_numpy())
    found |= {name: fit.cost().document() for name, fit in fits.items()}
    options.write.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(document, separators=(',', ':'))}" for name, document in sorted(found.items())
    )
    traits = json.dumps(list(costs.TRAITS))
    contracts.write_text(options.write, f'{{"traits": {traits}, "kernels": {{\n{lines}\n}}}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
