"""Judge what SpMM chooses on matrices to which nothing was fitted, and write resources/choices/regret.csv.

    python benchmarks/judge.py

A row is a set of matrices, a device and a dtype: how much longer the chosen kernel takes than the best one known, and
how often a kernel is ahead that is no general one. The real matrices that costs are fitted to, timed for the purpose or
recorded, are two halves, each judged by a fit to the other one, which takes four minutes. Of other sets, matrices do
not count that are among the fitted ones by another name. `regret.py` names the cases.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import cache
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd
import regret

from spmm_roofline import contracts, fingerprint
from spmm_roofline.kernels import choose, costs
from spmm_roofline.paths import COSTS

TABLE = regret.CHOICES / "regret.csv"
DTYPES = ("float16", "float32", "tf32", "float64")
#: Set of matrices → its table of times, less the device.
TABLES = {
    "generated": "judged-{}.csv.gz",
    "real": "fitted-{}-files.csv.gz",
    "sampled": "judged-{}-sampled.csv.gz",
    "small": "judged-{}-files.csv.gz",
}
#: Set of recorded matrices → the suite in which all kernels are recorded.
OF_SUITES = {"recorded": "flagship", "cold": "cutespmm"}
#: The sets that costs are fitted to, each half judged by a fit to the other one.
IN_HALVES = ("real", *OF_SUITES)
#: The set of sampled products, whose costs are fitted to others of their kind.
SAMPLED = "sampled"
#: Others are ahead from this on; times vary by less.
AHEAD = 0.03


def made_from() -> str:
    """Fingerprint of the costs, the rule and the times that the table follows from."""
    rule = fingerprint.modules(Path(choose.__file__), Path(costs.__file__), Path(regret.__file__))
    return fingerprint.sha256(COSTS.read_bytes(), *(path.read_bytes() for path in chain(*timed().values())), rule)[:16]


def timed() -> dict[tuple[str, str], list[Path]]:
    """Each set of matrices on each device on which it was timed, with its tables."""
    named = product(TABLES, regret.DEVICES)
    tables = {(name, device): sorted(regret.CHOICES.glob(TABLES[name].format(device))) for name, device in named}
    recorded = {
        (name, device): sorted((regret.RECORDED / device / suite).glob("*.csv"))
        for name, suite in OF_SUITES.items()
        for device in regret.DEVICES
    }
    return {found: paths for found, paths in (tables | recorded).items() if paths}


def row(cases: pd.DataFrame, matrices: str) -> dict[str, object]:
    """A row of the table, of cases on one device in one dtype."""
    spmm = cases["spmm"].dropna()
    return {
        "matrices": matrices,
        "count": cases["matrix"].nunique(),
        "least_m": cases["m"].min(),
        "most_m": cases["m"].max(),
        "device": cases["device"].iloc[0],
        "dtype": cases["dtype"].iloc[0],
        "least_n": cases["n"].min(),
        "most_n": cases["n"].max(),
        "cases": len(cases),
        "mean_regret": np.expm1(np.log1p(cases["regret"]).mean()),
        "worst_regret": cases["regret"].max(),
        "compared": len(spmm),
        "behind": int((spmm < 1 - AHEAD).sum()),
        "least_spmm": spmm.min() if len(spmm) else np.nan,
    }


def run(program: str, *options: object) -> None:
    """Run a program of this folder, which reads the costs once."""
    command = [sys.executable, str(Path(__file__).with_name(program)), *map(str, options)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def halves(folder: Path) -> list[tuple[object, ...]]:
    """Options of regret.py that judge each half of the matrices by costs that are fitted to the other one."""
    found = []
    for fitted, other in (("fitted", "judged"), ("judged", "fitted")):
        path = folder / f"costs-{fitted}.json"
        run("costs.py", "--half", fitted, "--write", path)
        found.append(("--costs", path, "--half", other))
    return found


@cache
def all_fitted() -> pd.DataFrame:
    """The rows that costs are fitted to."""
    return pd.concat(regret.rows_to_fit(regret.known() | regret.sampling()))


def fitted(sampled: bool) -> pd.DataFrame:
    """The rows that costs of sampled products are fitted to, or those of all others."""
    rows = all_fitted()
    return rows[rows["kernel"].isin(list(regret.sampling())) == sampled]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, default=TABLE, help="the table; resources/choices/regret.csv by default")
    write, rows = parser.parse_args().write, []
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.csv"
        in_halves = halves(Path(folder))
        for (matrices, device), tables in timed().items():
            which = ("--suite", OF_SUITES[matrices]) if matrices in OF_SUITES else ("--times", *tables)
            judged = []
            for options in in_halves if matrices in IN_HALVES else [()]:
                run("regret.py", *which, "--device", device, "--write", cases, *options)
                judged.append(pd.read_csv(cases))
            found = pd.concat(judged)
            if matrices not in IN_HALVES:
                found = regret.unseen(found, fitted(matrices == SAMPLED))
            rows += [row(own, matrices) for dtype, own in found.groupby("dtype") if dtype in DTYPES]
    table = pd.DataFrame(rows).assign(made_from=made_from())
    contracts.write_text(write, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
