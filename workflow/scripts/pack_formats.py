"""Pack one matrix in several formats, prove each round trip and count what they store."""

from spmm_roofline.formats.pack import describe_all
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    describe_all,
    matrix_npz=snakemake.input.npz,
    matrix_json=snakemake.params.features,
    rows=snakemake.output,
    made_of=snakemake.params.made_of,
    log=snakemake.log[0],
)
