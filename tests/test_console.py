"""What a run shows on the terminal."""

import io
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser

from spmm_roofline import console
from spmm_roofline.console import Console
from spmm_roofline.contracts import ContractError


class Terminal(io.StringIO):
    def isatty(self):
        return True


def record(message="", level=logging.INFO, **extra):
    made = logging.LogRecord("snakemake", level, "", 0, message, (), None)
    made.__dict__.update(extra)
    return made


def test_snakemakes_lines_are_hidden_and_what_the_run_says_is_shown():
    shown = Console(io.StringIO())
    assert not shown.filter(record("Building DAG of jobs..."))
    assert not shown.filter(record("rule x", event="job_info", rule_name="x", output=[]))
    assert shown.filter(record("No GPU is used", **console.TOLD))
    assert shown.filter(record("a.npz is damaged", logging.WARNING))
    assert shown.filter(record("LockException: the folder is locked", logging.ERROR, event="error"))


def test_progress_is_one_line_on_a_terminal_and_few_elsewhere():
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        shown = Console(stream)
        for done in range(1, 101):
            shown.filter(record(event="progress", done=done, total=100))
    assert terminal.getvalue().count("\n") == 1 and "100 of 100 jobs done" in terminal.getvalue()
    assert file.getvalue().splitlines() == ["100 of 100 jobs done in 0 s"]


def test_a_job_that_may_run_alone_for_long_is_named():
    stream = io.StringIO()
    shown = Console(stream)
    shown.filter(record(event="run_info", stats={"total": 3}))
    for name, output in (("analysis", ["a.csv"]), ("compile_kernels_0", ["a.cubin"]), ("kernels", [])):
        shown.filter(record(event="job_info", rule_name=name, output=output))
    assert stream.getvalue() == "0 of 3 jobs done in 0 s, running analysis\n"


def test_what_is_to_happen_at_the_start_of_a_run_happens_once_and_its_error_ends_the_run():
    logger = logging.Logger("snakemake")
    started = []

    def act():
        started.append(True)
        raise ContractError("another run is at work")

    console.at_start(logger, act)
    logger.info("Building DAG of jobs...")
    assert not started
    with pytest.raises(ContractError):
        logger.info("Job stats", extra={"event": "run_info"})
    logger.info("Job stats", extra={"event": "run_info"})
    assert started == [True]


class MissingRuleException(Exception):
    """As Snakemake's."""


def said_of(error, **options):
    """What is shown of an error that Snakemake reports, and whether Snakemake's own words are."""
    stream = io.StringIO()
    shown = Console(stream, **options)
    shown.targets = ["matrices", "report"]
    try:
        raise error
    except Exception:
        own = shown.filter(record(f'Error in file "x", line 1:\n{error}\n  File "x"', logging.ERROR, event="error"))
    return stream.getvalue(), own


@pytest.mark.parametrize("everything", [False, True])
def test_an_error_that_was_foreseen_is_its_sentence(everything):
    assert said_of(ContractError("a.yaml: n is 0"), everything=everything) == ("a.yaml: n is 0\n", False)
    assert said_of(ZeroDivisionError("a bug"), everything=everything) == ("", True)


def test_a_misspelt_target_is_told_what_it_may_have_been():
    error = MissingRuleException("No rule to produce reprot (if you use input functions make sure that ...).")
    sentence = "no rule makes 'reprot'; did you mean 'report'? The targets are matrices, report\n"
    assert said_of(error) == (sentence, False)


def test_a_result_without_a_rule_is_up_to_date(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, sentence in (
        (
            "results/a.csv",
            "results/a.csv exists, and nothing of this run makes it: if it is a result, it is up to date\n",
        ),
        ("config/a.yaml", "no rule makes 'config/a.yaml'; the targets are matrices, report\n"),
    ):
        Path(name).parent.mkdir()
        Path(name).touch()
        error = MissingRuleException(f"No rule to produce {name} (if you use input functions make sure that ...).")
        assert said_of(error) == (sentence, False)


@pytest.mark.parametrize(
    ("words", "everything"),
    [
        (["-F"], True),
        (["-nF", "report"], True),
        (["-Fn"], True),
        (["-kpFj4"], True),
        (["--forceall"], True),
        (["--forcea"], True),
        (["-f", "--force", "--report", "a.zip"], False),
        (["--reporter=provenance"], True),
        (["-n", "report"], False),
        (["-f", "--forcerun", "F"], False),
        (["-dF", "-j4F"], False),
    ],
)
def test_a_command_that_makes_everything_is_told_from_others(words, everything):
    assert console.makes_everything(words) == everything


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (["-c", "4", "profile"], {"4", "profile"}),
        (["measure", "--omit-from", "profile", "record"], {"measure"}),
        (["-nO", "profile", "--forceall", "measure"], {"measure"}),
        (["-U", "profile", "-n", "report"], {"report"}),
        (["--forcerun", "profile", "--", "report"], {"report"}),
    ],
)
def test_rules_that_options_name_are_no_targets(words, targets):
    assert {*console.targets_among(words)} == targets


def test_the_letters_without_a_value_are_those_of_snakemake():
    actions = get_argument_parser()._actions
    letters = {option[1] for action in actions for option in action.option_strings if len(option) == 2}
    flags = {
        option[1] for action in actions if action.nargs == 0 for option in action.option_strings if len(option) == 2
    }
    assert {*console.FLAGS} == flags < letters


