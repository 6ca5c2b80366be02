"""Train what `spmm-roofline advise` predicts with."""

from spmm_roofline.analysis.selector import write_model

write_model(out=snakemake.output[0], **dict(snakemake.input.items()), **dict(snakemake.params.items()))
