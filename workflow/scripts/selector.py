"""Train what `spmm-roofline advise` predicts with."""

from spmm_roofline.analysis.selector import train_on_tables
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    train_on_tables,
    out=snakemake.output[0],
    **dict(snakemake.input.items()),
    **dict(snakemake.params.items()),
)
