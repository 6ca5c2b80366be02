"""Pack everything that stands behind the report into one archive."""

from spmm_roofline.report.bundle import bundle
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    bundle,
    [*snakemake.input, *snakemake.params.folders],
    provenance=snakemake.params.provenance,
    out=snakemake.output[0],
)