def test_a_sentence_does_not_hang_on_to_the_line_of_progress():
    terminal = Terminal()
    shown = Console(terminal)
    shown.filter(record(event="run_info", stats={"total": 3}))
    shown.filter(record(event="job_info", rule_name="analysis", output=["a.csv"]))
    shown.filter(record(event="job_error", rule_name="analysis", log=[]))
    shown.report_failures(["all.log"])
    assert terminal.getvalue().endswith(
        f"running analysis{console.CLEAR}analysis failed\n{console.CLEAR}What was "
        "finished is kept: mend this, and run the same command. Full log: all.log\n"
    )


def test_a_failure_is_said_once_and_at_the_end(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("some progress\nbad.mtx: row 9 lies outside of 3\n\n")
    stream = io.StringIO()
    shown = Console(stream)
    for _ in range(2):  # Snakemake repeats it
        assert not shown.filter(
            record(event="job_error", level=logging.ERROR, rule_name="import_matrix_0", log=[str(log)])
        )
    assert not shown.filter(record("CalledProcessError in file x", logging.ERROR))
    assert not shown.filter(record("At least one job did not complete successfully.", logging.ERROR))
    shown.report_failures(["all.log"])
    assert stream.getvalue().splitlines() == [
        f"import_matrix_0 failed (log: {log}): bad.mtx: row 9 lies outside of 3",
        "What was finished is kept: mend this, and run the same command. Full log: all.log",
    ]


def test_many_failures_end_in_a_few_lines():
    stream = io.StringIO()
    shown = Console(stream)
    for i in range(50):
        shown.filter(record(event="job_error", rule_name=f"r{i}", log=[]))
    shown.report_failures(["all.log"])
    assert len(stream.getvalue().splitlines()) == console.MOST_FAILED + 2
    assert "46 more jobs failed" in stream.getvalue()


def test_a_cancelled_run_says_how_to_go_on(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    stream = io.StringIO()
    shown = Console(stream)
    assert not shown.filter(record("Terminating processes on user request, this might take some time."))
    assert not shown.filter(record("RuleException: CalledProcessError in file x", logging.ERROR))
    shown.filter(record(event="job_error", rule_name="r", log=[]))
    shown.report_failures(["all.log"])
    assert stream.getvalue() == console.CANCELLED + "\n"


def test_a_second_interrupt_shows_no_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    Console(io.StringIO()).filter(record("Terminating processes on user request, this might take some time."))
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("a bug"), None)
    assert "a bug" in capsys.readouterr().err


def rows_of(folder, statuses, message):
    """Rows of table ``kernels`` in files, kernel → status, all of the code ``as it was``."""
    paths = []
    for name, status in statuses.items():
        paths.append(str(folder / f"{name}.json"))
        row = {"kernel": name, "status": status, "message": message, "kernel_sha256": "as it was"}
        (folder / f"{name}.json").write_text(json.dumps(row))
    return paths


def heads_of(codes, *sources):
    return {
        name: SimpleNamespace(sha256=lambda code=code: code, closure=lambda: sources) for name, code in codes.items()
    }


def asking_for(*files):
    """Snakemake's workflow with one job, which reads the files."""
    return SimpleNamespace(dag=SimpleNamespace(jobs=[SimpleNamespace(input=files, output=())]))


def test_a_kernel_that_does_not_compile_ends_the_run_with_its_line(tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text("one\ntwo\n    int x = ;\n")
    message = (
        "mine for sm_90a: NVRTC says\nmine.cu(3): error: expected an expression\n    int x = ;\n            ^\n1 error"
    )
    rows = rows_of(tmp_path, {"mine": "compile_failed", "good": "ok", "old": "unsupported"}, message)
    heads = heads_of(dict.fromkeys(("mine", "good", "old"), "as it was"), source)
    with pytest.raises(console.RefusedKernels) as caught:
        console.report_refused(asking_for(*rows, "none.json"), [*rows, "none.json"], heads)
    assert f"{source}:3: int x = ;" in str(caught.value) and "expected an expression" in str(caught.value)
    assert "good" not in str(caught.value) and "old" not in str(caught.value)
    console.report_refused(asking_for(*rows[1:]), rows, heads)  # a run of matrices asks for no kernel


def test_a_run_without_jobs_ends_as_one_with_jobs_does():
    shown = Console(io.StringIO())
    nothing = record("Nothing to be done (all requested files are present and up to date).")
    assert shown.filter(nothing)

    def refuse():
        raise console.RefusedKernels("mine did not compile")

    shown.at_end = refuse
    with pytest.raises(console.RefusedKernels):
        shown.filter(nothing)


def test_a_kernel_that_did_not_compile_is_named_until_its_code_changes(tmp_path):
    statuses = {"mine": "compile_failed", "edited": "compile_failed", "good": "ok"}
    rows = rows_of(tmp_path, statuses, "mine.cu(3):\nerror")
    (tmp_path / "damaged.json").write_text("null")
    rows.append(str(tmp_path / "damaged.json"))
    heads = heads_of({"mine": "as it was", "edited": "new"})
    assert console.refused_before([*rows, str(tmp_path / "none.json")], heads) == [
        "mine did not compile in an earlier run, and its code is the same: mine.cu(3): error"
    ]


def test_a_message_without_a_line_is_shown_as_it_is():
    assert console.of_compiler("no compiler is installed", []) == "no compiler is installed"
