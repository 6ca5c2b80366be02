"""Packages that an installation may lack, and how to install them."""

from __future__ import annotations


def without_cupy(what: str) -> str:
    """A sentence that says what to install for ``what``, which multiplies on a GPU; empty if CuPy is there."""
    try:
        import cupy  # noqa: F401
    except ImportError:
        return (
            f"{what} needs CuPy: pip install 'spmm-roofline[cuda13]', or [cuda12] for a driver of CUDA 12 "
            "(in a checkout, pip install -e '.[cuda13]')"
        )
    return ""
