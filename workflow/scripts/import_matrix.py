"""Bring one matrix into canonical form."""

from spmm_roofline import matrices

matrices.build(
    spec=snakemake.params.spec,
    config=snakemake.config,
    npz=snakemake.output.npz,
    json=snakemake.output.json,
    log=snakemake.log[0],
)
