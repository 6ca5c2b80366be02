"""Store with the project what the compiler made of every kernel."""

from spmm_roofline.kernels.compile import record
from spmm_roofline.rule import carry_out

carry_out(snakemake, record, rows=snakemake.input, table=snakemake.params.table)
