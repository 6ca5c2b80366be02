"""Tables, figures and numbers of the pages of the studies, from what docs/evidence.py has made.

Each function makes what a page marks, as docs/tables.py describes.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING

import evidence
import paper_numbers
from pages import ROOT, markdown

from spmm_roofline import contracts
from spmm_roofline.figures.numbers import counted, duration, listed, significant
from spmm_roofline.figures.papers import PAPERS
from spmm_roofline.kernels.registry import heads
from spmm_roofline.report.tables.study import SHOWN, VERDICTS

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, str]

#: Study of the claims → folders of kernels that it measures, and its page.
FOLDERS = {
    "sptc": ("smat", "sptc"),
    "cutespmm": ("cutespmm", "tcgnn", "scalar"),
    "attention": ("attention",),
    "memory_bound": ("memory_bound",),
    "gemm24": ("gemm24",),
}
PAGE = {"sptc": "smat", "memory_bound": "memory-bound"}
#: Sources of matrices that a suite downloads.
DOWNLOADS = {
    "suitesparse": "SuiteSparse collection",
    "dlmc": "Deep Learning Matrix Collection",
    "file": "an archive that the suite names",
}
COUNTERPARTS = ROOT / "docs" / "studies" / "counterparts.yaml"
#: Matrices of a line of :func:`rungs` → their suite and, of a suite with several sizes, their numbers of rows.
RUNGS_ON: dict[str, tuple[str, tuple[int, ...]]] = {
    "of applications": ("thesis-standins", ()),
    "2:4 tiles only, 4096 rows": ("thesis-nmult", ()),
    "percentages, 16384 and 8192 rows": ("thesis-synthetic", (16384, 8192)),
    "percentages, 4096 and 2048 rows": ("thesis-synthetic", (4096, 2048)),
}


@cache
def judged() -> list[Row]:
    """The rows of docs/studies/claims.csv."""
    with evidence.CLAIMS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def devices() -> list[str]:
    """The recorded devices, that with the most testable claims first."""
    tested = [row["device"] for row in judged() if row["verdict"] != "not_testable"]
    return sorted(set(tested), key=lambda device: (-tested.count(device), device))


def spoken(device: str) -> str:
    return device.upper()


# --- claims -----------------------------------------------------------------------------------------------------------


def claims(study: str) -> str:
    """Every claim of a study: what it says, the paper's number, and on each set of matrices our value and verdict."""
    rows = []
    for claim, sets in _by_claim(study).items():
        first = sets[0]
        says = f"{first['says']}<br><small>{first['source']}; `{claim}`</small>"
        paper_says = _paper(first)
        for name in dict.fromkeys(row["set"] for row in sets):
            own = {row["device"]: row for row in sets if row["set"] == name}
            rows.append([says, paper_says, name, *(_judged(own[device]) for device in devices())])
            says = paper_says = ""
    return markdown(["claim", "paper", "matrices", *map(spoken, devices())], rows)


