rule report:
    input:
        analysis=rules.analysis.output,
        profiled=PLAN.profiled(),
        template=sorted(str(path) for path in Path("report").glob("*")),
    output:
        html="results/report/report.html",
        figures=directory("results/report/figures"),
    params:
        heads=PLAN.head_dicts(),
        provenance=PLAN.provenance(),
    log:
        "results/report/log/report.log",
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/report.py"
