"""Products with a fixed sparse matrix: planned once and multiplied often, with arrays of any library."""

from .plan import SpMM

__all__ = ["SpMM"]
