# The workflow itself is workflow/Snakefile; here is only what Snakemake looks for first.
include: "workflow/Snakefile"


rule all:
    default_target: True
    input:
        "results/report/report.html",
