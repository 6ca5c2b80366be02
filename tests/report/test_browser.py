"""The page in a real browser: nothing sticks out on a screen or a phone, and the tables sort, filter and download."""

import json
import re
import shutil
import subprocess

import pytest

from tests.analysis import synthetic
from tests.report.test_report import build

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; install it to test the page in a browser"),
]

#: Runs in the page and reports to the page around it.
PROBE = """
<script>
addEventListener("load", async () => {
  const found = {};
  const root = document.documentElement;
  found.overflow = root.scrollWidth - root.clientWidth;
  found.sticking = [...document.querySelectorAll("main *, header *")].filter((element) =>
    !element.closest(".scroll, pre, svg, noscript") && element.getBoundingClientRect().right > root.clientWidth + 1
  ).map((element) => element.outerHTML.slice(0, 120));
  found.smallest = Math.min(...[...document.querySelectorAll("p, td, th, dd, figcaption")].map((element) =>
    parseFloat(getComputedStyle(element).fontSize)));

  const explorer = document.getElementById("explorer");
  const column = (at) => [...explorer.tBodies[0].rows].map((row) => row.cells[at].textContent);
  const names = [...explorer.tHead.rows[0].cells].map((cell) => cell.textContent);
  found.names = names;
  found.rows = column(0).length;
  const search = document.getElementById("search");
  search.value = "MMA_BT  cfd1";
  search.dispatchEvent(new Event("input"));
  const matrices = column(names.indexOf("matrix"));
  found.filtered = column(names.indexOf("kernel")).map((kernel, at) => [kernel, matrices[at]]);
  found.count = document.getElementById("count").textContent;

  const heading = explorer.tHead.rows[0].cells[names.indexOf("time_ms")];
  heading.firstChild.click();
  found.ascending = column(names.indexOf("time_ms"));
  found.sort = heading.getAttribute("aria-sort");
  heading.firstChild.click();
  found.descending = column(names.indexOf("time_ms"));

  search.value = "";
  const status = document.querySelector("select[data-column=status]");
  status.value = "wrong";
  status.dispatchEvent(new Event("change"));
  found.wrong = column(names.indexOf("kernel"));
  let blob;
  URL.createObjectURL = (given) => { blob = given; return "#"; };
  document.getElementById("download").click();
  found.csv = await blob.text();

  const headings = [...document.querySelectorAll("table.sortable th")];
  const mean = headings.find((cell) => cell.textContent === "geometric mean");
  const [table, at] = [mean.closest("table"), mean.cellIndex];
  mean.firstChild.click();
  found.means = [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[at].textContent));
  parent.postMessage(found, "*");
});
</script>
"""

AROUND = """<!DOCTYPE html><title>waiting</title><pre id="found"></pre><script>
addEventListener("message", ({{data}}) => {{ document.getElementById("found").textContent = JSON.stringify(data); }});
</script><iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    recorded = synthetic.write_recorded(folder / "recorded" / "h200")
    text = build(folder, recorded=[recorded], fingerprints=synthetic.FINGERPRINTS | {"mma_t": "changed"})
    (folder / "page.html").write_text(text.replace("</body>", PROBE + "</body>"))
    return folder


def probe(folder, width):
    """What the probe found in a page that is ``width`` CSS pixels wide."""
    around = folder / f"around-{width}.html"
    around.write_text(AROUND.format(width=width))
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *quiet]
    command += [f"--user-data-dir={folder / f'profile-{width}'}", "--window-size=1400,1000"]
    command += ["--virtual-time-budget=10000", "--dump-dom", around.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL).group(1)
    assert found, "the script of the page failed: the probe reported nothing"
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        found = found.replace(entity, sign)
    return json.loads(found)


@pytest.fixture(scope="module", params=[1280, 390])
def found(request, folder):
    return probe(folder, request.param)


def test_nothing_sticks_out(found):
    assert found["overflow"] <= 0, f"the page is {found['overflow']} px too wide"
    assert found["sticking"] == []


def test_text_is_large_enough_to_read(found):
    assert found["smallest"] >= 12


def test_search_finds_rows_with_all_words(found):
    assert found["rows"] == len(synthetic.measure_rows()) + 3 * 6 * 3  # and cusparse_best in three precisions
    assert found["filtered"] == [[kernel, "cfd1"] for kernel in ("mma_bt", "mma_bt_f32") for _ in range(3)]
    assert found["count"] == f"6 of {found['rows']} rows"


def test_a_heading_sorts_up_and_down_by_number(found):
    times = [float(value.replace(",", "")) for value in found["ascending"]]
    assert times == sorted(times) and len(times) == 6
    assert found["sort"] == "ascending"
    assert found["descending"] == found["ascending"][::-1]


def test_filters_and_download_agree(found):
    assert found["wrong"] == ["mma_t"]
    lines = found["csv"].splitlines()
    assert len(lines) == 2
    assert lines[0].split(",")[: len(found["names"])] == found["names"]
    assert '"relative error' not in lines[1] and "relative error 0.31" in lines[1]


def test_static_tables_sort_by_value(found):
    assert found["means"] == sorted(found["means"])
    assert len(set(found["means"])) > 3
