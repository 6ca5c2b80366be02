"""Compile one kernel for every architecture of the run."""

from spmm_roofline.kernels import registry
from spmm_roofline.kernels.compile import compile_kernel
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    compile_kernel,
    registry.head(snakemake.wildcards.kernel),
    archs=dict(
        zip(snakemake.params.archs, zip(snakemake.output.cubins, snakemake.output.rows, strict=True), strict=True)
    ),
    lineinfo=snakemake.params.lineinfo,
)
