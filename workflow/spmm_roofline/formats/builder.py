"""Packing on a device by code of our own, where the operations of arrays would be dozens of launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .base import ceil_div

#: Threads of the one CTA that cuts shares.
THREADS = 1024
SHARED = Path(__file__).with_name("builder.cuh")


def source(path: Path) -> str:
    """The CUDA code of a format, ``path``, behind what formats share."""
    return SHARED.read_text() + path.read_text()


def defines(cost: int, **more: int) -> dict[str, str]:
    """Macros of the code of a format in which a range costs so many elements."""
    return {name: str(value) for name, value in {"THREADS": THREADS, "COST": cost, **more}.items()}


def launcher(path: Path, macros: Mapping[str, str]) -> Callable[..., None]:
    """Launches a function of a format's code on the current device: name, threads, arguments.

    Whole numbers are passed as int. There are CTAs of 256 threads, or one of so many as the function is bounded to.
    """
    return _launcher(path, tuple(macros.items()))


@cache
def _launcher(path: Path, macros: tuple[tuple[str, str], ...]) -> Callable[..., None]:
    import cupy

    options = ("--std=c++17", *(f"-D{name}={value}" for name, value in macros))
    module = cupy.RawModule(code=source(path), options=options)

    def launch(name: str, ctas: int, threads: int, *arguments: Any) -> None:
        numbers = (np.int32(value) if isinstance(value, int) else value for value in arguments)
        module.get_function(name)((ctas,), (threads,), tuple(numbers))

    return launch


def rows(build: Callable[..., None], a: Any, values: Any) -> tuple[Any, Any, Any]:
    """First slot of each row, int32[m+1], columns with a row's last one as ~column, int32[slots], and values[slots]."""
    import cupy

    m = int(a.shape[0])
    indptr, indices = a.indptr.astype(cupy.int32, copy=False), a.indices.astype(cupy.int32, copy=False)
    begins = cupy.zeros(m + 1, dtype=cupy.int32)
    if m:
        build("count_slots", ceil_div(m, 256), 256, indptr, m, begins[1:])
        cupy.cumsum(begins, out=begins)
    slots = int(begins[-1].get())
    columns, data = cupy.empty(slots, dtype=cupy.int32), cupy.empty(slots, dtype=values.dtype)
    if slots:
        place = f"place_rows_{8 * values.itemsize}"
        build(place, ceil_div(slots, 256), 256, indptr, indices, values, begins, m, slots, columns, data)
    return begins, columns, data


def shares(build: Callable[..., None], begins: Any, cost: int, count: int, slack: int) -> tuple[Any, Any]:
    """``work`` int32[count, 4] and ``cut`` int32[parts, 4] of ranges that begin at ``begins``, int32[ranges+1]."""
    import cupy

    work, cut = cupy.empty((count, 4), dtype=cupy.int32), cupy.empty((2 * count, 4), dtype=cupy.int32)
    parts = cupy.empty(1, dtype=cupy.int32)
    build("share", 1, THREADS, begins, len(begins) - 1, cost, count, slack, work, cut, parts)
    return work, cut[: int(parts.get()[0])]
