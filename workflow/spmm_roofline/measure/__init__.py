"""Measure: verified times. One job = the stale kernels of a suite (or of one shard of it), on one leased GPU.

:func:`spmm_roofline.measure.run.run` plans the cases and owns what is written; a worker process launches, so that a
kernel that breaks the CUDA context or hangs costs its own row and nothing else.
"""

#: Raised when a time changes its meaning; rows of another protocol are not compared.
PROTOCOL = 1
