"""What a product costs: the times that the choice of a kernel compares.

The time of a kernel is a sum of terms, corrected by regression trees:

    log t = log Σ coefficient·term + Σ leaf

A term is a product of powers of quantities, such as the multiplications of a multiprocessor or the bytes of B that L2
does not hold; its coefficient is a time and not negative. Terms extend to products larger than any that was measured.
Trees ask for traits, which are such products as well, and correct what the terms leave out. All nodes of one level of a
tree ask the same question (Prokhorenkova et al. 2018, CatBoost), so that the answers are the index of a leaf. Trees
learn what sets the kernels of a product apart, not what these have in common: ratios of times are better than times, of
which half are within 3 to 10 %, by kernel, on generated matrices that nothing was fitted to.

``benchmarks/costs.py`` fits both to measured times and writes resources/costs.json. Of the device, times depend on the
number of its multiprocessors and on its L2 alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..formats.arrays import ceil_div
from ..paths import COSTS
from .expressions import power_of_two

#: Part of L2 that B, or a slab of it, finds free.
OF_L2 = 0.8
#: Rows of a window, columns of a tile of a panel, and rows and columns of a CTA's part of a dense C.
WINDOW, PANEL_TILE, DENSE_TILE = 8, 32, 128
#: CTAs of windows that a multiprocessor holds, at most, and work on a panel of strips beside its steps, in steps.
WINDOWS_AT_ONCE, STRIP_OF_PANEL = 16, 1.2
#: Least rows of A that costs were fitted to. Means over fewer rows, such as the entries of an average one, would leave
#: what was measured: of one row of 100,000 entries, costs would be those of as many entries in every row.
LEAST_ROWS = 216
#: Narrowest slab of a kernel whose slabs are as wide as B.
NARROWEST_SLAB = 4
#: Bits of the index of a leaf, one a level: trees have no more levels.
BITS = 8
#: What stands for zero where logarithms are taken.
NOTHING = 1e-30
#: What 1 is of a leaf in the document, which has whole numbers: as decimal fractions they would take twice the bytes.
LEAF_UNIT = 1e-5


def unknown_panel_tiles(blocks: float) -> float:
    """What stands for the tiles of panels where nobody counted them: they are twice as wide as those of windows."""
    return blocks / 2


class Sizes(NamedTuple):
    """A product C[m×n] = A·B on a device.

    ``blocks`` are tiles of 8×16 in windows, ``longest`` the entries of the longest row, and ``panel_tiles`` the tiles
    of 64×32 in panels, of which there are the fewer the more columns neighbouring windows have in common.
    """

    m: int
    k: int
    n: int
    nnz: int
    longest: int
    blocks: int
    panel_tiles: float
    multiprocessors: int
    l2_bytes: int


class Slabs(NamedTuple):
    """The columns of C that a CTA computes at once, and what it reads."""

    columns: int
    narrows: bool
    """whether slabs are no wider than the next power of two from n on"""
    itemsize: int
    """bytes of an element of B"""


class Quantities(NamedTuple):
    """Quantities of a product, of which terms and traits are made."""

    m: float
    rows: float
    """those over which means are taken and trees decide: ``m``, but at least :data:`LEAST_ROWS`"""
    k: float
    n: float
    nnz: float
    longest: float
    blocks: float
    panel_tiles: float
    multiprocessors: float
    l2_bytes: float
    itemsize: float
    slabs: float
    padded: float
    """columns with those that fill the last slab"""
    slab: float
    missed: float
    """part of a slab of B that L2 does not hold"""
    beyond: float
    """bytes of A, B and C that L2 does not hold"""
    window_waves: float
    slab_waves: float
    strip_steps: float
    dense_far: float
    """bytes of a dense product beyond L2"""
    dense_waves: float
    unaligned: float
    """2 if rows of B are no multiple of 16 bytes, otherwise 1"""


def quantities(s: Sizes, slabs: Slabs) -> Quantities:
    """The quantities of a product. Kernels have a handful of different slabs: arrays would take longer."""
    m, k, n, nnz, longest, blocks, panel_tiles, multiprocessors, l2_bytes = s
    width, narrows, e = slabs
    if narrows:
        width = min(width, max(power_of_two(n), NARROWEST_SLAB))
    number, slab, free = ceil_div(n, width), min(width, n), OF_L2 * l2_bytes
    of_dense, of_b_and_c = m * k * e, (k + m) * n * e
    return Quantities(  # in the order of its fields
        m,
        max(m, LEAST_ROWS),
        k,
        n,
        nnz,
        longest,
        blocks,
        panel_tiles,
        multiprocessors,
        l2_bytes,
        e,
        number,
        number * width,
        slab,
        1 - free / (k * slab * e),
        nnz * (4 + e) + of_b_and_c - free,
        ceil_div(ceil_div(m, WINDOW) * number, multiprocessors * WINDOWS_AT_ONCE),
        ceil_div(number, multiprocessors),
        m * (ceil_div(longest, PANEL_TILE) + STRIP_OF_PANEL),
        of_dense + of_b_and_c if of_dense > l2_bytes else 0,
        ceil_div(ceil_div(m, DENSE_TILE) * ceil_div(n, DENSE_TILE), multiprocessors),
        1 + (n * e % 16 > 0),
    )


#: Name → quantity → exponent: a product of powers of quantities.
Monomials = Mapping[str, Mapping[str, float]]

_PER_SM = {"multiprocessors": -1}
#: The larger a slab of B, the farther away are its rows: in L1, in the near half of L2, and in the far one.
_FARTHER = {"k": 0.25, "slab": 0.25, "itemsize": 0.25, "l2_bytes": -0.25}
#: Terms of every kernel that reads a sparse A.
SPARSE: Monomials = {
    "fixed": {},
    "multiplications": {"nnz": 1, "n": 1, **_PER_SM},
    "padded_multiplications": {"nnz": 1, "padded": 1, **_PER_SM},
    "entries": {"nnz": 1, "slabs": 1, **_PER_SM},
    "rows": {"m": 1, "slabs": 1, **_PER_SM},
    "elements_of_c": {"m": 1, "n": 1, **_PER_SM},
    "gathered": {"blocks": 1, "n": 1, **_PER_SM},
    "padded_gathered": {"blocks": 1, "padded": 1, **_PER_SM},
    "tiles": {"blocks": 1, "slabs": 1, **_PER_SM},
    "farther_multiplications": {"nnz": 1, "n": 1, **_PER_SM, **_FARTHER},
    "farther_gathered": {"blocks": 1, "n": 1, **_PER_SM, **_FARTHER},
    "longest_row": {"longest": 1},
    "longest_row_of_slabs": {"longest": 1, "slabs": 1},
    "mean_row": {"nnz": 1, "rows": -1},
    "missed_rows": {"missed": 1, "nnz": 1, "n": 1, "itemsize": 1},
    "missed_rows_of_tiles": {"missed": 1, "blocks": 1, "n": 1, "itemsize": 1},
    "beyond_l2": {"beyond": 1},
    "rows_of_b": {"k": 1, "slabs": 1},
    "bytes_of_b": {"k": 1, "n": 1, "itemsize": 1},
    "waves": {"window_waves": 1, "nnz": 1, "rows": -1, "slab": 1},
    "root_multiplications": {"nnz": 0.5, "n": 0.5},
    "root_elements_of_c": {"m": 0.5, "n": 0.5},
}
#: Further terms of kernels that read panels, and strips.
PANELS: Monomials = {
    "padded_panels": {"panel_tiles": 1, "padded": 1, **_PER_SM},
    "tiles_of_panels": {"panel_tiles": 1, "slabs": 1, **_PER_SM},
    "missed_rows_of_panels": {"missed": 1, "panel_tiles": 1, "n": 1, "itemsize": 1},
}
STRIPS: Monomials = {
    "steps_of_strips": {"strip_steps": 1, "slabs": 1, **_PER_SM},
    "waves_of_steps": {"strip_steps": 1, "slab_waves": 1},
    "waves_of_copies": {"slab_waves": 1, "k": 1},
    "copies": {"k": 1, "slabs": 1, **_PER_SM},
}
#: Terms of dense products, beside the fixed one.
DENSE: Monomials = {
    "dense_multiplications": {"m": 1, "k": 1, "n": 1, **_PER_SM},
    "dense_steps": {"k": 1, "m": 0.5, "n": 0.5},
    "root_dense_multiplications": {"m": 0.5, "k": 0.5, "n": 0.5},
    "dense_depth": {"k": 1},
    "dense_elements_of_c": {"m": 1, "n": 1},
    "dense_bytes_of_a": {"m": 1, "k": 1, "itemsize": 1},
    "dense_bytes_beyond_l2": {"dense_far": 1},
    "dense_waves": {"dense_waves": 1, "k": 1},
}
TERMS: Monomials = {**SPARSE, **PANELS, **STRIPS, **DENSE}

#: What trees ask for: logarithms of these.
TRAITS: Monomials = {
    "m": {"rows": 1},
    "k": {"k": 1},
    "n": {"n": 1},
    "mean_row": {"nnz": 1, "rows": -1},
    "longest_row": {"longest": 1},
    "longest_of_mean": {"longest": 1, "rows": 1, "nnz": -1},
    "fill": {"nnz": 1, "blocks": -1},
    "shared": {"blocks": 1, "panel_tiles": -1},
    "multiplications": {"nnz": 1, "n": 1, **_PER_SM},
    "b_of_l2": {"k": 1, "n": 1, "itemsize": 1, "l2_bytes": -1},
    "slab_of_l2": {"k": 1, "slab": 1, "itemsize": 1, "l2_bytes": -1},
    "elements_of_c": {"rows": 1, "n": 1, **_PER_SM},
    "rows": {"rows": 1, "slabs": 1, **_PER_SM},
    "entries": {"nnz": 1, "slabs": 1, **_PER_SM},
    "padding": {"padded": 1, "n": -1},
    "shape": {"rows": 1, "k": -1},
    "unaligned": {"unaligned": 1},
}


def exponents(of: Monomials) -> np.ndarray:
    """The exponent of each quantity in each monomial, float64[len(of), quantities]."""
    return np.array([[powers.get(name, 0.0) for name in Quantities._fields] for powers in of.values()])


_EXPONENTS = np.concatenate([exponents(TERMS), exponents(TRAITS)])


def terms_and_traits(products: Sequence[Quantities]) -> tuple[np.ndarray, np.ndarray]:
    """The values of terms and the logarithms of traits, float64[TERMS, products] and float64[TRAITS, products]."""
    rows = np.fromiter(chain.from_iterable(products), np.float64).reshape(len(products), -1)
    logs = _EXPONENTS @ np.log(np.maximum(rows.T, NOTHING))
    return np.exp(logs[: len(TERMS)]), logs[len(TERMS) :]


@dataclass(frozen=True)
class Trees:
    """Regression trees of equal depth: arrays [tree, level] of questions, and [tree, leaf] of what they add.

    The answer to the question of a level is whether a trait exceeds a threshold; the first level gives the highest bit
    of the leaf.
    """

    traits: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray


@dataclass(frozen=True)
class Cost:
    """What is known of one kernel."""

    slabs: Slabs
    coefficients: np.ndarray
    """of the terms, in µs"""
    trees: Trees

    def document(self) -> dict[str, Any]:
        """The cost as resources/costs.json has it."""
        known = {name: x for name, x in zip(TERMS, self.coefficients.tolist(), strict=True) if x}
        return {
            "slab": self.slabs.columns,
            "narrows": self.slabs.narrows,
            "itemsize": self.slabs.itemsize,
            "coefficients_us": {name: written(x) for name, x in known.items()},
            "traits": self.trees.traits.tolist(),
            "thresholds": [[written(x) for x in tree] for tree in self.trees.thresholds.tolist()],
            "leaves": np.rint(self.trees.leaves / LEAF_UNIT).astype(int).tolist(),
        }


def written(x: float) -> float:
    """A number as the document has it, with five digits."""
    return float(f"{x:.5g}")


@cache
def known() -> Mapping[str, Cost]:
    """Kernel → its cost, of all kernels that were fitted. Raises ``ValueError`` if the traits are others."""
    document = json.loads(COSTS.read_text(encoding="utf-8"))
    if document["traits"] != list(TRAITS):
        raise ValueError(f"{COSTS} asks for other traits: `python benchmarks/costs.py` fits it anew")
    return {name: _cost(of_kernel) for name, of_kernel in document["kernels"].items()}


def _cost(document: Mapping[str, Any]) -> Cost:
    coefficients = np.array([document["coefficients_us"].get(name, 0.0) for name in TERMS])
    traits, thresholds, leaves = (np.array(document[part]) for part in ("traits", "thresholds", "leaves"))
    trees = Trees(traits, thresholds, LEAF_UNIT * leaves)
    return Cost(Slabs(*(document[name] for name in ("slab", "narrows", "itemsize"))), coefficients, trees)


@dataclass(frozen=True)
class _Together:
    """The costs of some kernels as arrays, in which one look-up serves all of them."""

    slabs: tuple[Slabs, ...]
    """without repetitions"""
    which: np.ndarray
    """int64[kernels]: the slabs of a kernel"""
    coefficients: np.ndarray
    """float64[terms, kernels]"""
    asked: np.ndarray
    """int64[kernels, trees, BITS]: the index of a question's trait in [traits, slabs], one a level; the first ones ask
    nothing"""
    thresholds: np.ndarray
    """float64[kernels, trees, BITS]"""
    leaves: np.ndarray
    """int32[leaves of all trees of all kernels], in :data:`LEAF_UNIT`: half as much memory to read"""
    first: np.ndarray
    """int64[kernels, trees]: the index of a tree's first leaf"""


