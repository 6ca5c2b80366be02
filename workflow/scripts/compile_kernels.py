"""Compile kernels, each for some architectures."""

from spmm_roofline.kernels.compile import compile_all
from spmm_roofline.rule import carry_out

carry_out(
    snakemake,
    compile_all,
    rows=[path for path in snakemake.output if path.endswith(".json")],
    made_of=snakemake.params.made_of,
    sources=snakemake.params.sources,
    lineinfo=snakemake.params.lineinfo,
    log=snakemake.log[0],
)
