rule analysis:
    input:
        # What is recorded changes with its contents, a parameter.
        ancient(PLAN.recorded()),
        PLAN.modules_of("analysis", "selector"),
        measured=PLAN.measured(),
        profiled=PLAN.profiled(),
        matrices=PLAN.matrix_rows(),
        formats=PLAN.format_rows(),
        kernels=PLAN.kernel_rows() + paths.compiled(),
        device_records=PLAN.device_records(),
        measured_ceilings=PLAN.ceilings(),
        measured_blocks=PLAN.blocks(),
        claims=PLAN.claims,
        papers=PLAN.papers(),
        model=PLAN.model(),
    output:
        expand("results/analysis/{table}.csv", table=PLAN.analysis_tables("claims")),
        claims=report(
            "results/analysis/claims.csv",
            caption="../../report/captions/claims.rst",
            category="Claims",
            labels={"what": "claims of the studies"},
        ),
    log:
        "results/analysis/log/analysis.log",
    conda:
        "../../envs/cpu.yaml"
    # One, although the job divides its tables among processes: BLAS gets as many threads in each of them, and more of
    # them would wait for each other.
    threads: 1
    params:
        # As they are when the run starts: the time of a file tells neither of an edit while the job runs nor of one that
        # was undone.
        fingerprint.of_contents(
            PLAN.modules_of("analysis", "selector"),
            [PLAN.claims],
            PLAN.papers(),
            PLAN.datasheets(),
            PLAN.model(),
        ),
        recorded=PLAN.recorded_contents,
        fingerprints=PLAN.fingerprints,
        heads=PLAN.head_dicts(),
        devices=PLAN.datasheets(),
        left_out=[str(path) for path in PLAN.refused],
        own=PLAN.own_matrices(),
        bootstrap=PLAN.config["analysis"].get("bootstrap", 2000),
    script:
        "../scripts/analysis.py"


# Trains the model of `spmm-roofline advise` on every row of this run; resources/selector.json holds the one of the
# recorded rows.
rule selector:
    input:
        folder.failures(),
        PLAN.modules_of("analysis", "selector"),
        cases="results/analysis/cases.csv",
        matrices="results/analysis/matrices.csv",
        ceilings="results/analysis/ceilings.csv",
        devices="results/analysis/devices.csv",
    output:
        "results/analysis/selector.json",
    log:
        "results/analysis/log/selector.log",
    conda:
        "../../envs/cpu.yaml"
    params:
        fingerprint.of_contents(
            PLAN.modules_of("analysis", "selector"), PLAN.datasheets()
        ),
        heads=PLAN.head_dicts(),
        datasheets=PLAN.datasheets(),
    script:
        "../scripts/selector.py"