@lru_cache(maxsize=64)
def _together(names: Sequence[str]) -> _Together:
    costs = [known()[name] for name in names]
    slabs = tuple(dict.fromkeys(cost.slabs for cost in costs))
    which = np.array([slabs.index(cost.slabs) for cost in costs])
    traits, thresholds, leaves = (
        np.stack([getattr(cost.trees, part) for cost in costs]) for part in ("traits", "thresholds", "leaves")
    )
    asked = len(slabs) * traits + which[:, None, None]
    more = [(0, 0), (0, 0), (BITS - asked.shape[-1], 0)]
    return _Together(
        slabs,
        which,
        np.stack([cost.coefficients for cost in costs], axis=-1),
        np.pad(asked, more),
        np.pad(thresholds, more, constant_values=np.inf),
        np.rint(leaves / LEAF_UNIT).astype(np.int32).ravel(),
        np.arange(0, leaves.size, leaves.shape[-1]).reshape(leaves.shape[:-1]),
    )


def log_us(names: Sequence[str], sizes: Sizes) -> np.ndarray:
    """Logarithm of the time in µs of a product with each of some kernels, float64[kernels]."""
    all_of = _together(tuple(names))
    terms, traits = terms_and_traits([quantities(sizes, slabs) for slabs in all_of.slabs])
    answers = traits.ravel().take(all_of.asked) > all_of.thresholds
    leaf = np.packbits(answers.ravel()).reshape(all_of.first.shape)
    corrections = LEAF_UNIT * all_of.leaves.take(all_of.first + leaf).sum(axis=-1)
    return np.log((terms[:, all_of.which] * all_of.coefficients).sum(axis=0)) + corrections
