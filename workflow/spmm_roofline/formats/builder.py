"""Packing on a device by code of our own, where the operations of arrays would be dozens of launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .base import ceil_div

#: Threads of a CTA, and of the one that cuts shares.
CTA, THREADS = 256, 1024
SHARED = Path(__file__).with_name("builder.cuh")


def source(path: Path) -> str:
    """The CUDA code of a format, ``path``, behind what formats share."""
    return SHARED.read_text() + path.read_text()


def defines(cost: int, least_cost: int, **more: int) -> dict[str, str]:
    """Macros of the code of a format in which a range costs so many elements, and a share so many at least; what of
    builder.cuh's macros ``more`` does not define lets no border of a share move."""
    values = {"LEAST_SLACK": 0, "SLACK": 2**31 - 1, "SMALL": 0, "SMALL_SLACK": 0, **more}
    return {
        name: str(value)
        for name, value in {"COST": cost, "LEAST_COST": least_cost, "THREADS": THREADS, **values}.items()
    }


def launcher(path: Path, macros: Mapping[str, str]) -> Callable[..., None]:
    """Launches a function of a format's code on the current device: name, CTAs, arguments.

    Whole numbers are passed as int. A CTA has 256 threads, or so many as ``threads`` says.
    """
    return _launcher(path, tuple(macros.items()))


@cache
def _launcher(path: Path, macros: tuple[tuple[str, str], ...]) -> Callable[..., None]:
    import cupy

    options = ("--std=c++17", *(f"-D{name}={value}" for name, value in macros))
    module = cupy.RawModule(code=source(path), options=options)
    functions: dict[tuple[int, str], Any] = {}

    def launch(name: str, ctas: int, *arguments: Any, threads: int = CTA) -> None:
        key = (cupy.cuda.runtime.getDevice(), name)
        if key not in functions:
            functions[key] = module.get_function(name)
        numbers = [np.int32(value) if isinstance(value, int) else value for value in arguments]
        functions[key]((ctas,), (threads,), tuple(numbers))

    return launch


def ctas(count: int) -> int:
    """CTAs with a thread for each of so many things, at least one."""
    return max(ceil_div(count, CTA), 1)


def states(count: int) -> Any:
    """What CTAs with a thread for each of so many things leave for each other when they add up, uint64[ctas+1]."""
    import cupy

    return cupy.zeros(ctas(count) + 1, dtype=cupy.uint64)


def row_begins(build: Callable[..., None], a: Any) -> Any:
    """First slot of each row, int32[m+1], where an empty row has one."""
    import cupy

    m = int(a.shape[0])
    begins = cupy.empty(m + 1, dtype=cupy.int32)
    build("count_slots", ctas(m), a.indptr.astype(cupy.int32, copy=False), m, states(m), begins)
    return begins


def placed_rows(build: Callable[..., None], a: Any, values: Any, begins: Any, slots: int) -> tuple[Any, Any]:
    """Columns with a row's last one as ~column, int32[slots], and values[slots]."""
    import cupy

    indptr, indices = a.indptr.astype(cupy.int32, copy=False), a.indices.astype(cupy.int32, copy=False)
    columns, data = cupy.empty(slots, dtype=cupy.int32), cupy.empty(slots, dtype=values.dtype)
    if slots:
        place = f"place_rows_{8 * values.itemsize}"
        build(place, ctas(slots), indptr, indices, values, begins, len(begins) - 1, slots, columns, data)
    return columns, data


def shares(build: Callable[..., None], begins: Any, most: int) -> tuple[int, Any, Any]:
    """Elements of all ranges, ``work`` int32[shares, 4] and ``cut`` int32[parts, 4], in up to ``most`` shares.

    ``begins`` int32[ranges+1]: the first element of each range, and the number of all.
    """
    import cupy

    work, cut = cupy.empty((most, 4), dtype=cupy.int32), cupy.empty((2 * most, 4), dtype=cupy.int32)
    numbers = cupy.empty(3, dtype=cupy.int32)
    build("share", 1, begins, len(begins) - 1, most, work, cut, numbers, threads=THREADS)
    elements, count, parts = numbers.get().tolist()
    return elements, work[:count], cut[:parts]
