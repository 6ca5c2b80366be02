"""Count what one kernel does on some matrices of one suite."""

from spmm_roofline.measure.run import job_of
from spmm_roofline.profile.ncu import profile
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    profile,
    job_of(snakemake.params.job, dict(snakemake.input.items()), snakemake.config["measure"]),
    metrics=snakemake.input.metrics,
    path=snakemake.params.ncu,
    table=snakemake.output.csv,
    report=snakemake.output.report,
    log=snakemake.log[0],
)
