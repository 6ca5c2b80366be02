"""The site builds without a warning, and every link, anchor and picture of it is there."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="needs the extra docs: make test installs it")
from bs4 import BeautifulSoup

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("site")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run([*command, "docs", str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, f"`make docs` fails:\n{built.stdout}{built.stderr}"
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Path of a page → its parsed HTML."""
    return {path: BeautifulSoup(path.read_text(), "html.parser") for path in site.rglob("*.html")}


def test_no_link_leads_nowhere(site, pages):
    anchors = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}
    count = 0
    for path, page in pages.items():
        if path.name in ("search.html", "genindex.html"):
            continue
        for tag, attribute in [("a", "href"), ("link", "href"), ("img", "src"), ("script", "src")]:
            for found in page.find_all(tag, attrs={attribute: True}):
                link = urlsplit(found[attribute])
                if link.scheme or link.netloc:
                    continue
                target = (path.parent / unquote(link.path)).resolve() if link.path else path
                where = f"{path.relative_to(site)} has the link {found[attribute]}"
                assert target.is_file() or target.is_dir(), f"{where}, which leads nowhere"
                if link.fragment and target in anchors:
                    assert unquote(link.fragment) in anchors[target], f"{where}, whose anchor does not exist"
                count += 1
    assert count > 100


def test_a_reader_needs_no_network(pages):
    for path, page in pages.items():
        for tag, attribute in [("script", "src"), ("img", "src"), ("link", "href")]:
            for found in page.find_all(tag, attrs={attribute: re.compile("^(https?:)?//")}):
                assert found.get("rel") == ["canonical"], f"{path.name} loads {found[attribute]}"


def test_every_picture_says_what_it_shows(pages):
    for path, page in pages.items():
        for picture in page.find_all("img"):
            classes = picture.get("class") or []
            assert picture.get("alt", "").strip() or "sidebar-logo" in classes, f"{path.name}: {picture.get('src')}"
