"""What a measure job says of its progress."""

import pytest

from spmm_roofline.measure import progress
from spmm_roofline.measure.progress import Progress, duration

OK = {"matrix": "a", "n": 8, "status": "ok", "time_ms": 0.5, "useful_gflops": 10.0, "rel_error": 1e-4}


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (75, "1 min 15 s"), (3661, "1 h 1 min")]
)
def test_durations_are_words(seconds, words):
    assert duration(seconds) == words


def test_a_thousand_rows_are_a_few_lines_and_the_log_has_them_all(clock, capsys, tmp_path):
    say = Progress(tmp_path / "job.log")
    say.begin(1000, lambda: 0.75)
    for _ in range(1000):
        clock.now += 0.0625
        say.row("mma_bt", OK)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4 and lines[-1] == "measured 1,000 of 1,000 rows in 1 min 2 s, GPU busy 75%"
    assert lines[0] == "measured 321 of 1,000 rows in 20 s, 42 s to go, GPU busy 75%"
    assert len((tmp_path / "job.log").read_text().splitlines()) == 1000


def test_a_row_that_went_wrong_is_said_at_once(clock, capsys, tmp_path):
    say = Progress(tmp_path / "job.log")
    say.begin(2, lambda: None)
    say.row("mma_bt", {"matrix": "a", "n": 8, "status": "timeout", "message": "no answer within 5 s"})
    assert capsys.readouterr().err == "mma_bt a n=8: timeout: no answer within 5 s\n"
    say.row("mma_bt", {"matrix": "a", "n": 16, "status": "unsupported", "message": "n is odd"})
    assert capsys.readouterr().err.splitlines()[-1] == "measured 2 of 2 rows in 0 s, 1 without a time"


def test_without_a_log_everything_goes_to_the_terminal(capsys):
    say = Progress(None)
    say("a sentence")
    assert capsys.readouterr().err == "a sentence\n"
