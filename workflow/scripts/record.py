"""Store this device's results with the project."""

from spmm_roofline.measure.record import record
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    record,
    measured=snakemake.input.measured,
    profiled=snakemake.input.profiled,
    device_record=snakemake.input.device_record,
    ceilings=snakemake.input.ceilings,
    blocks=snakemake.input.blocks,
    matrices=snakemake.input.matrices,
    formats=snakemake.input.formats,
    kernels=snakemake.input.kernels,
    folder=snakemake.params.folder,
)
