"""Which SpMM kernel is fastest on this GPU for this sparse matrix, what limits it, and how far is it from that limit?

The package follows the road: matrices, formats, kernels, measure, profile, analysis, report. Each stage reads files
with a written contract and writes files with a written contract (``workflow/schemas``, read and written only through
:mod:`spmm_roofline.contracts`).
"""

import os
from pathlib import Path

__version__ = "0.1.0"


def share_package() -> None:
    """Let scripts and the processes that they start find this package where it is not installed."""
    root = str(Path(__file__).resolve().parents[1])
    given = os.environ.get("PYTHONPATH", "")
    if root not in given.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, given]))
