"""Turn measured and recorded rows into the tables of evidence."""

from pathlib import Path

from spmm_roofline.analysis import run

run(
    measured=snakemake.input.measured,
    profiled=snakemake.input.profiled,
    recorded=snakemake.params.recorded,
    matrices=snakemake.input.matrices,
    formats=snakemake.input.formats,
    kernels=snakemake.input.kernels,
    fingerprints=snakemake.params.fingerprints,
    devices=snakemake.params.devices,
    device_records=snakemake.input.device_records,
    heads=snakemake.params.heads,
    out=Path(snakemake.output[0]).parent,
    claims=snakemake.input.claims,
    papers=snakemake.input.papers,
    bootstrap=snakemake.params.bootstrap,
)
