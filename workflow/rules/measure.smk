rule measure:
    input:
        PLAN.measured(),
        PLAN.ceilings(),


rule describe_device:
    input:
        unpack(PLAN.clock_cubins),
    output:
        "results/measure/{device}/device.json",
    log:
        "results/measure/{device}/log/device.log",
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=1,
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
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=1,
    params:
        job=PLAN.ceiling_params,
    script:
        "../scripts/measure_ceilings.py"


# A measurement is outdated by its parameters and the bytes of its inputs, not by clocks, drivers or mtimes.
rule measure_kernel:
    input:
        unpack(PLAN.measure_inputs),
        external=ancient(PLAN.external_library),
    output:
        csv="results/measure/{device}/{suite}/{kernel}{shard}.csv",
    log:
        "results/measure/{device}/{suite}/log/{kernel}{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=1,
        mem_mb=16000,
    params:
        job=PLAN.measure_params,
        journal="results/measure/{device}/{suite}/.{kernel}{shard}.journal",
    script:
        "../scripts/measure_kernel.py"


rule record:
    input:
        measured=PLAN.measured(),
        profiled=PLAN.profiled(),
        device_record=PLAN.device_records(),
        ceilings=PLAN.ceilings(),
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
