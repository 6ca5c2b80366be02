"""Pack one matrix in one format, prove the round trip and count what it stores."""

from spmm_roofline.formats.pack import describe
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    describe,
    format_name=snakemake.wildcards.format,
    matrix_npz=snakemake.input.npz,
    matrix_json=snakemake.params.features,
    row_json=snakemake.output[0],
)
