"""Which SpMM kernel is fastest on this GPU for this sparse matrix, what limits it, and how far is it from that limit?

The package follows the road: matrices, formats, kernels, measure, profile, analysis, report. Each stage reads files
with a written contract and writes files with a written contract (``workflow/schemas``, read and written only through
:mod:`spmm_roofline.contracts`).
"""

__version__ = "0.1.0"
