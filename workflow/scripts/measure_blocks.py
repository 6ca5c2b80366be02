"""Measure blocks of transformers on this machine's device."""

from spmm_roofline.measure.blocks import measure
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    measure,
    job=snakemake.params.job,
    weights=snakemake.input.weights,
    read_cubin=snakemake.input.read_cubin,
    copy_cubin=snakemake.input.copy_cubin,
    device_record=snakemake.input.device_record,
    options=snakemake.config["measure"],
    out=snakemake.output[0],
    log=snakemake.log[0],
)
