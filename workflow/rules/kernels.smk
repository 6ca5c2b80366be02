rule kernels:
    input:
        PLAN.all_kernel_rows(),


# Sources are `ancient`: the fingerprint decides, so a touched file or an edited comment recompiles nothing.
for batch in PLAN.compilations:

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
        priority: batch.priority
        conda:
            "../../envs/compile.yaml"
        params:
            made_of=PLAN.stale.agreed(batch.made_of),
            sources={name: PLAN.fingerprints[name] for name in batch.items},
            lineinfo=PLAN.config["kernels"].get("lineinfo", False),
        script:
            "../scripts/compile_kernels.py"


# What the compiler makes of every kernel ships with the project, so that a report compiles edited and new ones alone.
rule record_kernels:
    input:
        PLAN.all_kernel_rows(),
    output:
        touch("results/kernels/recorded"),
    log:
        "results/kernels/log/record.log",
    conda:
        "../../envs/cpu.yaml"
    params:
        table="resources/compiled.csv",
    script:
        "../scripts/record_kernels.py"
