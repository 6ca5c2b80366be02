"""Pack one matrix in one format and prove the round trip."""

from spmm_roofline.formats.pack import pack

pack(
    format_name=snakemake.wildcards.format,
    matrix_npz=snakemake.input.npz,
    matrix_json=snakemake.params.features,
    npz=snakemake.output.npz,
    row_json=snakemake.output.json,
    keep_arrays=snakemake.config["formats"].get("keep", True),
)
