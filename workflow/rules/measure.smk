rule measure:
    input:
        PLAN.measured(),
        PLAN.ceilings(),
        PLAN.blocks(),


rule describe_device:
    input:
        unpack(PLAN.clock_cubins),
    output:
        "results/measure/{device}/device.json",
    log:
        "results/measure/{device}/log/device.log",
    priority: 2  # the ceilings wait for it
    conda:
        "../../envs/gpu.yaml"
    resources:
        **PLAN.gpu_resources,
    params:
        arch=PLAN.device[1] if PLAN.device else "none",
    script:
        "../scripts/describe_device.py"


rule measure_ceilings:
    input:
        unpack(PLAN.ceiling_inputs),
    output:
        "results/measure/{device}/ceilings.csv",
    log:
        "results/measure/{device}/log/ceilings.log",
    priority: 1  # while other jobs pack
    conda:
        "../../envs/gpu.yaml"
    resources:
        **PLAN.gpu_resources,
    params:
        job=PLAN.ceiling_params,
    script:
        "../scripts/measure_ceilings.py"


# It has no priority, so that the ceilings, which must have the GPU to themselves, are measured first.
rule rehearse:
    input:
        "results/measure/{device}/device.json",
    output:
        touch("results/measure/{device}/rehearsed"),
    log:
        "results/measure/{device}/log/rehearse.log",
    conda:
        "../../envs/gpu.yaml"
    resources:
        **PLAN.gpu_resources,
    script:
        "../scripts/rehearse.py"


# Needs PyTorch, which the environment need not have: without it all rows say so.
rule measure_blocks:
    input:
        unpack(PLAN.block_inputs),
    output:
        "results/measure/{device}/blocks.csv",
    log:
        "results/measure/{device}/log/blocks.log",
    conda:
        "../../envs/gpu.yaml"
    resources:
        **PLAN.gpu_resources,
    params:
        job=PLAN.block_params,
    script:
        "../scripts/measure_blocks.py"


# A measurement is outdated by its fingerprint, not by clocks, drivers or mtimes.
for batch in PLAN.measurements:

    rule:
        name:
            batch.rule
        input:
            batch.inputs,
            marked,
            PLAN.rehearsal(),
        output:
            batch.files,
        log:
            batch.log,
        priority: batch.priority
        conda:
            "../../envs/gpu.yaml"
        resources:
            **PLAN.gpu_resources,
            mem_mb=16000,
        params:
            made_of=PLAN.stale.agreed(batch.made_of),
            compiler=PLAN.compiler,
        script:
            "../scripts/measure_kernels.py"


# What is missing from the record is measured first, then what has changed; what is as it would be stays.
rule record:
    input:
        measured=PLAN.to_record(),
        profiled=PLAN.profiled(),
        device_record=PLAN.device_records(),
        ceilings=PLAN.ceilings(),
        blocks=PLAN.blocks(),
        matrices=PLAN.matrix_rows(),
        formats=PLAN.format_rows(),
        kernels=PLAN.kernel_rows(),
    output:
        touch(f"results/measure/{PLAN.device_name}/recorded"),
    log:
        f"results/measure/{PLAN.device_name}/log/record.log",
    conda:
        "../../envs/cpu.yaml"
    params:
        folder=f"resources/recorded/{PLAN.device_name}",
    script:
        "../scripts/record.py"
