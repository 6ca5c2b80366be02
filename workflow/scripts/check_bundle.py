"""Check a bundle against its manifest."""

from spmm_roofline.report.bundle import check

check(snakemake.input[0])
