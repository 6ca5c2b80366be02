"""What a product costs: the times that the choice of a kernel compares.

The time of a kernel is a sum of terms, corrected by regression trees:

    log t = log Σ coefficient·term + Σ leaf

A term is a quantity that the product has whatever its kernel does with it, such as the multiplications of a
multiprocessor or the bytes of B that L2 does not hold; its coefficient is a time and not negative. Terms extend to
products larger than any that was measured. Trees ask for traits of the product, logarithms and ratios, and correct what
the terms leave out. All nodes of one level of a tree ask the same question (Prokhorenkova et al. 2018, CatBoost), so
that the answers are the index of a leaf.

``benchmarks/costs.py`` fits both to measured times and writes resources/costs.json. Of the device, times depend on the
number of its multiprocessors and on its L2 alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..paths import COSTS

#: Time of a term of one, in the unit of its coefficient: terms are scaled so that coefficients are in µs.
_K, _M = 1e3, 1e6
#: Part of L2 that B, or a slab of it, finds free.
OF_L2 = 0.8
#: Rows of a window and of a panel, columns of a tile of either, and rows and columns of a CTA's part of a dense C.
WINDOW, WINDOW_TILE, PANEL_TILE, DENSE_TILE = 8, 16, 32, 128
#: CTAs of windows that a multiprocessor holds, at most, and work on a panel of strips beside its steps, in steps.
WINDOWS_AT_ONCE, STRIP_OF_PANEL = 16, 1.2
#: Narrowest slab of a kernel whose slabs are as wide as B.
NARROWEST_SLAB = 4


@dataclass(frozen=True)
class Sizes:
    """A product C[m×n] = A·B on a device: numbers, or arrays of numbers that broadcast.

    ``blocks`` are tiles of 8×16 in windows, ``longest`` the entries of the longest row, and ``panel_tiles`` the tiles
    of 64×32 in panels, or ``blocks`` for a kernel that reads no panels, so that its time does not depend on them.
    """

    m: Any
    k: Any
    n: Any
    nnz: Any
    longest: Any
    blocks: Any
    panel_tiles: Any
    multiprocessors: Any
    l2_bytes: Any


@dataclass(frozen=True)
class Slabs:
    """The columns of C that a CTA computes at once: numbers, or arrays of numbers that broadcast."""

    columns: Any
    narrows: Any
    """whether slabs are no wider than the next power of two from n on"""
    itemsize: Any
    """bytes of an element of B"""

    def width(self, n: Any) -> Any:
        """Columns of a slab of a product with ``n`` columns."""
        near = np.maximum(2 ** np.ceil(np.log2(n)), NARROWEST_SLAB)
        return np.where(self.narrows, np.minimum(self.columns, near), self.columns)


#: The values of a term from the sizes, the columns of a slab, the number of slabs, and the bytes of an element of B.
Term = Callable[[Sizes, Any, Any, Any], Any]


def _missed(s: Sizes, w: Any, itemsize: Any) -> Any:
    """Bytes of each element of a row of B that come from DRAM: the part of a slab of B that L2 does not hold."""
    slab = s.k * np.minimum(w, s.n) * itemsize
    return itemsize * np.maximum(0, 1 - OF_L2 * s.l2_bytes / slab) / _M


def _beyond(s: Sizes, itemsize: Any) -> Any:
    """Bytes of A, B and C that L2 does not hold."""
    total = s.nnz * (4 + itemsize) + (s.k + s.m) * s.n * itemsize
    return np.maximum(0, total - OF_L2 * s.l2_bytes) / _M


def _steps(s: Sizes) -> Any:
    """Steps of all panels of a strip, each as long as the longest row wants."""
    return s.m * (np.ceil(s.longest / PANEL_TILE) + STRIP_OF_PANEL)


#: Of every kernel.
SPARSE: Mapping[str, Term] = {
    "fixed": lambda s, w, slabs, e: 1.0,
    "multiplications": lambda s, w, slabs, e: s.nnz * s.n / s.multiprocessors / _K,
    "padded_multiplications": lambda s, w, slabs, e: s.nnz * slabs * w / s.multiprocessors / _K,
    "entries": lambda s, w, slabs, e: s.nnz * slabs / s.multiprocessors / _K,
    "rows": lambda s, w, slabs, e: s.m * slabs / s.multiprocessors / _K,
    "elements_of_c": lambda s, w, slabs, e: s.m * s.n / s.multiprocessors / _K,
    "gathered": lambda s, w, slabs, e: WINDOW_TILE * s.blocks * s.n / s.multiprocessors / _K,
    "padded_gathered": lambda s, w, slabs, e: WINDOW_TILE * s.blocks * slabs * w / s.multiprocessors / _K,
    "columns_of_tiles": lambda s, w, slabs, e: WINDOW_TILE * s.blocks * slabs / s.multiprocessors / _K,
    "longest_row": lambda s, w, slabs, e: s.longest / _K,
    "longest_row_of_slabs": lambda s, w, slabs, e: s.longest * slabs / _K,
    "mean_row": lambda s, w, slabs, e: s.nnz / s.m / _K,
    "missed_rows": lambda s, w, slabs, e: _missed(s, w, e) * s.nnz * s.n / _K,
    "missed_rows_of_tiles": lambda s, w, slabs, e: _missed(s, w, e) * WINDOW_TILE * s.blocks * s.n / _K,
    "beyond_l2": lambda s, w, slabs, e: _beyond(s, e),
    "rows_of_b": lambda s, w, slabs, e: s.k * slabs / _M,
    "bytes_of_b": lambda s, w, slabs, e: s.k * s.n * e / _M,
    "waves": lambda s, w, slabs, e: (
        np.ceil(np.ceil(s.m / WINDOW) * slabs / (s.multiprocessors * WINDOWS_AT_ONCE))
        * (s.nnz / s.m * WINDOW * np.minimum(w, s.n) / _K)
    ),
    "root_multiplications": lambda s, w, slabs, e: np.sqrt(s.nnz * s.n) / _K,
    "root_elements_of_c": lambda s, w, slabs, e: np.sqrt(s.m * s.n) / _K,
}
#: Of kernels that read panels, and strips.
PANELS: Mapping[str, Term] = {
    "padded_panels": lambda s, w, slabs, e: PANEL_TILE * s.panel_tiles * slabs * w / s.multiprocessors / _K,
    "columns_of_panels": lambda s, w, slabs, e: PANEL_TILE * s.panel_tiles * slabs / s.multiprocessors / _K,
    "missed_rows_of_panels": lambda s, w, slabs, e: _missed(s, w, e) * PANEL_TILE * s.panel_tiles * s.n / _K,
}
STRIPS: Mapping[str, Term] = {
    "steps_of_strips": lambda s, w, slabs, e: slabs * _steps(s) / s.multiprocessors / _K,
    "waves_of_steps": lambda s, w, slabs, e: np.ceil(slabs / s.multiprocessors) * _steps(s) / PANEL_TILE / _K,
    "waves_of_copies": lambda s, w, slabs, e: np.ceil(slabs / s.multiprocessors) * s.k / _K,
    "copies": lambda s, w, slabs, e: s.k * slabs / s.multiprocessors / _K,
}
#: Of dense products, beside the first.
DENSE: Mapping[str, Term] = {
    "dense_multiplications": lambda s, w, slabs, e: s.m * s.k * s.n / s.multiprocessors / _M,
    "dense_steps": lambda s, w, slabs, e: s.k * np.sqrt(s.m * s.n) / _M,
    "root_dense_multiplications": lambda s, w, slabs, e: np.sqrt(s.m * s.k * s.n) / _M,
    "dense_depth": lambda s, w, slabs, e: s.k / _K,
    "dense_elements_of_c": lambda s, w, slabs, e: s.m * s.n / _M,
    "dense_bytes_of_a": lambda s, w, slabs, e: s.m * s.k * e / _M,
    "dense_bytes_beyond_l2": lambda s, w, slabs, e: (
        np.where(s.m * s.k * e > s.l2_bytes, (s.m * s.k + (s.k + s.m) * s.n) * e, 0) / _M
    ),
    "dense_waves": lambda s, w, slabs, e: (
        np.ceil(np.ceil(s.m / DENSE_TILE) * np.ceil(s.n / DENSE_TILE) / s.multiprocessors) * s.k / _K
    ),
}
TERMS: Mapping[str, Term] = {**SPARSE, **PANELS, **STRIPS, **DENSE}

#: What trees ask for.
TRAITS: Mapping[str, Term] = {
    "log_m": lambda s, w, slabs, e: np.log(s.m),
    "log_k": lambda s, w, slabs, e: np.log(s.k),
    "log_n": lambda s, w, slabs, e: np.log(s.n),
    "log_mean_row": lambda s, w, slabs, e: np.log(s.nnz / s.m),
    "log_longest_row": lambda s, w, slabs, e: np.log(s.longest),
    "log_longest_of_mean": lambda s, w, slabs, e: np.log(s.longest * s.m / s.nnz),
    "log_fill": lambda s, w, slabs, e: np.log(s.nnz / s.blocks),
    "log_shared": lambda s, w, slabs, e: np.log(s.blocks / s.panel_tiles),
    "log_multiplications": lambda s, w, slabs, e: np.log(s.nnz * s.n / s.multiprocessors),
    "log_b_of_l2": lambda s, w, slabs, e: np.log(s.k * s.n * e / s.l2_bytes),
    "log_slab_of_l2": lambda s, w, slabs, e: np.log(s.k * np.minimum(w, s.n) * e / s.l2_bytes),
    "log_c": lambda s, w, slabs, e: np.log(s.m * s.n / s.multiprocessors),
    "log_rows": lambda s, w, slabs, e: np.log(s.m * slabs / s.multiprocessors),
    "log_entries": lambda s, w, slabs, e: np.log(s.nnz * slabs / s.multiprocessors),
    "padding": lambda s, w, slabs, e: (slabs * w - s.n) / s.n,
    "log_shape": lambda s, w, slabs, e: np.log(s.m / s.k),
    "rows_of_16_bytes": lambda s, w, slabs, e: (s.n * e) % 16 == 0,
}


def values(of: Mapping[str, Term], sizes: Sizes, slabs: Slabs) -> np.ndarray:
    """Terms or traits, float64[…, len(of)], of all products and kernels that the arguments broadcast to."""
    width = slabs.width(sizes.n)
    number = np.ceil(sizes.n / width)
    found = np.empty((*np.broadcast(width, sizes.m, sizes.panel_tiles).shape, len(of)))
    for i, term in enumerate(of.values()):
        found[..., i] = term(sizes, width, number, slabs.itemsize)
    return found


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
            "coefficients_us": {name: _short(x) for name, x in known.items()},
            "traits": self.trees.traits.tolist(),
            "thresholds": [[_short(x) for x in tree] for tree in self.trees.thresholds.tolist()],
            "leaves": [[round(x, 5) for x in tree] for tree in self.trees.leaves.tolist()],
        }


def _short(x: float) -> float:
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
    trees = Trees(*(np.array(document[part]) for part in ("traits", "thresholds", "leaves")))
    return Cost(Slabs(document["slab"], document["narrows"], document["itemsize"]), coefficients, trees)


@dataclass(frozen=True)
class _Together:
    """The costs of some kernels as arrays, in which one look-up serves all of them."""

    slabs: Slabs
    terms: Mapping[str, Term]
    """those that one of the kernels has"""
    coefficients: np.ndarray
    """float64[kernels, terms]"""
    asked: np.ndarray
    """int64[level, kernels, trees]: the index of a question's trait in [kernels, traits]"""
    thresholds: np.ndarray
    """float64[level, kernels, trees]"""
    leaves: np.ndarray
    """float64[leaves of all trees of all kernels]"""
    first: np.ndarray
    """int64[kernels, trees]: the index of a tree's first leaf"""


