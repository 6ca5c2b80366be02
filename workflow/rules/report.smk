rule report:
    input:
        analysis=rules.analysis.output,
        profiled=PLAN.profiled(),
        code=PLAN.modules_of("figures", "report"),
        template=sorted(str(path) for path in Path("report").glob("*")),
    output:
        html="results/report/report.html",
        figures=directory("results/report/figures"),
    log:
        "results/report/log/report.log",
    conda:
        "../../envs/cpu.yaml"
    params:
        heads=PLAN.head_dicts(),
        provenance=PLAN.provenance(),
    script:
        "../scripts/report.py"