def _by_claim(study: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in judged():
        if row["study"] == study:
            found.setdefault(row["claim"], []).append(row)
    return found


def _paper(row: Row) -> str:
    return SHOWN[row["unit"]](float(row["paper"])) if row["paper"] else "–"


def _judged(row: Row) -> str:
    """Value of a claim on one set of matrices, and the verdict there."""
    if not row["value"]:
        return f"<small>not testable: {row['message']}</small>"
    shown = SHOWN[row["unit"]]
    interval = f" <small>({shown(float(row['low']))} to {shown(float(row['high']))})</small>" if row["low"] else ""
    stale = " <small>(stale rows)</small>" if row["stale"] == "True" else ""
    return f"{shown(float(row['value']))}{interval}<br>**{row['verdict'].replace('_', ' ')}**{stale}"


def ours(claim_and_set: str) -> str:
    """Values of a claim within a sentence, ``1.35× on the H200 and 1.33× on the H100``.

    After a comma: on which of its sets.
    """
    claim, _, wanted = map(str.strip, claim_and_set.partition(","))
    rows = [row for row in judged() if row["claim"] == claim and row["value"] and row["set"] == (wanted or row["set"])]
    found = {row["device"]: SHOWN[row["unit"]](float(row["value"])) for row in rows}
    if not rows or len(rows) != len(found):
        raise ValueError(f"{claim_and_set!r} names {len(rows)} values of docs/studies/claims.csv, not one per device")
    if len(found) == len(devices()) > 1 and len(set(found.values())) == 1:
        return f"{found[devices()[0]]} on {'both' if len(found) == 2 else 'all'} devices"
    return listed([f"{found[device]} on the {spoken(device)}" for device in devices() if device in found])


def paper(claim: str) -> str:
    """The number that the paper gives for a claim."""
    return _paper(next(row for row in judged() if row["claim"] == claim))


def differ(study: str) -> str:
    """What is not reproduced, in part or not, and why."""
    lines = []
    for sets in _by_claim(study).values():
        found: dict[str, list[str]] = {}
        for device in devices():
            row = next(row for row in sets if row["device"] == device)
            if row["overall"] in ("not_reproduced", "in_part"):
                found.setdefault(row["why"], []).append(spoken(device))
        for why, where in found.items():
            lines.append(f"- *{sets[0]['says']}* ({listed(where)}). {why}")
    return "\n".join(lines) or "Nothing."


def scorecard(study: str = "") -> str:
    """The number of claims with each verdict: of one study a line per device, of all a line per study."""
    if study:
        lines = [[spoken(device), *(str(count or "–") for count in _verdicts(study, device))] for device in devices()]
        return markdown(["device", *(verdict.replace("_", " ") for verdict in VERDICTS)], lines)
    lines = []
    for name, paper in PAPERS.items():
        by_verdict = zip(*(_verdicts(name, device) for device in devices()), strict=True)
        counts = [" / ".join(map(str, own)) if any(own) else "–" for own in by_verdict]
        lines.append([f"[{paper.title}](../studies/{PAGE.get(name, name)}.md)", *counts])
    order = " / ".join(map(spoken, devices()))
    return markdown([f"claims on {order}", *(verdict.replace("_", " ") for verdict in VERDICTS)], lines)


def _verdicts(study: str, device: str) -> list[int]:
    """The number of claims of a study with each of the verdicts on a device."""
    once = {row["claim"]: row["overall"] for row in judged() if (row["study"], row["device"]) == (study, device)}
    return [sum(verdict == each for verdict in once.values()) for each in VERDICTS]


# --- figures ----------------------------------------------------------------------------------------------------------


def figure(name: str) -> str:
    """A figure, what it shows on each device, and how to read it."""
    with evidence.SENTENCES.open(newline="", encoding="utf-8") as file:
        said = {row["device"]: row["says"] for row in csv.DictReader(file) if row["figure"] == name}
    kind = evidence.kind_of(name)
    drawn = next(device for device in said if f"-{device}" in name)
    order = [drawn, *(device for device in devices() if said.get(device) and device != drawn)]
    return "\n".join(
        [
            f":::{{figure}} ../figures/{name}.svg",
            f":alt: {kind.title}. {said[drawn]}",
            f":name: figure-{name}",
            "",
            f"{kind.title}, on the {spoken(drawn)}",
            ":::",
            "",
            *(f"*What it shows on the {spoken(device)}.* {_escaped(said[device])}\n" for device in order),
            f"*How to read it.* {_escaped(kind.caption)}",
        ]
    )


def beside(study: str) -> str:
    """The paper's numbers and ours as a figure: docs/paper_numbers.py."""
    rows = [row for row in judged() if row["study"] == study and row["value"] and float(row["paper"] or 0) > 0]
    claims_of = {
        device: {row["claim"]: row["overall"] for row in rows if row["device"] == device} for device in devices()
    }
    met = [
        f"{sum(verdict == 'reproduced' for verdict in own.values())} of {len(own)} on the {spoken(device)}"
        for device, own in claims_of.items()
        if own
    ]
    says = f"Of the claims with a number, {listed(met)} are reproduced."
    return "\n".join(
        [
            f":::{{figure}} ../figures/{evidence.beside()[study].name}",
            f":alt: The paper's numbers and ours. {says}",
            f":name: figure-paper-numbers-{study}",
            "",
            "The paper's numbers and ours",
            ":::",
            "",
            f"*What it shows.* {says}",
            "",
            f"*How to read it.* {_escaped(' '.join(paper_numbers.READ.split()))}",
        ]
    )


def _escaped(text: str) -> str:
    """Kernels and matrices have underscores, which Markdown would read as emphasis."""
    return text.replace("_", r"\_").replace("*", r"\*")


# --- kernels and suites -----------------------------------------------------------------------------------------------


def deviations(study: str) -> str:
    """Where kernels differ from their originals, by kernel; what several share is said once."""
    kernels_of: dict[str, list[str]] = {}
    for name, head in heads(str(ROOT / "kernels")).items():
        if head.study in FOLDERS[study]:
            for deviation in head.deviations:
                kernels_of.setdefault(deviation, []).append(f"`{name}`")
    order: dict[str, list[str]] = {}
    for deviation, names in kernels_of.items():
        order.setdefault(listed(names), []).append(deviation)
    return markdown(["kernels", "what differs"], [[names, ";<br>".join(said)] for names, said in order.items()])


def counterparts() -> dict[str, list[dict]]:
    """The document docs/studies/counterparts.yaml: study → tables and figures of its text."""
    return contracts.parse_yaml(COUNTERPARTS.read_text(encoding="utf-8"))


def suites_of(study: str) -> list[str]:
    """Suites that measure something of a study, in the order of its text."""
    named = [suite for entry in counterparts()[study] for suite in entry.get("suites", ())]
    mine = [contracts.document(path, "suite") for path in sorted((ROOT / "config" / "suites").glob("*.yaml"))]
    return list(dict.fromkeys([*named, *(suite["name"] for suite in mine if suite.get("study") == study)]))


# --- recorded rows ----------------------------------------------------------------------------------------------------


@cache
def _recorded(device: str, suite: str) -> pd.DataFrame:
    """The recorded rows of a suite that have a time."""
    import pandas as pd

    folder = ROOT / "resources" / "recorded" / device / suite
    rows = pd.concat([pd.read_csv(path) for path in sorted(folder.glob("*.csv"))], ignore_index=True)
    return rows[rows["status"] == "ok"]


def rungs(device: str) -> str:
    """Time of the thesis' fastest kernel over that of the fastest rung with wgmma, both with sums in FP16.

    A cell is the geometric mean over matrices and, of several matrices, the range; a case whose fastest row is noisy
    is left out.
    """
    import numpy as np

    with_wgmma = [name for name, head in heads(str(ROOT / "kernels")).items() if "wgmma" in head.features]
    widths, lines = (8, 32, 64, 128, 1024), []
    for says, (suite, sizes) in RUNGS_ON.items():
        rows = _recorded(device, suite)
        rows = rows[rows["study"].isin(FOLDERS["sptc"]) & (rows["dtype_accumulator"] == "float16")]
        rows = rows[rows["m"].isin(sizes or rows["m"])].assign(rung=rows["kernel"].isin(with_wgmma))
        best = rows.loc[rows.groupby(["matrix", "n", "rung"])["time_ms"].idxmin()]
        times = best[~best["noisy"].eq(True)].set_index(["n", "matrix", "rung"])["time_ms"].unstack()
        ratios = (times[False] / times[True]).dropna()
        cells = []
        for n in widths:
            own = ratios[ratios.index.get_level_values("n") == n]
            mean = significant(np.exp(np.log(own).mean())) if len(own) else ""
            cells.append(f"{mean} <small>({_range(own)})</small>" if len(own) > 1 else mean)
        lines.append([f"{says} ({ratios.index.get_level_values('matrix').nunique()})", *cells])
    return markdown(["matrices", *(f"N = {n}" for n in widths)], lines)


def over(case: str) -> str:
    """Time of a kernel over that of another on each matrix of a suite, ``0.935 to 1.07``.

    ``case``: device, suite, N and the two kernels.
    """
    device, suite, n, kernel, other = map(str.strip, case.split(","))
    rows = _recorded(device, suite)
    times = rows[rows["n"] == int(n)].set_index(["matrix", "kernel"])["time_ms"].unstack()
    return _range(times[kernel] / times[other])


def time(case: str) -> str:
    """Recorded time of ``case``: device, suite, matrix, N and kernel."""
    device, suite, matrix, n, kernel = map(str.strip, case.split(","))
    rows = _recorded(device, suite)
    (row,) = rows[(rows["matrix"] == matrix) & (rows["n"] == int(n)) & (rows["kernel"] == kernel)].to_dict("records")
    return duration(row["time_ms"])


def _range(values: pd.Series) -> str:
    return " to ".join(dict.fromkeys([significant(values.min()), significant(values.max())]))


# --- the artifact appendix --------------------------------------------------------------------------------------------


def command(entry: dict) -> str:
    """The one command that makes the counterpart of a table or figure; empty without one."""
    if "none" in entry:
        return ""
    target = entry.get("target", "report")
    names = ",".join(entry.get("suites", ()))
    options = [f"suite={names}"] if names else []
    if entry.get("profile"):
        options.append(f'"profile={{suites: [{names}]}}"')
    return " ".join([f"snakemake --cores 4 {target}", *(["--config", *options] if options else [])])


def artifact(study: str) -> str:
    """Every table and figure of a study with its counterpart."""
    titles = {kind.name: kind.title for kind in _kinds()}
    rows = []
    for entry in counterparts()[study]:
        where = [f"*{titles[name]}*" for name in entry.get("figures", ())]
        if "also" in entry:
            where.append(entry["also"])
        found = "; ".join(where) if "none" not in entry else f"no counterpart: {entry['none']}"
        made = f"`{command(entry)}`" if command(entry) else "–"
        rows.append([entry["place"], entry["shows"], made, found])
    return markdown(["place", "what it shows", "command", "in the report"], rows)


def _kinds() -> list:
    from spmm_roofline.figures import kinds

    return kinds()


def cost() -> str:
    """What measuring each study takes: its suites, and on each device the recorded rows and their timed calls."""
    rows = []
    for study, paper in PAPERS.items():
        suites = suites_of(study)
        spent = [_timed(device, suites) for device in devices()]
        rows.append([paper.title, ", ".join(f"`{name}`" for name in suites), _downloads(suites), *spent])
    header = ["study", "suites", "downloads", *(f"rows and timed calls on {spoken(device)}" for device in devices())]
    return markdown(header, rows)


def _downloads(suites: list[str]) -> str:
    """What the matrices of suites come from, other than generators."""
    sources = {source for name in suites for source in _suite(name)["matrices"]}
    return listed([title for source, title in DOWNLOADS.items() if source in sources])


def _suite(name: str) -> dict:
    return contracts.document(ROOT / "config" / "suites" / f"{name}.yaml", "suite")


def _timed(device: str, suites: list[str]) -> str:
    """Rows of suites on a device, and the seconds of their timed calls."""
    count, seconds = 0, 0.0
    for suite in suites:
        for path in sorted((ROOT / "resources" / "recorded" / device / suite).glob("*.csv")):
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    count += 1
                    seconds += float(row["time_ms"] or 0) * int(row["samples"] or 0) / 1000
    spent = f"{significant(seconds, 2)} s" if seconds >= 1 else "less than 1 s"
    return f"{count:,} rows, {spent}" if count else "none"


def measured_on() -> str:
    """The recorded devices: product, driver, CUDA, when, and how many rows."""
    rows = []
    for device in devices():
        folder = ROOT / "resources" / "recorded" / device
        record = contracts.document(folder / "device.json", "measured_device")
        times = list[str]()
        for path in folder.glob("*/*.csv"):
            with path.open(newline="", encoding="utf-8") as file:
                times += (row["measured_at"] for row in csv.DictReader(file))
        measured = f"{min(times)[:10]} to {max(times)[:10]}"
        rows.append([record["product"], record["driver"], record["cuda"], measured, counted(len(times), "row")])
    return markdown(["device", "driver", "CUDA", "measured", "rows recorded"], rows)


GENERATED = {
    "claims": claims,
    "differ": differ,
    "scorecard": scorecard,
    "figure": figure,
    "beside": beside,
    "deviations": deviations,
    "artifact": artifact,
    "measured_on": measured_on,
    "cost": cost,
    "ours": ours,
    "paper": paper,
    "rungs": rungs,
    "over": over,
    "time": time,
}
