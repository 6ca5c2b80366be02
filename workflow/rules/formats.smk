rule formats:
    input:
        PLAN.format_rows(),


for batch in PLAN.packings:

    rule:
        name:
            batch.rule
        input:
            marked,
            npz=batch.inputs[0],
        output:
            batch.files,
        log:
            batch.log,
        priority: 1
        conda:
            "../../envs/cpu.yaml"
        resources:
            mem_mb=8000,
        params:
            made_of=PLAN.stale.agreed(batch.made_of),
            # Written with the matrix. Not an input: features that are computed differently must not repack the matrix.
            features=f"results/matrices/{batch.items[0]}.json",
        script:
            "../scripts/pack_formats.py"
