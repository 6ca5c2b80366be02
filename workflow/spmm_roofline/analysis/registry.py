"""The registry of the analyses: each module of this folder declares its tables where it makes them.

An analysis is a pure function. Its parameters name what it reads: other tables, values such as the bandwidths of the
devices, or what :func:`spmm_roofline.analysis.run` was given.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, forked


@dataclass(frozen=True)
class Step:
    """One declared function: ``inputs`` are its parameters; ``contract`` is empty for a value that is not written.

    ``beside``: it takes so long that it begins as soon as it can, beside the others; ``short``: it takes less time than
    the start of a process.
    """

    name: str
    make: Callable[..., Any]
    inputs: tuple[str, ...]
    contract: str = ""
    beside: bool = False
    short: bool = False


class RegistryError(ValueError):
    """Analyses that cannot be ordered: an unknown input, a cycle, or two functions that make the same thing."""


_declared: dict[str, Step] = {}


def table(name: str = "", contract: str = "", beside: bool = False) -> Callable:
    """Declare that the decorated function makes the table ``name``; by default that of the function's own name.

    ``contract`` is ``analysis_<name>`` unless given. The function stays as it is.
    """

    def declare(function: Callable) -> Callable:
        own = name or function.__name__
        _add(own, function, contract or f"analysis_{own}", beside)
        return function

    return declare


def value(name: str = "", short: bool = False) -> Callable:
    """Declare that the decorated function makes an input of other analyses, which is not written to a file."""

    def declare(function: Callable) -> Callable:
        _add(name or function.__name__, function, "", short=short)
        return function

    return declare


def _add(name: str, function: Callable, contract: str, beside: bool = False, short: bool = False) -> None:
    known = _declared.get(name)
    if known and known.make.__module__ != function.__module__:
        raise RegistryError(f"both {known.make.__module__} and {function.__module__} make {name!r}")
    _declared[name] = Step(name, function, tuple(inspect.signature(function).parameters), contract, beside, short)


def steps() -> Mapping[str, Step]:
    """Every declared function of the folder by the name of its result."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    return _declared


def tables() -> dict[str, str]:
    """Name of every table that the stage writes → its contract."""
    return {step.name: step.contract for step in steps().values() if step.contract}


def read(folder: str | Path, processes: int = 1, meanwhile: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """All tables of a folder that the stage has written, by name; ``processes`` are read at a time.

    ``meanwhile`` is called once, in this process, while they are read.
    Raises :class:`contracts.ContractError` if one is missing or breaks its contract.
    """
    import pandas  # noqa: F401  (once here instead of once in each process)

    contract_of = tables()
    path_of = {name: Path(folder) / f"{name}.csv" for name in contract_of}
    largest_first = sorted(path_of, key=lambda name: -path_of[name].stat().st_size if path_of[name].exists() else 0)

    def read_one(name: str) -> Any:
        return contracts.read(path_of[name], contract_of[name], processes)

    found = forked.each(read_one, largest_first, processes, meanwhile)
    read_of = dict(zip(largest_first, found, strict=True))
    return {name: read_of[name] for name in contract_of}


def ordered(found: Mapping[str, Step], given: Collection[str], wanted: Collection[str] = ()) -> list[Step]:
    """The steps of ``found``, each after those that it reads; ``given`` names the inputs that no step makes.

    ``wanted`` limits them to the steps of these names and those that they need. Steps that run beside the others begin
    as early as possible. Raises :class:`RegistryError` at an unknown input and at a cycle.
    """
    order: dict[str, Step] = {}

    def add(name: str, readers: tuple[str, ...]) -> None:
        if name in order or name in given:
            return
        if name in readers:
            raise RegistryError(f"analyses read each other in a circle: {' → '.join([*readers, name])}")
        if name not in found:
            raise RegistryError(f"the analysis {readers[-1]!r} reads {name!r}, which nothing makes")
        for needed in found[name].inputs:
            add(needed, (*readers, name))
        order[name] = found[name]

    chosen = [found[name] for name in wanted] if wanted else found.values()
    for step in sorted(chosen, key=lambda step: not step.beside):
        add(step.name, ())
    return list(order.values())
