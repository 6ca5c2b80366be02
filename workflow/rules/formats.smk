rule formats:
    input:
        PLAN.format_rows(),


rule pack_format:
    input:
        npz="results/matrices/{matrix}.npz",
    output:
        "results/formats/{format}/{matrix}.json",
    log:
        "results/formats/log/{format}/{matrix}.log",
    conda:
        "../../envs/cpu.yaml"
    resources:
        mem_mb=8000,
    params:
        # Written with the matrix. No input: features that are counted otherwise pack nothing anew.
        features="results/matrices/{matrix}.json",
        fingerprint=PLAN.format_fingerprint,
    script:
        "../scripts/pack_format.py"
