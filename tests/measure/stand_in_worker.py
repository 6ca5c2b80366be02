"""A worker that measures nothing: ``python stand_in_worker.py <acts> <calls>`` instead of the one with a device.

``acts`` is a JSON file that maps "matrix n" or "kernel matrix n" to what happens at that case; anything else goes
well. "library" is the version that rows name. ``calls`` is a text file that gets a line for each case that was asked;
``<kernel>.asked`` beside it holds the process that asked last, and the case.
"""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path


def tell(**event):
    print(json.dumps(event), flush=True)


ctypes.CDLL(None).prctl(1, 9)  # ends with its parent, as the real one does
acts_file, calls_file = map(Path, sys.argv[1:])
request = sys.stdin.read()
if not request:
    sys.exit()
job = json.loads(request)
acts = json.loads(acts_file.read_text()) if acts_file.exists() else {}
with calls_file.open("a") as calls:
    print("started", file=calls)
if acts.get("start") == "die" or (acts.get("start") == "die once" and calls_file.read_text().count("started") == 1):
    sys.exit("no device for you")
for matrix in job["matrices"]:
    for index, n in matrix["cases"]:
        kernel = job["kernels"][index]["kernel"]
        case = {"kernel": index, "matrix": matrix["matrix"], "n": n}
        name = f"{matrix['matrix']} {n}"
        act = acts.get(f"{kernel} {name}", acts.get(name, "ok"))
        tell(begin=case)
        with calls_file.open("a") as calls:
            print(name, file=calls)
        calls_file.with_name(f"{kernel}.asked").write_text(f"{os.getppid()} {name}")
        if act == "die":
            print("Traceback\nCUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", file=sys.stderr, flush=True)
            os._exit(1)
        elif act == "cancelled":
            os.kill(os.getpid(), signal.SIGTERM)
        elif act == "hang":
            time.sleep(60)
        elif act == "damaged":
            tell(damaged={f"{matrix['matrix']}.npz": "it was damaged"})
            sys.exit()
        while act == "wait":  # until it is told something else
            time.sleep(0.1)
            act = json.loads(acts_file.read_text()).get(f"{kernel} {name}", "ok")
        if act == "sticky":
            # as after an error that ends the context
            tell(row={**case, "status": "launch_failed", "message": "misaligned address"})
            os._exit(1)
        elif act == "ok":
            measured = {
                "status": "ok", "time_ms": 0.5, "time_p10_ms": 0.4, "time_p90_ms": 0.6, "samples": 40,
                "replay_ms": 0.003,
                "useful_gflops": 1.0, "padded_gflops": 2.0, "rel_error": 1e-4, "max_row_error": 1e-3, "noisy": False,
                "format_bytes": 8, "preprocess_ms": 0.1, "sm_clock_mhz": 1980, "message": "",
            }  # fmt: skip
            if "library" in acts:
                measured["cuda"] = acts["library"]
            tell(row=case | measured)
        else:
            tell(row={**case, "status": act, "message": f"it was {act}"})
    tell(off=acts.get("noisy") == matrix["matrix"])
tell(spent={"start": 1.2, "time": 0.305})
