"""Bring one matrix into canonical form."""

from spmm_roofline import matrices
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    matrices.build,
    spec=snakemake.params.spec,
    config=snakemake.config,
    npz=snakemake.output.npz,
    json=snakemake.output.json,
    log=snakemake.log[0],
)
