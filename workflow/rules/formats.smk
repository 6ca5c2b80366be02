rule formats:
    input:
        PLAN.format_rows(),


rule pack_format:
    input:
        npz="results/matrices/{matrix}.npz",
        json="results/matrices/{matrix}.json",
    output:
        npz="results/formats/{format}/{matrix}.npz",
        json="results/formats/{format}/{matrix}.json",
    log:
        "results/formats/log/{format}/{matrix}.log",
    conda:
        "../../envs/cpu.yaml"
    resources:
        mem_mb=8000,
    params:
        keep=PLAN.config["formats"].get("keep", True),
        fingerprint=PLAN.format_fingerprint,
    script:
        "../scripts/pack_format.py"
