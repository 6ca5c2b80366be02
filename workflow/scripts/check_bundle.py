"""Check a bundle against its manifest."""

from spmm_roofline.report.bundle import check
from spmm_roofline.rule import carry_out

carry_out(snakemake, check, snakemake.input[0])
