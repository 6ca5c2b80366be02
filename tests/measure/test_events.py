"""A worker process towards its parent: its events stay apart from prints, and it does not outlive the parent."""

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ENVIRONMENT = {"PYTHONPATH": str(Path("workflow").resolve()), "PATH": "/usr/bin:/bin"}


def started(script, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, env=ENVIRONMENT, text=True, **options
    )


def test_what_is_printed_is_no_event():
    child = started(
        """
        import os
        from spmm_roofline.measure.worker import keep_events_apart, tell
        keep_events_apart()
        os.write(1, b"printf of a kernel")
        print("print of a library", file=__import__("sys").stderr)
        tell(begin={"matrix": "a", "n": 8})
        """,
        stderr=subprocess.PIPE,
    )
    events, printed = child.communicate(timeout=60)
    assert json.loads(events) == {"begin": {"matrix": "a", "n": 8}}
    assert "printf of a kernel" in printed and "print of a library" in printed


def test_a_worker_ends_with_its_parent_however_that_ends():
    parent = started(
        """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", '''if True:
            import os, time
            from spmm_roofline.measure.worker import end_with_parent
            end_with_parent()
            print(os.getpid(), flush=True)
            time.sleep(60)
        '''])
        child.wait()
        """
    )
    with parent:
        worker = Path("/proc") / parent.stdout.readline().strip()
        assert worker.name.isdigit() and running(worker)
        parent.kill()
    deadline = time.monotonic() + 5
    while running(worker):
        assert time.monotonic() < deadline, "the worker goes on without its parent"
        time.sleep(0.02)


def running(process):
    """Whether a process of /proc is there, and no zombie that nobody has waited for."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
