"""Have CuPy compile its own kernels before anything is measured with them."""

from spmm_roofline.measure.rehearse import rehearse
from spmm_roofline.rule import carry_out

carry_out(snakemake, rehearse, log=snakemake.log[0])
