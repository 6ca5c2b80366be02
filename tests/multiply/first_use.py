"""Products of a new process, first used by many threads; a test runs it. The argument is ``gpu`` or ``emulated``."""

import json
import shutil
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from tests import emulation
from tests.threads import COUNT, at_once

calls = Counter()


def on_host(head, archs):
    """A stand-in for the compiler, which makes host code."""
    calls[head.sha256()] += 1
    ((cubin, row),) = archs.values()
    time.sleep(0.02)
    shutil.copy(emulation.host_code(head), cubin)
    Path(row).write_text(json.dumps({"message": ""}))


def products():
    """Multiply in every thread: by a plan of its own, and by one of all threads."""
    import cupy

    from spmm_roofline import SpMM
    from tests.multiply.operands import check, dense, sparse

    a = sparse(60, 50, 0.2)
    b, exact = dense(50, 24, "float16")
    shared = []

    def product(number):
        own = SpMM(a, "float16")
        if number == 0:
            shared.append(own)
        while not shared:
            time.sleep(0.001)
        for multiply in (own, shared[0]):
            out = cupy.zeros((60, 24), dtype="float16")
            check(multiply(b, out=out), a, exact, "float16")
        # Columns that no kernel reads as they are must be copied first.
        check(own(b[:, :21]), a, exact[:, :21], "float16")
        return np.asarray(own(b).get()).tobytes()

    assert len(set(at_once(product))) == 1, "all threads have the same bits"


if __name__ == "__main__":
    from spmm_roofline.kernels import cubins, packers

    emulated = sys.argv[1] == "emulated"
    with emulation.emulated() if emulated else nullcontext():
        if emulated:
            from spmm_roofline.multiply import plan

            cubins.compile_kernel, cubins.compiler = on_host, lambda: "a stand-in"
            plan.machine_code = packers.machine_code = lambda head: cubins.compiled(head, "sm_90a")
        products()
    assert set(calls.values()) <= {1}, f"compiled more than once: {calls}"
    print(f"{COUNT} threads, {len(calls)} kernels")
