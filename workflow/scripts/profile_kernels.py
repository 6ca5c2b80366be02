"""Count what kernels do on some matrices of one suite."""

from spmm_roofline.plan import Plan
from spmm_roofline.profile.ncu import profile
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    profile,
    Plan(snakemake.config, compiler=snakemake.params.compiler).tasks(snakemake.output, snakemake.params.made_of),
    metrics=snakemake.input.metrics,
    path=snakemake.params.ncu,
    log=snakemake.log[0],
)
