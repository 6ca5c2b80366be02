"""Turn measured and recorded rows into the tables of evidence."""

from pathlib import Path

from spmm_roofline.analysis import run

run(out=Path(snakemake.output[0]).parent, **dict(snakemake.input.items()), **dict(snakemake.params.items()))
