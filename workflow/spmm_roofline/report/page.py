"""The page itself: sections in reading order, rendered by the templates of the folder ``report``."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..figures.inlining import share
from ..figures.numbers import PRECISIONS, counted, listed, percent
from ..figures.sentences import population
from . import answer, limits, tables
from .studies import studies

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
    titles = provenance.get("suites", {})
    environment.globals["again"] = lambda figure: again(figure, titles)
    drawn = list(drawn)
    cases = data["cases"]
    launched = cases[~cases["kernel"].str.startswith("cusparse_best_")]
    shown = set(launched["kernel"]) | set(data["kernels"]["kernel"])
    answers = answer.answers(data)
    page = environment.get_template("page.html.j2").render(
        title=config.get("report", {}).get("title") or "Which SpMM kernel is fastest, and what limits it?",
        answers=answers,
        answer_figures=[figure for figure in drawn if figure.kind.section == "answer"],
        claims=tables.claims(data["claims"]),
        claims_say=claims_say(data["claims"]),
        devices=cases["device"].nunique(),
        studies=studies(drawn, data["published"]),
        together=list(together(data, drawn)),
        limits=list(limits.limits(data, drawn)),
        across=tables.across(data["across"], {answer["device"]: answer["title"] for answer in answers}),
        suites=list(suites(data, drawn, titles)),
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
        untimed=tables.untimed(data["status"]),
        explorer=tables.all_rows(tables.with_limits(cases, data["roofline"])),
        packed=packed,
        library=library(),
        rows=len(cases),
        style=(template_folder / "style.css").read_text(),
        scripts=[(template_folder / name).read_text() for name in ("tables.js", "rows.js")],
    )
    sheet, page = share(page)
    return page.replace("</style>", f"{sheet}\n</style>", 1)


def together(data: dict[str, pd.DataFrame], drawn: list[Drawn]) -> Iterable[dict[str, Any]]:
    """All kernels on the same matrices, a device at a time, with the figures of each state of L2."""
    for device, rows in data["together"].groupby("device", sort=True):
        figures = [figure for figure in drawn if figure.kind.section == "together" and figure.of["device"] == device]
        states = [
            {"l2": l2, "figures": own}
            for l2 in sorted(rows["l2"].unique())
            if (own := [figure for figure in figures if figure.of["l2"] == l2])
        ]
        performance = data["performance"]
        if states:
            yield {
                "device": device,
                "states": states,
                "performance": tables.performance(performance[performance["device"] == device]),
                "break_even": tables.break_even(rows),
            }


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
            "rows": counted(len(rows), "row"),
            "covered": population(data, rows["matrix"]),
            "about": about(rows, data["matrices"]),
            "baseline": baseline_says(rows),
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
        }


def again(figure: Drawn, suites: Iterable[str]) -> dict[str, str]:
    """How to make a figure again: the tables that are its ``sources``, and commands to ``draw`` and to ``measure`` it.

    ``measure`` is empty where the figure is not that of one suite of ``suites``, those of the project.
    """
    suite = figure.of.get("suite", "")
    draw = "snakemake --cores 4 report"
    return {
        "sources": listed([f"results/analysis/{name}.csv" for name in figure.tables]),
        "draw": draw,
        "measure": f"{draw} --config suite={suite}" if suite in suites else "",
    }


def claims_say(claims: pd.DataFrame) -> str:
    """How the claims fared, in one sentence a device."""
    said = []
    for device, rows in claims.groupby("device", sort=True):
        counts = rows["verdict"].value_counts()
        hold, untested = int(counts.get("reproduced", 0)), int(counts.get("not_testable", 0))
        tested = len(rows) - untested
        if not tested:
            said.append(f"On {device}, none of {counted(untested, 'claim')} can be tested.")
            continue
        verb = "is" if 1 in (hold, tested) else "are"
        open_ = int(counts.get("undecided", 0))
        more = f", {open_} {'is' if open_ == 1 else 'are'} undecided" if open_ else ""
        more += f"; {untested} more cannot be tested" if untested else ""
        said.append(f"On {device}, {hold} of {counted(tested, 'claim')} that can be tested {verb} reproduced{more}.")
    return " ".join(said)


def ceilings_say(ceilings: pd.DataFrame, devices: list[str]) -> str:
    """Which ceilings the limits of each device come from, in one sentence a device."""
    said = []
    for device in devices:
        own = ceilings[(ceilings["device"] == device) & (ceilings["unit"] == "GFLOP/s")]
        rows = own[own["measured"].notna()]
        if rows.empty:
            instead = (
                "the peaks of its datasheet stand for them"
                if own["datasheet"].notna().any()
                else "nothing is known to limit computation there"
            )
            said.append(f"No ceilings of computation were measured on {device}: {instead}.")
            continue
        shares = rows["share_fraction"].dropna()
        low, high = percent(shares.min()), percent(shares.max())
        verb = "reaches" if len(shares) == 1 else "reach"
        who = f"{len(shares)} with a peak there" if len(shares) < len(rows) else "it" if len(rows) == 1 else "they"
        span = f"; {who} {verb} {low if low == high else f'{low} to {high}'} of its datasheet" if len(shares) else ""
        were = "was" if len(rows) == 1 else "were"
        said.append(f"On {device}, {counted(len(rows), 'ceiling')} of computation {were} measured{span}.")
    return " ".join(said)


def about(rows: pd.DataFrame, matrices: pd.DataFrame) -> str:
    """What the rows of a suite cover, in one sentence; its title says what it asks for."""
    widths = listed([str(n) for n in sorted(rows["n"].unique())])
    states = listed(sorted(rows["l2"].unique()))
    ok = int((rows["status"] == "ok").sum())
    dates = sorted({stamp[:10] for stamp in rows["measured_at"]})
    date = f"on {dates[0]}" if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}"
    origin = listed(sorted(rows["origin"].unique())).replace("local", "measured here")
    return (
        f"{counted(rows['kernel'].nunique(), 'kernel')} on {population({'matrices': matrices}, rows['matrix'])}, "
        f"N = {widths}, {states} L2; {ok:,} of {counted(len(rows), 'row')} verified and timed, {date} ({origin})."
    )


def baseline_says(rows: pd.DataFrame) -> str:
    """Why rows of a suite have no speed-up over cuSPARSE, a sentence for each precision; empty where all have one."""
    said = []
    for precision, own in rows[rows["status"] == "ok"].groupby("precision", sort=True):
        missing = own.loc[own["baseline_missing"] != "", "baseline_missing"]
        if missing.empty:
            continue
        names = sorted(set(", ".join(missing).split(", ")) - {"all"})
        never = (missing == "all").any()
        why = f"cuSPARSE was run without {listed(names)}{', or not at all' if never else ''}" if names else ""
        why = why or "cuSPARSE was not run"
        who = "no row" if len(missing) == len(own) else f"{len(missing):,} of {counted(len(own), 'row')}"
        verb = "has" if who == "no row" else "have no" if len(missing) > 1 else "has no"
        said.append(f"In {PRECISIONS[precision]} {who} {verb} {'a ' if who == 'no row' else ''}speed-up: {why}.")
    return " ".join(said)


def _rows(which: pd.Series) -> str:
    """How many rows, in words; empty for none."""
    return counted(int(which.sum()), "row") if which.any() else ""


def _of(table: pd.DataFrame, device: str, suite: str) -> pd.DataFrame:
    return table[(table["device"] == device) & (table["suite"] == suite)]


def packed(content: Any) -> str:
    """A text, or what JSON can say, as the base64 of its gzip: what a browser unpacks by itself. Keeps its bytes."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def library() -> dict[str, str]:
    """DataTables as the package itables bundles it for pages without a network: its ``script`` and its ``style``."""
    folder = files("itables") / "html"
    return {"script": (folder / "dt_bundle.js").read_text(), "style": (folder / "dt_bundle.css").read_text()}
