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
        # Written with the matrix. Not an input: features that are computed differently must not repack the matrix.
        features="results/matrices/{matrix}.json",
        fingerprint=PLAN.format_fingerprint,
    script:
        "../scripts/pack_format.py"
