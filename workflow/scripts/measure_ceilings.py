"""Measure the ceilings of this machine's device."""

from spmm_roofline.measure.ceilings import measure
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    measure,
    job=snakemake.params.job,
    cubins=snakemake.input.cubins,
    kernel_rows=snakemake.input.kernel_rows,
    read_cubin=snakemake.input.read_cubin,
    copy_cubin=snakemake.input.copy_cubin,
    device_record=snakemake.input.device_record,
    options=snakemake.config["measure"],
    out=snakemake.output[0],
    log=snakemake.log[0],
)
