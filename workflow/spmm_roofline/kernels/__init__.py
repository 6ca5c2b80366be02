"""Kernels: their heads, what they include, how they are compiled and launched. ``kernels/`` is the registry."""

from .head import Head, HeadError
from .registry import heads, registered

__all__ = ["Head", "HeadError", "heads", "registered"]
