"""Calls in processes of their own. A forked process has everything that its parent has, and sends back one result.

Threads would not help: what takes long here is Python code, of which one thread runs at a time.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from typing import Any


class Forked:
    """The call ``function(*arguments)``, which begins at once."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        fork: Any = multiprocessing.get_context("fork")
        self._answer, sender = fork.Pipe(duplex=False)
        self._process = fork.Process(target=_answer, args=(self._answer, sender, function, arguments))
        self._process.start()
        sender.close()

    def result(self) -> Any:
        """What the call returns, or raises."""
        try:
            value, error = self._answer.recv()
        except EOFError:
            value, error = None, ChildProcessError("a process ended before it sent its result")
        self._answer.close()  # its process ends by itself, which takes longer the more memory it has
        if error is not None:
            raise error
        return value


def end(calls: Iterable[Forked]) -> None:
    """Wait for the ends of processes whose results nobody reads any more."""
    calls = list(calls)
    # All are told before one is waited for: a process also holds the pipes of those that began before it.
    for call in calls:
        call._answer.close()
    for call in calls:
        call._process.join()


def ready(calls: Iterable[Forked]) -> list[Forked]:
    """Those of ``calls`` that have a result, as soon as one has."""
    waiting = {call._answer: call for call in calls}
    return [waiting[answer] for answer in wait(list(waiting))]  # type: ignore[index]


def each(
    function: Callable[[Any], Any],
    arguments: Iterable[Any],
    processes: int,
    meanwhile: Callable[[], Any] = lambda: None,
) -> list[Any]:
    """``function`` of each of ``arguments``, ``processes`` of them at a time, the first ones first.

    ``meanwhile`` is called once, in this process, while the first ones work.
    """
    arguments = list(arguments)
    if processes < 2 or processors() < 2:
        meanwhile()
        return [function(argument) for argument in arguments]
    results: list[Any] = [None] * len(arguments)
    waiting, running = list(enumerate(arguments)), dict[Forked, int]()
    begun = False
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                number, argument = waiting.pop(0)
                running[Forked(function, argument)] = number
            if not begun:
                meanwhile()
                begun = True
            for call in ready(running):
                results[running.pop(call)] = call.result()
    finally:
        end(running)
    return results


def processors() -> int:
    """How many processes work at a time; 1 on a system that cannot fork."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _answer(receiver: Connection, sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    receiver.close()  # the pipe breaks only if nobody can read from it any more
    gc.freeze()  # what the parent made need not be looked at for garbage in each process
    value, error = None, None
    try:
        value = function(*arguments)
    except BaseException as raised:  # an interrupt too: the parent decides what it means
        raised.add_note(traceback.format_exc())
        error = raised
    with contextlib.suppress(BrokenPipeError):  # another call failed, and nobody waits for this one
        sender.send((value, error))
