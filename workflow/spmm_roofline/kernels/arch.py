"""Architectures: the compiler's target for a device, and which code runs where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

#: Instruction family → targets that do not have it. Their compiler emulates it, fifty times slower than the dense
#: product of the same operands (seen on an H200).
EMULATED = {"mma_sp_f8": ("sm_90", "sm_90a")}


#: Targets of every NVRTC from CUDA 12.0.
EVERYWHERE = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a")


def target(capability: tuple[int, int]) -> str:
    """Target of NVRTC for a device of compute ``capability`` (major, minor).

    Hopper's wgmma and setmaxnreg exist only in the architecture-specific target. No kernel here uses such instructions
    of a later architecture.
    """
    major, minor = capability
    return f"sm_{major}{minor}" + ("a" if major == 9 else "")


def targets() -> tuple[str, ...]:
    """Targets of the installed NVRTC, from sm_75, with the architecture-specific ones; empty if it is not installed."""
    try:
        from cuda.bindings import nvrtc

        error, found = nvrtc.nvrtcGetSupportedArchs()
    except (ImportError, RuntimeError, OSError):
        return ()
    if error:
        return ()
    return tuple(f"sm_{number}{suffix}" for number in found for suffix in (("", "a") if number >= 90 else ("",)))


def unknown(archs: Iterable[str]) -> list[str]:
    """Those of ``archs`` that NVRTC does not compile for; none of them if it is not installed.

    Loading NVRTC takes a quarter of a second, so it is asked only about targets that are not in every version of it.
    """
    asked = [arch for arch in archs if arch not in EVERYWHERE]
    known = targets() if asked else ()
    return [arch for arch in asked if known and arch not in known]


def major(arch: str) -> int:
    """Major version of a target; a cubin runs on later minor versions of its own."""
    return int(re.sub(r"\D", "", arch)) // 10


@cache
def supports(arch: str | None, needed: str | None) -> bool:
    """Whether code for ``needed`` runs on ``arch``; architecture-specific code (sm_90a) runs only there."""
    if needed is None or arch is None:
        return needed is None
    if needed.endswith("a"):
        return arch == needed
    return int(re.sub(r"\D", "", arch)) >= int(re.sub(r"\D", "", needed))


def obstacle(arch: str, needed: str | None, features: Iterable[str]) -> str:
    """Why code for ``needed`` that uses these instruction families is not compiled for ``arch``; empty if it is."""
    if not supports(arch, needed):
        return f"needs {needed}"
    emulated = [feature for feature in features if arch in EMULATED.get(feature, ())]
    return f"uses {emulated[0]}, which the compiler only emulates on {arch}" if emulated else ""
