rule matrices:
    input:
        PLAN.matrix_rows(),


# On a cluster this runs where Snakemake runs, because the nodes may have no network.
rule import_matrix:
    input:
        PLAN.matrix_source,
    output:
        npz="results/matrices/{matrix}.npz",
        json="results/matrices/{matrix}.json",
    log:
        "results/matrices/log/{matrix}.log",
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    resources:
        mem_mb=4000,
    params:
        spec=PLAN.matrix_spec,
        fingerprint=PLAN.matrix_fingerprint,
    script:
        "../scripts/import_matrix.py"
