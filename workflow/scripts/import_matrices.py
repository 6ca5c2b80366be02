"""Bring matrices into canonical form."""

from spmm_roofline import matrices
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    matrices.build_all,
    specs=snakemake.params.specs,
    config=snakemake.config,
    files=snakemake.output,
    made_of=snakemake.params.made_of,
    log=snakemake.log[0],
)
