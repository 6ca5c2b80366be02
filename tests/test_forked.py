"""Calls in processes of their own: what they send back, and how they fail."""

import os
import signal
import threading

import pytest

from spmm_roofline.contracts import Damaged
from spmm_roofline.forked import Forked, each, end, ready

PARENT = os.getpid()


def test_a_call_has_what_its_parent_has_and_sends_its_result():
    inherited = object()  # cannot be sent
    assert Forked(lambda number: (number, inherited is not None, os.getpid() != PARENT), 7).result() == (7, True, True)


def test_an_error_is_raised_with_the_place_where_it_came_from():
    def fails():
        raise ValueError("no such kernel")

    with pytest.raises(ValueError, match="no such kernel") as caught:
        Forked(fails).result()
    assert str(caught.value) == "no such kernel"
    assert "in fails" in caught.value.__notes__[0]


def test_damaged_files_keep_their_complaints():
    def fails():
        raise Damaged({"a.csv": "empty"})

    with pytest.raises(Damaged) as caught:
        Forked(fails).result()
    assert caught.value.complaints == {"a.csv": "empty"}


def test_a_killed_process_is_an_error():
    call = Forked(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ChildProcessError, match="ended before"):
        call.result()


def test_the_first_that_are_ready():
    quick, slow = Forked(lambda: 1), Forked(signal.pause)
    assert ready([slow, quick]) == [quick]
    os.kill(slow._process.pid, signal.SIGKILL)
    assert ready([slow]) == [slow]
    end([slow])


@pytest.mark.parametrize("processes", [1, 3])
def test_each_keeps_the_order(processes):
    assert each(lambda number: number**2, range(8), processes) == [number**2 for number in range(8)]


@pytest.mark.parametrize("processes", [1, 3])
def test_something_is_done_once_while_they_work(processes):
    done = []
    assert each(abs, [-1, -2, -3, -4], processes, lambda: done.append(os.getpid())) == [1, 2, 3, 4]
    assert done == [PARENT]
    assert each(abs, [], processes, lambda: done.append("nothing to wait for")) == []


def test_calls_end_whose_results_nobody_reads():
    """A result beyond what a pipe holds keeps a process waiting until it is read, or cannot be."""
    more_than_a_pipe_holds = 1 << 22
    calls = [Forked(bytes, more_than_a_pipe_holds) for _ in range(3)]
    ended = threading.Thread(target=end, args=(calls,), daemon=True)
    ended.start()
    ended.join(timeout=30)
    alive = [call._process for call in calls if call._process.is_alive()]
    for process in alive:
        process.kill()
    assert not alive


def test_an_error_of_one_call_ends_the_others():
    def work(number):
        if number == 2:
            raise ValueError("the third fails")
        return bytes(1 << 22)

    with pytest.raises(ValueError, match="the third fails"):
        each(work, range(6), 3)
