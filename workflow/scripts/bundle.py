"""Pack everything that stands behind the report into one archive."""

from spmm_roofline.report.bundle import bundle

bundle(
    [*snakemake.input, *snakemake.params.folders],
    provenance=snakemake.params.provenance,
    out=snakemake.output[0],
)
