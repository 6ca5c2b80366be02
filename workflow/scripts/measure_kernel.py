"""Measure one kernel on one suite, or on one shard of it."""

from spmm_roofline.measure.run import job_of, run
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    run,
    job_of(snakemake.params.job, snakemake.input, snakemake.config["measure"]),
    csv=snakemake.output.csv,
    journal=snakemake.params.journal,
    log=snakemake.log[0],
)
