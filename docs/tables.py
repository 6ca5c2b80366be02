"""The generated tables of the README and of the pages: `python docs/tables.py` writes them anew.

A page marks a table by its kind and, after a colon, an argument. A mark within a line holds a number::

    <!-- columns: measure -->
    <!-- end -->

    It gains <!-- ours: pipelining, real matrices --><!-- end -->.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from spmm_roofline import contracts, matrices
from spmm_roofline.figures.numbers import PRECISIONS
from spmm_roofline.kernels.registry import heads

sys.path.insert(0, str(Path(__file__).parent))  # the other modules of this folder, wherever this one is used from

import chosen
import study_pages
from pages import DOCS, ROOT, markdown

#: Pages that may have generated tables.
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
#: Kind, argument, line break and what was generated, which has no mark in it.
MARKED = re.compile(r"<!-- (\w+)(?:: ([^<>\n]+))? -->(\n?)((?!<!-- ).)*?<!-- end -->", re.DOTALL)


def columns(name: str) -> str:
    """Columns of the table ``name``, as its schema describes them."""
    rows = []
    for column in contracts.table(name).columns:
        meaning = column.description + (f": {', '.join(f'`{value}`' for value in column.enum)}" if column.enum else "")
        filled = ", ".join(f"`{other}` is `{value}`" for other, value in column.when)
        rows.append([f"`{column.name}`", column.unit, meaning, f"where {filled}" if filled else ""])
    return markdown(["column", "unit", "meaning", "filled"], rows)


def tables() -> str:
    """All tables with their keys."""
    found = [contracts.table(path.stem) for path in sorted((ROOT / "workflow/schemas/tables").glob("*.yaml"))]
    return markdown(["table", "one row is", "key"], [[f"`{t.name}`", t.title, ", ".join(t.key)] for t in found])


def kernels(study: str) -> str:
    """The kernels of one study, in the order of the ladder."""
    rows = [
        [f"`{h.name}`", f"`{h.after}`" if h.after else "", h.idea, f"`{h.format}`", h.min_arch]
        for h in heads(str(ROOT / "kernels")).values()
        if h.study == study
    ]
    return markdown(["kernel", "after", "idea", "format of A", "from"], rows)


def devices() -> str:
    """The datasheets of config/devices."""
    found = [contracts.document(path, "device") for path in sorted((ROOT / "config/devices").glob("*.yaml"))]
    return markdown(["device", "what it is"], [[f"`{entry['name']}`", entry["title"]] for entry in found])


def suites(study: str = "") -> str:
    """Every suite, or those of a study, with the number of its matrices that each recorded device has rows of."""
    config = contracts.document(ROOT / "config" / "config.yaml", "config")
    recorded = sorted(path.name for path in (ROOT / "resources" / "recorded").iterdir())
    rows = []
    for path in sorted((ROOT / "config" / "suites").glob("*.yaml")):
        suite = contracts.document(path, "suite")
        if study and suite["name"] not in study_pages.suites_of(study):
            continue
        asked = any("query" in entry for entry in suite["matrices"].get("suitesparse", []))
        whole = "the collection" if asked else len(matrices.expand(suite, config))
        counts = []
        for device in recorded:
            files = (ROOT / "resources" / "recorded" / device / suite["name"]).glob("*.csv")
            known = {row["matrix"] for file in files for row in csv.DictReader(file.open())}
            counts.append(f"{len(known) or 'none'} of {whole}")
        rows.append([f"`{suite['name']}`", suite["title"], *counts])
    return markdown(["suite", "what it is", *(f"matrices recorded on `{device}`" for device in recorded)], rows)


def gpu() -> str:
    """When the tests marked ``gpu`` ran last, a line per folder and GPU."""
    with (DOCS / "contribute" / "gpu-tests.csv").open(newline="") as file:
        lines = [list(line.values()) for line in csv.DictReader(file)]
    if not lines:
        return "No run is recorded."
    shown = [[device, driver, f"`{tests}`", *rest] for device, driver, tests, *rest in lines]
    return markdown(["GPU", "driver", "tests", "last run", "commit", "passed", "failed", "skipped"], shown)


def fastest(device: str) -> str:
    """The general kernels beside cuSPARSE and published kernels, by kind of matrix and width, on one recorded device.

    All take the same matrices in one suite with a cold L2. A speed-up is the geometric mean, over matrices, of the time
    of the fastest other kernel over that of the fastest general one; a case whose fastest row is noisy is left out.
    """
    import numpy as np
    import pandas as pd

    recorded = ROOT / "resources" / "recorded" / device
    rows = pd.concat([pd.read_csv(path) for path in (recorded / "cutespmm").glob("*.csv")], ignore_index=True)
    rows = rows[rows["status"] == "ok"]
    kinds = pd.read_csv(recorded / "matrices.csv").set_index("matrix")["kind"]
    rows["kind"] = rows["matrix"].map(kinds)
    rows["side"] = rows["study"].where(rows["study"].isin(["flagship", "cusparse"]), "published")

    def sides(dtypes: list[str]) -> tuple[pd.DataFrame, pd.Series]:
        of_class = rows[rows["dtype_a"].isin(dtypes)]
        best = of_class.loc[of_class.groupby(["matrix", "n", "side"])["time_ms"].idxmin()]
        best = best[~best["noisy"].eq(True)]
        best = best.set_index(["kind", "matrix", "n", "side"])
        times = best["time_ms"].unstack()
        return times.div(times["flagship"], axis=0), best["kernel"].xs("flagship", level="side")

    half, half_kernel = sides(["float16"])
    single, single_kernel = sides(["float32", "tf32"])

    def line(says: str, n: int, kind: str | None) -> list[object]:
        def of(frame):
            frame = frame[frame.index.get_level_values("n") == n]
            return frame if kind is None else frame[frame.index.get_level_values("kind") == kind]

        def gain(frame: pd.DataFrame, side: str) -> str:
            return f"{np.exp(np.log(of(frame)[side].dropna()).mean()):.2f}"

        def most_often(kernels: pd.Series) -> str:
            names = of(kernels).mode()
            return " and ".join(f"`{name}`" for name in names) if len(names) < 3 else "–"

        return [
            f"{says} ({len(of(half))})",
            n,
            most_often(half_kernel),
            gain(half, "cusparse"),
            most_often(single_kernel),
            gain(single, "cusparse"),
            gain(single, "published"),
        ]

    counts = half.xs(128, level="n").groupby("kind").size().sort_values(ascending=False, kind="stable")
    lines = [line("all", n, None) for n in (32, 128, 512)]
    lines += [line(kind, 128, kind) for kind, count in counts.items() if count >= 3 and kind != "unclassified"]
    header = ["matrices", "N", "FP16", "× cuSPARSE", "FP32, TF32", "× cuSPARSE"]
    return markdown([*header, "× published"], lines)


#: Order of the dtypes in the table of regrets.
REGRETS = ("float16", "float32", "tf32", "float64")
#: Set of matrices of the table of regrets → how the pages call it.
JUDGED = {
    "generated": "{} generated ones",
    "real": "{} real ones, each half by costs that are fitted to the other",
    "recorded": "{} recorded real ones, in halves as well",
    "cold": "the same with a cold L2",
    "small": "{} small real ones, of {} to {} rows",
    "sampled": "sampled products with the patterns of {}",
}


def regret(sets: str) -> str:
    """How much longer the kernel takes that `SpMM` chooses than the best one known, by set of matrices and device."""
    with (ROOT / "resources/choices/regret.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["matrices"] in sets.split(", ")]
    dtypes = [dtype for dtype in REGRETS if any(row["dtype"] == dtype for row in rows)]
    lines = []
    for (name, device), group in groupby(rows, key=itemgetter("matrices", "device")):
        own = {row["dtype"]: row for row in group}
        first = own["float16"]
        means = [f"{100 * float(own[dtype]['mean_regret']):.1f}" if dtype in own else "–" for dtype in dtypes]
        worst = max(1 + float(row["worst_regret"]) for row in own.values())
        about = JUDGED[name].format(first["count"], *(f"{int(first[which]):,}" for which in ("least_m", "most_m")))
        line = [about, device.upper(), f"{first['least_n']} to {first['most_n']}"]
        line += [f"{', '.join(means)} %", f"{worst:.2f}"]
        compared = sum(int(row["compared"]) for row in own.values())
        if compared:
            behind = sum(int(row["behind"]) for row in own.values())
            least = min(float(row["least_spmm"]) for row in own.values())
            line += [f"{behind} of {compared:,}", f"{least:.2f}"]
        lines.append(line)
    header = ["matrices", "device", "N", ", ".join(PRECISIONS[dtype] for dtype in dtypes), "× best at most"]
    if max(map(len, lines)) > len(header):
        header += ["others ahead", "× at least"]
    return markdown(header, lines)


#: Kind of table → what makes it.
GENERATED: dict[str, Callable[..., str]] = {
    "columns": columns,
    "tables": tables,
    "kernels": kernels,
    "suites": suites,
    "devices": devices,
    "fastest": fastest,
    "gpu": gpu,
    "regret": regret,
    "l2": chosen.l2,
    "double": chosen.double,
    **study_pages.GENERATED,
}


def generated(text: str) -> str:
    """A page with every marked table made anew."""

    def make(match: re.Match[str]) -> str:
        kind, argument, line = match.group(1, 2, 3)
        made = GENERATED[kind](*([argument] if argument else []))
        return f"<!-- {kind}{f': {argument}' if argument else ''} -->{line}{made}{line}<!-- end -->"

    return MARKED.sub(make, text)


def main() -> None:
    for page in PAGES:
        before = page.read_text()
        after = generated(before)
        if after != before:
            page.write_text(after)
            print(f"{page.relative_to(ROOT)}: tables made anew")


if __name__ == "__main__":
    main()
