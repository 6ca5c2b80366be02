"""Architectures: the compiler's target for a device, and which code runs where."""

from __future__ import annotations

import re


def target(capability: tuple[int, int]) -> str:
    """Target of NVRTC for a device of compute ``capability`` (major, minor).

    Hopper's wgmma and setmaxnreg exist in the architecture-specific target alone. No kernel here uses such instructions
    of a later architecture.
    """
    major, minor = capability
    return f"sm_{major}{minor}" + ("a" if major == 9 else "")


def major(arch: str) -> int:
    """Major version of a target; a cubin runs on later minor versions of its own."""
    return int(re.sub(r"\D", "", arch)) // 10


def supports(arch: str, needed: str | None) -> bool:
    """Whether code for ``needed`` runs on ``arch``; an architecture-specific target (sm_90a) runs on itself alone."""
    if needed is None:
        return True
    if needed.endswith("a"):
        return arch == needed
    return int(re.sub(r"\D", "", arch)) >= int(re.sub(r"\D", "", needed))
