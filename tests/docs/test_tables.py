"""Generated tables are in step with what they are made of, and pages name only what exists."""

import re
from pathlib import Path

import pytest

from docs import tables
from spmm_roofline.kernels.registry import heads

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "benchmarks|config|docs|envs|examples|kernels|profiles|report|resources|tests|workflow"


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", tables.PAGES, ids=name)
def test_generated_tables_are_in_step(page):
    text = page.read_text()
    assert tables.generated(text) == text, f"tables of {name(page)} are out of date: run `python docs/tables.py`"


def test_every_kind_of_table_and_every_study_has_its_place():
    text = "\n".join(page.read_text() for page in tables.PAGES)
    assert {match[1] for match in tables.MARKED.finditer(text)} == set(tables.GENERATED)
    studies = {head.study for head in heads(str(ROOT / "kernels")).values()}
    listed = set(re.findall(r"<!-- kernels: (\w+) -->", text))
    assert listed == studies, f"docs/reference/kernels.md lists {listed}, the kernels belong to {studies}"


def test_the_readme_can_be_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", tables.PAGES, ids=name)
def test_a_page_links_to_files_that_exist(page):
    for path in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", page.read_text()):
        assert (page.parent / path).exists(), f"{name(page)} links to {path}, which does not exist"


@pytest.mark.parametrize("page", tables.PAGES, ids=name)
def test_a_page_names_files_that_exist(page):
    prose = re.sub(r"^(?: {4}|```).*$", "", page.read_text(), flags=re.MULTILINE)
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", prose):
        assert (ROOT / path).exists(), f"{name(page)} names {path}, which does not exist"
