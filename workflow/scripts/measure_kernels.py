"""Measure kernels on one suite, or on one shard of it."""

from spmm_roofline.measure.run import run
from spmm_roofline.plan import Plan
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    run,
    Plan(snakemake.config, compiler=snakemake.params.compiler).tasks(snakemake.output, snakemake.params.made_of),
    log=snakemake.log[0],
)
