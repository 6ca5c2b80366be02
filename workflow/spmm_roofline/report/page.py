"""The page itself: sections in reading order, rendered by the templates of the folder ``report``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import forked
from ..figures.inlining import with_classes
from ..figures.numbers import PRECISIONS, listed
from ..figures.papers import PAPERS
from . import answer, limits
from .devices import compared
from .drawings import sha256
from .embedded import library, packed, with_later
from .own import own
from .sections import blocks, suites, together
from .sentences import ceilings_say, claims_say
from .studies import studies
from .tables import every, limited, made, study

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment

    from ..figures import Drawn


def templates(folder: Path) -> Environment:
    """The templates of pages in a folder: what they are given is escaped, and a name that they are not given fails."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(
    data: dict[str, pd.DataFrame],
    drawn: Iterable[Drawn],
    config: Mapping[str, Any],
    heads: Mapping[str, Mapping[str, Any]],
    template_folder: Path,
    provenance: Mapping[str, Any],
    chosen: Collection[str] | None = None,
    rows: str | None = None,
    processes: int = 1,
) -> str:
    """HTML of the whole page; see :func:`spmm_roofline.report.build` for the arguments; ``chosen``: its ``suites``.

    ``rows``: what :func:`packed_rows` makes of ``data``, where that is known. ``processes`` divide the sections among
    them; the page does not depend on their number.
    """
    environment = templates(template_folder)
    titles = provenance.get("suites", {})
    environment.globals.update(sha256=sha256, packed=packed)
    environment.globals["again"] = lambda figure: again(figure, titles)
    drawn = list(drawn)
    cases = data["cases"]
    launched = cases[~cases["kernel"].str.startswith("cusparse_best_")]
    shown = set(launched["kernel"]) | set(data["kernels"]["kernel"])
    devices = sorted(cases["device"].unique())
    answers = answer.answers(data)
    named = {answer["device"]: answer["title"] for answer in answers}
    # Those that take longest come first.
    parts: dict[str, Callable[[], Any]] = {
        "limits": lambda: list(limits.limits(data, drawn)),
        "suites": lambda: list(suites(data, drawn, titles, chosen)),
        "studies": lambda: studies(drawn, data),
        "together": lambda: list(together(data, drawn)),
        "ladder": lambda: made.ladder(heads, data["ladder"], shown or set(heads)),
        "compared": lambda: compared(data, drawn, named),
        "own": lambda: own(data, drawn, named, named, heads),
        "formats": lambda: made.formats(data["formats"]),
        "matrices": lambda: made.matrices(data["matrices"]),
        "resources": lambda: made.resources(data["kernels"]),
        "claims": lambda: study.scorecard(data["claims"], {name: paper.title for name, paper in PAPERS.items()}),
        "untimed": lambda: every.untimed(data["status"]),
        "blocks": lambda: list(blocks(data, drawn)),
    }
    found = forked.each(lambda name: parts[name](), parts, processes)
    page = environment.get_template("page.html.j2").render(
        dict(zip(parts, found, strict=True)),
        title=config.get("report", {}).get("title") or "Which SpMM kernel is fastest, and what limits it?",
        answers=answers,
        answer_figures=[figure for figure in drawn if figure.kind.section == "answer"],
        claims_say=claims_say(data["claims"]),
        devices=len(devices),
        deviations={name: head["deviations"] for name, head in heads.items() if head["deviations"] and name in shown},
        matrix_figures=[figure for figure in drawn if figure.kind.section == "matrices"],
        ceilings=limited.ceilings(data["ceilings"], devices),
        ceilings_say=ceilings_say(data["ceilings"], devices),
        roofs={"ceilings": limits.roofs(data["ceilings"], devices), "names": PRECISIONS},
        provenance=provenance,
        precisions=PRECISIONS,
        explorer=rows or packed_rows(data),
        library=library(),
        rows=len(cases),
        style=(template_folder / "style.css").read_text(),
        scripts=[
            (template_folder / name).read_text()
            for name in ("later.js", "tables.js", "downloads.js", "rows.js", "roofline.js")
        ],
    )
    sheet, page = with_classes(page)
    return with_later(page.replace("</style>", f"{sheet}\n</style>", 1))


def packed_rows(data: dict[str, pd.DataFrame]) -> str:
    """All rows for the page's script, which takes longer than the rest of the page."""
    return packed(every.all_rows(every.with_limits(data["cases"], data["roofline"])))


def again(figure: Drawn, suites: Iterable[str]) -> dict[str, str]:
    """How to make a figure again: its ``sources`` (tables), and commands to ``draw`` and to ``measure`` it.

    ``measure`` is empty unless the figure shows one of ``suites``, the suites of the project.
    """
    suite = figure.of.get("suite", "")
    draw = "snakemake --cores 4 report" + (" --config matrix=…" if figure.kind.section == "own" else "")
    return {
        "sources": listed([f"results/analysis/{name}.csv" for name in figure.tables]),
        "draw": draw,
        "measure": f"{draw} --config suite={suite}" if suite in suites else "",
    }
