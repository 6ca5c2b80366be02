"""Measure what the device reaches when nothing else runs."""

from spmm_roofline.measure.device import describe
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    describe,
    device=snakemake.wildcards.device,
    arch=snakemake.params.arch,
    read_cubin=snakemake.input.read_cubin,
    copy_cubin=snakemake.input.copy_cubin,
    out=snakemake.output[0],
)
