"""Assemble the report out of the tables of the analysis."""

from pathlib import Path

from spmm_roofline.report import build
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    build,
    analysis=Path(snakemake.input.analysis[0]).parent,
    config=snakemake.config,
    heads=snakemake.params.heads,
    template_folder=Path(snakemake.input.template[0]).parent,
    html=snakemake.output.html,
    figures=snakemake.output.figures,
    provenance=snakemake.params.provenance,
    processes=snakemake.threads,
    suites=snakemake.params.suites,
)
