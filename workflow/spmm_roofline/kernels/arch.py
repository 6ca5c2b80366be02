"""Architectures: the compiler's target for a device, and which code runs where."""

from __future__ import annotations

import re


def target(capability: tuple[int, int]) -> str:
    """Target of NVRTC for a device of compute ``capability`` (major, minor).

    Hopper's wgmma and setmaxnreg exist only in the architecture-specific target. No kernel here uses such instructions
    of a later architecture.
    """
    major, minor = capability
    return f"sm_{major}{minor}" + ("a" if major == 9 else "")


def major(arch: str) -> int:
    """Major version of a target; a cubin runs on later minor versions of its own."""
    return int(re.sub(r"\D", "", arch)) // 10


def supports(arch: str | None, needed: str | None) -> bool:
    """Whether code for ``needed`` runs on ``arch``; architecture-specific code (sm_90a) runs only there."""
    if needed is None or arch is None:
        return needed is None
    if needed.endswith("a"):
        return arch == needed
    return int(re.sub(r"\D", "", arch)) >= int(re.sub(r"\D", "", needed))
