"""Compile one kernel for every architecture of the run."""

from spmm_roofline.kernels import heads
from spmm_roofline.kernels.compile import compile_kernel

compile_kernel(
    heads()[snakemake.wildcards.kernel],
    archs=dict(
        zip(snakemake.params.archs, zip(snakemake.output.cubins, snakemake.output.rows, strict=True), strict=True)
    ),
    lineinfo=snakemake.params.lineinfo,
)
