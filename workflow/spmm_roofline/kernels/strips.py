"""Strips of B that stay in shared memory: how wide they are, and whether one fits."""

from __future__ import annotations

#: Bytes of a row of B in a chunk, of which a strip has one, two or four.
CHUNK_BYTES = 16
#: Shared memory that a CTA needs beside its strip.
OTHER_BYTES = 256


def strip_lanes(k: int, chunks: int, most: int, shared_bytes: int) -> int:
    """Chunks of a strip, a power of two: as many as B has and as fit with all k rows of B, at most ``most``.

    At least one, whether it fits (:func:`fits`) or not: the launch then says how much memory it lacks.
    """
    lanes = most
    while lanes > 1 and (lanes >= 2 * chunks or not fits(k, shared_bytes, lanes)):
        lanes //= 2
    return lanes


def fits(k: int, shared_bytes: int, lanes: int = 1) -> bool:
    """Whether the shared memory of a CTA holds a strip of ``lanes`` chunks and a row of zeros."""
    return CHUNK_BYTES * lanes * (k + 1) + OTHER_BYTES <= shared_bytes