@lru_cache(maxsize=64)
def _together(names: Sequence[str]) -> _Together:
    costs = [known()[name] for name in names]
    slabs = (np.array([getattr(cost.slabs, part) for cost in costs]) for part in ("columns", "narrows", "itemsize"))
    coefficients = np.stack([cost.coefficients for cost in costs])
    used, named = np.flatnonzero(coefficients.max(axis=0)), list(TERMS)
    traits, thresholds, leaves = (
        np.stack([getattr(cost.trees, part) for cost in costs]) for part in ("traits", "thresholds", "leaves")
    )
    asked = traits + len(TRAITS) * np.arange(len(costs))[:, None, None]
    return _Together(
        Slabs(*slabs),
        {named[i]: TERMS[named[i]] for i in used},
        coefficients[:, used],
        np.ascontiguousarray(np.moveaxis(asked, -1, 0)),
        np.ascontiguousarray(np.moveaxis(thresholds, -1, 0)),
        leaves.ravel(),
        np.arange(0, leaves.size, leaves.shape[-1]).reshape(leaves.shape[:-1]),
    )


def log_us(names: Sequence[str], sizes: Sizes) -> np.ndarray:
    """Logarithm of the time in µs of a product with each of some kernels; ``sizes`` are numbers, or of each kernel."""
    all_of = _together(tuple(names))
    base = (values(all_of.terms, sizes, all_of.slabs) * all_of.coefficients).sum(axis=-1)
    answers = values(TRAITS, sizes, all_of.slabs).ravel()[all_of.asked] > all_of.thresholds
    leaf = answers[0].astype(np.int64)
    for answer in answers[1:]:
        leaf = 2 * leaf + answer
    return np.log(base) + all_of.leaves[all_of.first + leaf].sum(axis=-1)
