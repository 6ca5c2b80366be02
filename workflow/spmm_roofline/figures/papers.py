"""The texts whose studies are re-created: each has a section of the report in the form of its own figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Paper:
    """Title of a study and the source of its text."""

    title: str
    source: str


#: Study → its text, in the order of the page.
PAPERS = {
    "sptc": Paper("2:4 tiles of a sparse matrix", "Mistry 2025, a thesis on SMaT's kernels with sparse tensor cores"),
    "cutespmm": Paper("Sparse rows packed into bricks", "Xiang et al. 2024, cuTeSpMM"),
    "attention": Paper("Pruned weights of attention", "Lagos 2025, a thesis on dense times sparse in self-attention"),
    "memory_bound": Paper("Tensor cores on memory-bound kernels", "Zhang et al. 2025"),
    "gemm24": Paper(
        "Dense products with 2:4 weights", "the post 'Implementing a 2:4 Sparse GEMM Kernel with Tensor Cores'"
    ),
}


def alone(cases: pd.DataFrame, study: str) -> bool:
    """Whether ``cases`` has kernels of ``study`` and of no other paper, and so is an experiment of that study."""
    return set(cases["study"].unique()) & PAPERS.keys() == {study}
