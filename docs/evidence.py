"""What the pages of the studies show of the recorded rows: `python docs/evidence.py` makes it anew.

It analyses the recorded rows, writes the verdict on every claim (docs/studies/claims.csv), draws the figures that the
pages mark, as docs/figures/<name>.svg, with their sentences (docs/studies/figures.csv), and leaves fingerprints of what
all of it was made from (docs/studies/made_from.json). That takes minutes. `python docs/tables.py` then writes the
tables and captions of the pages, in seconds. A page marks a figure by its name in the report::

    <!-- figure: scale-h200-memory-bound-scale-warm -->
    <!-- end -->
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import opening
import paper_numbers
from pages import DOCS, ROOT

from spmm_roofline import contracts, fingerprint, forked
from spmm_roofline.figures import Drawn, Kind, draw_all, kinds, style
from spmm_roofline.kernels.registry import heads

FIGURES = DOCS / "figures"
#: The figure of the first page.
OPENING = FIGURES / "opening.svg"
CLAIMS, SENTENCES, MADE_FROM = (DOCS / "studies" / name for name in ("claims.csv", "figures.csv", "made_from.json"))
RECORDED = ROOT / "resources" / "recorded"

#: Columns of the table ``analysis_claims`` that the pages show.
SHOWN = (
    *("device", "claim", "set", "study", "source", "says", "paper", "unit", "expected", "verdict", "overall"),
    *("value", "low", "high", "matrices", "stale", "why", "message"),
)
#: Entries of a kernel's head that no analysis reads.
PROSE = ("idea", "source", "deviations")

_FIGURE, _BESIDE = re.compile(r"<!-- figure: ([\w-]+) -->"), re.compile(r"<!-- beside: (\w+) -->")


def wanted() -> list[str]:
    """Names of the figures of the report that the pages mark, each once."""
    return _marked(_FIGURE)


def beside() -> dict[str, Path]:
    """Study whose numbers a page shows beside ours → the file of that figure."""
    return {study: FIGURES / f"paper-numbers-{study}.svg" for study in _marked(_BESIDE)}


def _marked(mark: re.Pattern[str]) -> list[str]:
    pages = sorted(DOCS.rglob("*.md"))
    return list(dict.fromkeys(name for page in pages for name in mark.findall(page.read_text(encoding="utf-8"))))


def kind_of(name: str) -> Kind:
    """The figure whose drawing has this name. Raises ``ValueError`` if there is none."""
    found = [kind for kind in kinds() if f"{name}-".startswith(f"{kind.name}-")]
    if not found:
        raise ValueError(f"a page marks the figure {name!r}, which no module of figures draws")
    return max(found, key=lambda kind: len(kind.name))


def made_from() -> dict[str, Any]:
    """Fingerprints of everything that the claims and figures of the pages follow from."""
    package = ROOT / "workflow" / "spmm_roofline"
    registered = {name: _facts(head.as_dict()) for name, head in heads(str(ROOT / "kernels")).items()}
    modules = {package / "figures" / f"{name}.py" for name in ("style", *(kind_of(name).name for name in wanted()))}
    drawing = {module for path in modules for module in fingerprint.import_closure(path, package / "figures")}
    drawing |= {Path(module.__file__) for module in (paper_numbers, opening)}
    return {
        "recorded rows": {folder.name: _files(folder) for folder in sorted(RECORDED.iterdir()) if folder.is_dir()},
        "config/claims.yaml": fingerprint.sha256(contracts.document(ROOT / "config/claims.yaml", "claims")),
        "config/published": _files(ROOT / "config" / "published"),
        "config/devices": _files(ROOT / "config" / "devices"),
        "heads of the kernels": fingerprint.sha256(registered),
        "the analysis": fingerprint.modules(*sorted((package / "analysis").glob("*.py"))),
        "the code of the figures": fingerprint.modules(*sorted(drawing)),
        "the figures of the pages": sorted([*wanted(), *beside()]),
    }


def out_of_date() -> list[str]:
    """What has changed since the pages were given their claims and figures."""
    then = json.loads(MADE_FROM.read_text(encoding="utf-8")) if MADE_FROM.exists() else {}
    return [name for name, now in made_from().items() if then.get(name) != now]


def _files(folder: Path) -> str:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return fingerprint.sha256(*(part for path in paths for part in (str(path.relative_to(folder)), path.read_bytes())))


def _facts(head: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in head.items() if key not in PROSE}


def analysed() -> dict[str, Any]:
    """Every table of the analysis, from the recorded rows alone."""
    from spmm_roofline import analysis, paths

    registered = heads(str(ROOT / "kernels"))
    nothing = ("measured", "profiled", "matrices", "formats", "device_records")
    with tempfile.TemporaryDirectory() as folder:
        analysis.run(
            **dict.fromkeys(nothing, ()),
            kernels=paths.compiled(),
            recorded=sorted(path.parent for path in RECORDED.glob("*/device.json")),
            fingerprints={name: head.sha256() for name, head in registered.items()},
            heads={name: head.as_dict() for name, head in registered.items()},
            devices=sorted((ROOT / "config" / "devices").glob("*.yaml")),
            claims=ROOT / "config" / "claims.yaml",
            papers=sorted((ROOT / "config" / "published").glob("*.csv")),
            out=folder,
        )
        return analysis.read(folder, forked.processors())


def drawn(tables: Mapping[str, Any], names: list[str]) -> Iterator[Drawn]:
    """The figures of these names and those of the same kinds of other devices."""
    chosen = {kind_of(name).name for name in names}
    yield from draw_all(tables, forked.processors(), only=chosen)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    tables = analysed()
    judged = tables["claims"]
    _write(CLAIMS, judged[list(SHOWN)].to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    names = wanted()
    found = {figure.name: figure for figure in drawn(tables, names)}
    if missing := [name for name in names if name not in found]:
        sys.exit(f"no figure is called {missing[0]!r}; of its kind there are {', '.join(_like(missing[0], found))}")
    pictures = {FIGURES / f"{name}.svg": found[name].svg for name in names} | _paper_numbers(judged)
    pictures[OPENING] = _opening(tables)
    FIGURES.mkdir(exist_ok=True)
    for path in set(FIGURES.glob("*.svg")) - set(pictures):
        path.unlink()
    for path, svg in pictures.items():
        _write(path, svg)
    _write(SENTENCES, _sentences(found, names))
    _write(MADE_FROM, json.dumps(made_from(), indent=1) + "\n")


def _opening(tables: Mapping[str, Any]) -> str:
    import matplotlib

    with matplotlib.rc_context(style.RC):
        return style.svg(opening.draw(tables))


def _paper_numbers(judged: Any) -> dict[Path, str]:
    import matplotlib

    documents = contracts.document(ROOT / "config/claims.yaml", "claims")["claims"]
    expectations = {claim["id"]: claim["expect"] for claim in documents}
    with matplotlib.rc_context(style.RC):
        return {path: style.svg(paper_numbers.draw(judged, study, expectations)) for study, path in beside().items()}


def _sentences(found: Mapping[str, Drawn], names: list[str]) -> str:
    """The sentence of each figure, and of the same figure of another device."""
    import pandas as pd

    rows = []
    for name in names:
        for other in found.values():
            alike = {**other.of, "device": ""} == {**found[name].of, "device": ""}
            if other.kind.name == found[name].kind.name and alike:
                rows.append({"figure": name, "device": other.of["device"], "says": other.says})
    return pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")


def _like(name: str, found: Mapping[str, Drawn]) -> list[str]:
    return [other for other in found if kind_of(name).name == found[other].kind.name] or ["none"]


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        contracts.write_text(path, text)
        print(f"{path.relative_to(ROOT)}: made anew")


if __name__ == "__main__":
    main()
