rule profile:
    input:
        PLAN.profiled(),


for batch in PLAN.profiles:

    rule:
        name:
            batch.rule
        input:
            batch.inputs,
            marked,
            metrics=PLAN.metrics,
        output:
            batch.files,
        log:
            batch.log,
        conda:
            "../../envs/gpu.yaml"
        resources:
            **PLAN.gpu_resources,
            mem_mb=16000,
        params:
            made_of=PLAN.stale.agreed(batch.made_of),
            compiler=PLAN.compiler,
            ncu=PLAN.config["profile"].get("ncu"),
        script:
            "../scripts/profile_kernels.py"
