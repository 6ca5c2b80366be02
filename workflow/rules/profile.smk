rule profile:
    input:
        PLAN.profiled(),


rule profile_kernel:
    input:
        unpack(PLAN.profile_inputs),
        metrics="config/metrics.yaml",
    output:
        csv="results/profile/{device}/{suite}/{kernel}{shard}.csv",
        report="results/profile/{device}/{suite}/{kernel}{shard}.ncu-rep",
    log:
        "results/profile/{device}/{suite}/log/{kernel}{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    resources:
        **PLAN.gpu_resources,
        mem_mb=16000,
    params:
        job=PLAN.profile_params,
        ncu=PLAN.config["profile"].get("ncu"),
    script:
        "../scripts/profile_kernel.py"
