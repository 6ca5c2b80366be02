"""The page itself: sections in reading order, rendered by the templates of the folder ``report``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, counted, listed, percent
from . import answer, tables

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn


def render(
    data: dict[str, pd.DataFrame],
    drawn: Iterable[Drawn],
    config: Mapping[str, Any],
    heads: Mapping[str, Mapping[str, Any]],
    template_folder: Path,
    provenance: Mapping[str, Any],
) -> str:
    """HTML of the whole page; see :func:`spmm_roofline.report.build` for the arguments."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template_folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = list(drawn)
    cases = data["cases"]
    launched = cases[~cases["kernel"].str.startswith("cusparse_best_")]
    shown = set(launched["kernel"]) | set(data["kernels"]["kernel"])
    answers = answer.answers(data)
    return environment.get_template("page.html.j2").render(
        title=config.get("report", {}).get("title") or "Which SpMM kernel is fastest, and what limits it?",
        answers=answers,
        answer_figures=[figure for figure in drawn if figure.kind.section == "answer"],
        claims=tables.claims(data["claims"]),
        claims_say=claims_say(data["claims"]),
        published=tables.published(data["published"]),
        devices=cases["device"].nunique(),
        suites=list(suites(data, drawn, provenance.get("suites", {}))),
        ladder=tables.ladder(heads, data["ladder"], shown or set(heads)),
        resources=tables.resources(data["kernels"]),
        deviations={name: head["deviations"] for name, head in heads.items() if head["deviations"] and name in shown},
        matrices=tables.matrices(data["matrices"]),
        matrix_figures=[figure for figure in drawn if figure.kind.section == "matrices"],
        formats=tables.formats(data["formats"]),
        ceilings=tables.ceilings(data["ceilings"], sorted(cases["device"].unique())),
        ceilings_say=ceilings_say(data["ceilings"], sorted(cases["device"].unique())),
        provenance=provenance,
        precisions=PRECISIONS,
        rows_json=_script_json(tables.all_rows(cases)),
        rows=len(cases),
        style=(template_folder / "style.css").read_text(),
        script=(template_folder / "table.js").read_text(),
    )


def suites(data: dict[str, pd.DataFrame], drawn: list[Drawn], titles: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    """A section for each device and suite: what was run, figures by precision, tables."""
    cases = data["cases"]
    launched = cases[~cases["kernel"].str.startswith("cusparse_best_")]
    for (device, suite), rows in launched.groupby(["device", "suite"], sort=True):
        figures = [
            figure
            for figure in drawn
            if figure.kind.section == "suite" and figure.of["device"] == device and figure.of["suite"] == suite
        ]
        contested = set(rows.loc[rows["study"] != "cusparse", "precision"])
        groups = [
            {"precision": PRECISIONS[precision], "contested": precision in contested, "figures": own}
            for precision in PRECISIONS
            if (own := [figure for figure in figures if figure.of.get("precision") == precision])
        ]
        yield {
            "id": f"{device}-{suite}",
            "device": device,
            "suite": suite,
            "title": titles.get(suite, ""),
            "about": about(rows),
            "stale": _rows(rows["stale"]),
            "noisy": _rows(rows["noisy"].fillna(False)),
            "groups": groups,
            "figures": [figure for figure in figures if "precision" not in figure.of],
            "fastest": tables.fastest(_of(data["fastest"], device, suite)),
            "speedup": tables.speedup(_of(data["speedup"], device, suite)),
            "synergy": tables.synergy(_of(data["synergy_classes"], device, suite)),
            "families": tables.families(_of(data["families"], device, suite)),
            "bounds": tables.bounds(_of(data["bounds"], device, suite)),
            "limits": tables.limits(_of(data["roofline"], device, suite)),
            "counters": tables.counters(_of(data["counters"], device, suite)),
            "shared_memory": tables.shared_memory(_of(data["shared_memory"], device, suite)),
            "failures": tables.failures(_of(data["status"], device, suite)),
        }


def claims_say(claims: pd.DataFrame) -> str:
    """How the claims fared, in one sentence a device."""
    said = []
    for device, rows in claims.groupby("device", sort=True):
        counts = rows["verdict"].value_counts()
        hold, untested = int(counts.get("reproduced", 0)), int(counts.get("not_testable", 0))
        more = f"; for {untested} more the rows are missing" if untested else ""
        said.append(f"On {device}, {hold} of {counted(len(rows) - untested, 'claim')} that can be tested hold{more}.")
    return " ".join(said)


def ceilings_say(ceilings: pd.DataFrame, devices: list[str]) -> str:
    """Which ceilings the limits of each device come from, in one sentence a device."""
    said = []
    for device in devices:
        own = ceilings[(ceilings["device"] == device) & (ceilings["unit"] == "GFLOP/s")]
        rows = own[own["measured"].notna()]
        if rows.empty:
            said.append(
                f"No ceilings of computation were measured on {device}: the peaks of its datasheet stand for them."
            )
            continue
        shares = rows["share_fraction"].dropna()
        span = (
            f"; they reach {percent(shares.min())} to {percent(shares.max())} of its datasheet" if len(shares) else ""
        )
        said.append(f"On {device}, {counted(len(rows), 'ceiling')} of computation were measured{span}.")
    return " ".join(said)


def about(rows: pd.DataFrame) -> str:
    """What a suite ran, in one sentence."""
    widths = listed([str(n) for n in sorted(rows["n"].unique())])
    states = listed(sorted(rows["l2"].unique()))
    ok = int((rows["status"] == "ok").sum())
    dates = sorted({stamp[:10] for stamp in rows["measured_at"]})
    date = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    origin = listed(sorted(rows["origin"].unique())).replace("local", "measured here")
    return (
        f"{counted(rows['kernel'].nunique(), 'kernel')} on {counted(rows['matrix'].nunique(), 'matrix', 'matrices')}, "
        f"N = {widths}, {states} L2; {ok:,} of {counted(len(rows), 'row')} verified and timed on {date} ({origin})."
    )


def _rows(which: pd.Series) -> str:
    """How many rows, in words; empty for none."""
    return counted(int(which.sum()), "row") if which.any() else ""


def _of(table: pd.DataFrame, device: str, suite: str) -> pd.DataFrame:
    return table[(table["device"] == device) & (table["suite"] == suite)]


def _script_json(content: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
