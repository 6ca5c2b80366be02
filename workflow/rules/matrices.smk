rule matrices:
    input:
        PLAN.matrix_rows(),


# A matrix that may fail to arrive has a job of its own, and costs only itself. On a cluster these jobs run where
# Snakemake runs, because the nodes may have no network.
for batch in PLAN.imports:

    rule:
        name:
            batch.rule
        input:
            ancient(batch.inputs),
            marked,
        output:
            batch.files,
        log:
            batch.log,
        priority: 1  # importing and then packing a matrix takes longer than compiling
        conda:
            "../../envs/cpu.yaml"
        resources:
            mem_mb=4000,
        params:
            made_of=PLAN.stale.agreed(batch.made_of),
            specs=[PLAN.specs[name] for name in batch.items],
        script:
            "../scripts/import_matrices.py"


workflow.localrules(*[batch.rule for batch in PLAN.imports])
