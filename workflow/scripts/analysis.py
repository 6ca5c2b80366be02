"""Turn measured and recorded rows into the tables of evidence."""

from pathlib import Path

from spmm_roofline.analysis import run
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    run,
    out=Path(snakemake.output[0]).parent,
    **dict(snakemake.input.items()),
    **dict(snakemake.params.items()),
)
