rule kernels:
    input:
        PLAN.kernel_rows(),


# Sources are `ancient`: the fingerprint decides, so a touched file or an edited comment recompiles nothing.
rule compile_kernel:
    input:
        sources=ancient(PLAN.kernel_files),
    output:
        cubins=expand("results/kernels/{arch}/{{kernel}}.cubin", arch=PLAN.archs),
        rows=expand("results/kernels/{arch}/{{kernel}}.json", arch=PLAN.archs),
    log:
        "results/kernels/log/{kernel}.log",
    conda:
        "../../envs/compile.yaml"
    params:
        archs=PLAN.archs,
        lineinfo=PLAN.config["kernels"].get("lineinfo", False),
        fingerprint=PLAN.kernel_fingerprint,
    script:
        "../scripts/compile_kernel.py"
