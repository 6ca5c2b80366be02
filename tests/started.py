"""Snakemake without the two seconds that each start of it imports modules.

One process has imported them and forks for each start: what runs is ``python -m snakemake`` in a process of its own,
with the folder, the environment and the search path that the command would have.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from functools import cache
from multiprocessing import connection

#: What each start would import; nothing of the project, whose copies are edited.
IMPORTED = (
    *("snakemake.cli", "snakemake.report", "snakemake.profiles", "smart_open", "requests", "yte", "dpath"),
    *("pandas", "jsonschema", "ml_dtypes", "simpleeval", "graphlib"),
)


@cache
def forks():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*IMPORTED])
    return context


@cache
def search_path():
    """Where a new Python finds modules, after its own folder."""
    command = [sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def run(arguments, folder, environment, path, output):
    """Be ``python -m snakemake`` with these arguments."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    sys.path[:] = [str(folder), *path]
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv[1:] = arguments
    # Its headline names the folder in which its modules were imported.
    sys.modules["snakemake.workflow"].Workflow._rundir = str(folder)
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)


class Started:
    """A running Snakemake: what the tests use of ``subprocess.Popen``."""

    def __init__(self, arguments, folder, environment):
        self.output, theirs = forks().Pipe(duplex=False)
        own = (arguments, folder, environment, search_path(), theirs)
        self.process = forks().Process(target=run, args=own)
        self.process.start()
        # A test that fails leaves its run behind; the tests do not wait for its end.
        multiprocessing.process._children.discard(self.process)
        theirs.close()
        self.pid = self.process.pid

    @property
    def returncode(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        return self.returncode

    def communicate(self, timeout=None):
        """All that it and its jobs say until the last of them ends."""
        deadline = None if timeout is None else time.monotonic() + timeout
        said = []
        while connection.wait([self.output], None if deadline is None else max(0, deadline - time.monotonic())):
            if not (part := os.read(self.output.fileno(), 1 << 16)):
                break
            said.append(part)
        else:
            raise subprocess.TimeoutExpired("snakemake", timeout)
        self.wait()
        return b"".join(said).decode(), None
