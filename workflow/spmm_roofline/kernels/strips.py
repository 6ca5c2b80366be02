"""Strips of B that stay in shared memory (kernels/flagship/strips_f16.cu)."""

from __future__ import annotations

#: Bytes of each row of B in a strip, and of the shared memory that a CTA needs beside it.
CHUNK_BYTES, OTHER_BYTES = 16, 256


def fits(k: int, shared_bytes: int) -> bool:
    """Whether a CTA with so much shared memory holds a strip of ``k`` rows of B and a row of zeros."""
    return CHUNK_BYTES * (k + 1) + OTHER_BYTES <= shared_bytes
