rule report:
    input:
        folder.failures(),
        analysis=rules.analysis.output,
        profiled=PLAN.profiled(),
        code=PLAN.modules_of("figures", "report", "report/tables"),
        template=PLAN.template(),
    output:
        # `update`: Snakemake keeps the old page and brings it back if the new one fails.
        html=update(
            report(
                "results/report/report.html",
                caption="../../report/captions/page.rst",
                category="Report",
                labels={"what": "the whole report"},
            )
        ),
        figures=update(
            report(
                directory("results/report/figures"),
                patterns=["{figure}.svg"],
                caption="../../report/captions/figure.rst",
                category="Figures",
                labels={"figure": "{figure}"},
            )
        ),
    log:
        "results/report/log/report.log",
    conda:
        "../../envs/cpu.yaml"
    threads: 16
    params:
        fingerprint.of_contents(
            PLAN.modules_of("figures", "report", "report/tables"), PLAN.template()
        ),
        heads=PLAN.head_dicts(),
        provenance=PLAN.provenance(),
        suites=PLAN.shown_suites(),
        title=PLAN.config["report"].get("title"),
    script:
        "../scripts/report.py"


rule bundle:
    input:
        rules.report.output,
        rules.analysis.output,
        PLAN.measured(),
        PLAN.profiled(),
        PLAN.blocks(),
        PLAN.device_records(),
        PLAN.matrix_rows(),
        PLAN.format_rows(),
        PLAN.kernel_rows(),
        PLAN.cubins(),
    output:
        "results/report/bundle.tar.gz",
    log:
        "results/report/log/bundle.log",
    conda:
        "../../envs/cpu.yaml"
    params:
        fingerprint.of_contents(PLAN.config_files()),
        PLAN.recorded_contents,
        folders=[*PLAN.config_files(), *PLAN.recorded()],
        provenance=PLAN.provenance(),
    script:
        "../scripts/bundle.py"


rule check_bundle:
    input:
        PLAN.config.get("bundle", "results/report/bundle.tar.gz"),
    log:
        "results/report/log/check_bundle.log",
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/check_bundle.py"
