"""The suites of a run: matrices expanded and cut into shards, and patterns of kernels resolved."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from . import matrices
from .kernels import Head
from .run_config import PlanError, check_files, check_patterns, resolved


@dataclass(frozen=True)
class Shard:
    """At most ``measure.shard`` matrices of a suite: one measure job. ``suffix`` is part of its file name."""

    suffix: str
    matrices: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """What of a suite is profiled."""

    matrices: tuple[str, ...]
    """Names; empty for the first matrices of the suite, as many as the config says."""
    n: list[int]
    kernels: list[str]


@dataclass(frozen=True)
class Suite:
    """A suite with its matrices expanded and its kernel patterns resolved."""

    name: str
    title: str
    specs: dict[str, dict[str, Any]]
    n: list[int]
    kernels: list[str]
    formats: list[str]
    """Formats that its kernels read."""
    l2: str
    shards: tuple[Shard, ...]
    suffixes: frozenset[str]
    """Of all its shards, also those that this run leaves out."""
    missing_kernels: tuple[str, ...]
    sample: Sample


def suite_of(
    document: Mapping[str, Any], config: Mapping[str, Any], heads: Mapping[str, Head], lost: Collection[str]
) -> Suite:
    """The suite of a document in a run with this config and these kernels; ``lost``: those that the run leaves out.

    Raises :class:`.PlanError` for what cannot be run.
    """
    specs = {spec["matrix"]: spec for spec in matrices.expand(dict(document), dict(config))}
    check_files(specs.values())
    # An external library that the config names is measured in every suite.
    named = [name for name, head in heads.items() if head.external]
    kernels, missing = resolve([*document["kernels"], *named], heads)
    spelt = [pattern for pattern in missing if not fnmatch.filter(lost, pattern.rpartition("/")[2])]
    check_patterns(document["name"], spelt, kernels, _multiplying(heads))
    every = shards(list(specs), config["measure"].get("shard", 16))
    cut = _chosen(document["name"], every, config)
    return Suite(
        name=document["name"],
        title=document["title"],
        specs={name: specs[name] for shard in cut for name in shard.matrices},
        n=sorted(document["n"]),
        kernels=kernels,
        formats=sorted({heads[kernel].format for kernel in kernels}),
        l2=document["protocol"]["l2"],
        shards=cut,
        suffixes=frozenset(shard.suffix for shard in every),
        missing_kernels=tuple(missing),
        sample=_sample(document, kernels, heads),
    )


def _sample(document: Mapping[str, Any], kernels: list[str], heads: Mapping[str, Head]) -> Sample:
    """What ``profile`` of a suite chooses among its matrices, widths and ``kernels``."""
    wanted = document.get("profile", {})
    widths = sorted(wanted.get("n", document["n"]))
    strange = sorted(set(widths) - set(document["n"]))
    if strange:
        raise PlanError(f"suite {document['name']} profiles N = {strange[0]}, which it does not measure")
    matched, missing = resolve(wanted.get("kernels", ["*"]), heads)
    check_patterns(document["name"], missing, kernels, _multiplying(heads))
    return Sample(tuple(wanted.get("matrices", ())), widths, [name for name in kernels if name in matched])


def _chosen(suite: str, cut: tuple[Shard, ...], config: Mapping[str, Any]) -> tuple[Shard, ...]:
    """The shards of a suite to run: those that the config's ``shards`` selects, or all."""
    if "shards" not in config:
        return cut
    first, _, last = str(config["shards"]).partition("-")
    chosen = cut[int(first) : int(last or first) + 1]
    if not chosen:
        raise PlanError(f"shards is {config['shards']}, but suite {suite} has shards 0 to {len(cut) - 1}")
    return chosen


def resolve(patterns: list[str], heads: Mapping[str, Head]) -> tuple[list[str], list[str]]:
    """Kernels that ``patterns`` choose, in ladder order, and patterns without a match; see :func:`.resolved`."""
    found, missing = resolved(patterns, _multiplying(heads))
    return [name for name in heads if name in found], missing


def _multiplying(heads: Mapping[str, Head]) -> dict[str, str]:
    """Kernel → study, of the kernels that multiply a sparse matrix."""
    return {name: head.study for name, head in heads.items() if head.format != "none"}


def takes(head: Head, spec: dict[str, Any]) -> bool:
    """Whether a kernel takes a matrix: no option of its format contradicts a parameter of the matrix's generator.

    A kernel for one stencil takes only grids of that stencil; its format cannot hold other matrices.
    """
    made = spec.get("parameters", {})
    return all(made[name] == value for name, value in head.format_options.items() if name in made)


def shards(names: list[str], most: int) -> tuple[Shard, ...]:
    """``names`` cut into shards of at most ``most``; a single shard has no suffix, several get ``.000``, ``.001``, …"""
    count = max(1, math.ceil(len(names) / most))
    if count == 1:
        return (Shard("", tuple(names)),)
    return tuple(Shard(f".{i:03d}", tuple(names[i * most : (i + 1) * most])) for i in range(count))
