"""The page in a real browser: nothing sticks out on a screen or a phone, and the tables sort, filter and download."""

import csv
import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spmm_roofline.figures import numbers
from spmm_roofline.report.tables import every
from tests.analysis import synthetic
from tests.report.test_report import build

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; install it to test the page in a browser"),
]

#: The name of a matrix that a page must not run.
STRANGE = "<script>alert(1)</script>"

#: Rows of the page: those measured, that matrix, and cusparse_best in three precisions.
ROWS = len(synthetic.measure_rows()) + 1 + 3 * 6 * 3

#: Runs in the page and reports to the page around it.
PROBE = (
    f"""<script>{Path(__file__).with_name("accessibility.js").read_text()}</script>"""
    """
<script>
window.errors = [];
addEventListener("error", (event) => window.errors.push(event.message));
addEventListener("unhandledrejection", (event) => window.errors.push(String(event.reason)));
console.error = (...words) => window.errors.push(words.join(" "));
addEventListener("load", async () => {
  const found = {};
  const root = document.documentElement;
  const until = async (ready) => { while (!ready()) await new Promise((wait) => setTimeout(wait, 5)); };
  await until(() => !document.querySelector(".later, .arrives"));
  found.overflow = root.scrollWidth - root.clientWidth;
  found.sticking = [...document.querySelectorAll("main *, header *")].filter((element) =>
    !element.closest(".scroll, pre, svg, noscript") && element.getBoundingClientRect().right > root.clientWidth + 1
  ).map((element) => element.outerHTML.slice(0, 120));
  found.smallest = Math.min(...[...document.querySelectorAll("p, td, th, dd, figcaption")].map((element) =>
    parseFloat(getComputedStyle(element).fontSize)));
  found.drawn = Math.min(...[...document.querySelectorAll("figure svg")].map((svg) =>
    svg.getBoundingClientRect().width / svg.viewBox.baseVal.width));

  const explorer = document.getElementById("explorer");
  document.getElementById("rows").scrollIntoView();
  await until(() => explorer.tBodies[0]?.rows.length);
  const headings = [...explorer.tHead.rows[0].cells];
  const names = headings.map((cell) => cell.textContent.trim());
  found.names = names;
  const column = (name) => [...explorer.tBodies[0].rows].map((row) => row.cells[names.indexOf(name)].textContent);
  const info = () => document.querySelector(".dt-info").textContent;
  const choose = (name, value) => {
    const select = document.querySelector(`select[data-column=${name}]`);
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };
  found.rows = info();
  found.page = column("kernel").length;
  const search = document.querySelector("input[type=search]");
  search.value = "MMA_BT  cfd1";
  search.dispatchEvent(new Event("input"));
  const matrices = column("matrix");
  found.filtered = column("kernel").map((kernel, at) => [kernel, matrices[at]]);
  found.count = info();

  const heading = headings[names.indexOf("time_ms")];
  heading.click();
  await until(() => heading.ariaSort === "ascending");
  found.ascending = column("time_ms");
  heading.click();
  await until(() => heading.ariaSort === "descending");
  found.descending = column("time_ms");

  const blobs = [];
  URL.createObjectURL = (given) => { blobs.push(given); return "#"; };
  const download = async () => {
    document.getElementById("download").click();
    await until(() => blobs.length);
    return blobs.pop().text();
  };
  document.getElementById("reset").click();
  found.all = info();
  choose("status", "wrong");
  found.wrong = column("kernel");
  found.csv = await download();
  choose("status", "");
  choose("matrix", "<script>alert(1)</" + "script>");
  found.strange = [info(), column("matrix"), await download()];
  choose("matrix", "cfd1");
  choose("n", "32");
  choose("precision", "float16");
  found.together = [info(), column("n"), column("precision")];

  const svg = document.querySelector("[data-cases]").ownerSVGElement;
  const mark = svg.querySelectorAll("[data-cases] use")[3];
  mark.dispatchEvent(new Event("pointerover", {bubbles: true}));
  const tip = document.querySelector(".tip");
  await until(() => tip.textContent);
  found.tip = tip.innerHTML;
  mark.dispatchEvent(new Event("click", {bubbles: true}));
  await until(() => info().startsWith("1 to 1 of"));
  found.shown = ["kernel", "matrix", "n", "useful_gflops"].map((name) => column(name)[0]);
  found.chosen = [...document.querySelectorAll("select[data-column]")].map((select) => select.value);
  const key = (name) => svg.dispatchEvent(new KeyboardEvent("keydown", {key: name}));
  for (let step = 0; step < 4; step++) key("ArrowRight");
  await until(() => tip.style.display === "block");
  found.keyed = tip.innerHTML;
  const told = async (name) => {
    tip.textContent = "";
    key(name);
    await until(() => tip.textContent);
    return tip.innerHTML;
  };
  found.ends = [await told("End"), await told("ArrowRight"), await told("ArrowLeft"), await told("Home")];
  const gap = () => {
    const [of_mark, of_tip] = [svg.querySelector(".near"), tip].map((part) => part.getBoundingClientRect());
    return Math.round(Math.max(of_tip.top - of_mark.bottom, of_mark.top - of_tip.bottom));
  };
  found.gaps = [gap()];
  scrollBy(0, -30);
  dispatchEvent(new Event("scroll"));
  found.gaps.push(gap());
  key("Escape");
  found.ends.push(await told("ArrowLeft"));
  key("Escape");
  found.escaped = tip.style.display;

  Object.assign(found, accessibility());

  const roof = document.getElementById("roof"), picture = roof.querySelector("svg");
  roof.scrollIntoView();
  await until(() => roof.classList.contains("ready"));
  const set = (name, value) => {
    const select = document.querySelector(`select[data-roof=${name}]`);
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };
  const dots = (name) => picture.querySelector(`.${name}`).getAttribute("d").split("M").length - 1;
  set("precision", "float16");
  const before = [dots("others"), dots("picked")];
  set("kernel", "mma_bt");
  set("matrix", "cfd1");
  found.roof = [before, dots("others"), dots("picked"), document.getElementById("roof-says").textContent];
  picture.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  await until(() => tip.style.display === "block");
  found.roof.push(tip.textContent);
  const there = (name) => {
    const roofKey = new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true});
    picture.dispatchEvent(roofKey);
    return [picture.querySelector(".here").getAttribute("cx"), roofKey.defaultPrevented];
  };
  found.roof_ends = [there("End"), there("Home"), there("ArrowLeft")];
  key("Escape");
  document.getElementById("roof-csv").click();
  found.roof.push((await blobs.pop().text()).split("\\n").length);

  const drawing = document.querySelector("figure[id^=figure-throughput]");
  const tools = [...drawing.querySelectorAll(".tools button")];
  tools[0].click();
  await until(() => blobs.length);
  found.svg = await blobs.pop().text();
  tools[1].click();
  await until(() => blobs.length);
  found.plotted = await blobs.pop().text();

  const body = getComputedStyle(document.body);
  [found.paper, found.ink, found.dark_table] = [body.backgroundColor, body.color, root.classList.contains("dark")];
  found.errors = window.errors;
  found.blank = [...document.querySelectorAll("figure svg")].filter((svg) =>
    svg.querySelectorAll("use, path, image").length < 3).map((svg) => svg.ariaLabel);
  found.dangling = [...document.querySelectorAll("a[href^='#']")].filter((link) =>
    !document.getElementById(decodeURIComponent(link.hash.slice(1)))).map((link) => link.hash);
  const fixed = [...document.querySelectorAll("table.sortable th")];
  const mean = fixed.find((cell) => cell.textContent === "geometric mean");
  const [table, at] = [mean.closest("table"), mean.cellIndex];
  mean.firstChild.click();
  found.means = [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[at].textContent));
  parent.postMessage(found, "*");
});
</script>
"""
)

AROUND = """<!DOCTYPE html><title>waiting</title><pre id="found"></pre><script>
addEventListener("message", ({{data}}) => {{ document.getElementById("found").textContent = JSON.stringify(data); }});
</script><iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    rows = [*synthetic.measure_rows(), synthetic.measure_row("mma_bt", "cfd1", 32) | {"matrix": STRANGE}]
    recorded = synthetic.write_recorded(folder / "recorded" / "h200", rows)
    build(folder, recorded=[recorded], fingerprints=synthetic.FINGERPRINTS | {"mma_t": "changed"})
    text = (folder / "report.html").read_text()
    (folder / "page.html").write_text(text.replace("<body>", "<body>" + PROBE))
    return folder


def load(page, width, dark=False):
    """The elements of a page, as they stand when its scripts have run in a window of that width."""
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *quiet]
    command += [f"--user-data-dir={page.parent / f'profile-{page.stem}'}", f"--window-size={width},1000"]
    command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    # Virtual time runs ahead while data are unpacked, which takes real time: the budget is for the probe's waiting.
    command += ["--virtual-time-budget=1800000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def probe(folder, width, dark):
    """What the probe found in a page that is ``width`` CSS pixels wide."""
    around = folder / f"around-{width}.html"
    around.write_text(AROUND.format(width=width))
    found = re.search(r'<pre id="found">(.*?)</pre>', load(around, 1400, dark), re.DOTALL).group(1)
    assert found, "the script of the page failed: the probe reported nothing"
    return json.loads(html.unescape(found)) | {"wants_dark": dark}


@pytest.fixture(scope="module", params=[(1280, False), (360, True)], ids=["screen", "dark-phone"])
def found(request, folder):
    return probe(folder, *request.param)


def test_the_page_follows_the_reader_into_the_dark(found):
    lightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (found["paper"], found["ink"])]
    assert (lightness[0] < lightness[1]) == found["wants_dark"] == found["dark_table"]
    assert abs(lightness[0] - lightness[1]) > 300, "text hardly differs from what it stands on"


def test_a_browser_that_cannot_unpack_is_told_so(folder):
    old = folder / "old.html"
    text = (folder / "page.html").read_text().replace(PROBE, "<script>delete window.DecompressionStream</script>")
    old.write_text(text)
    dom = load(old, 1280)
    assert "This browser cannot unpack the rows" in dom and "results/analysis/cases.csv" in dom
    assert "This browser cannot unpack what stands here" in dom


def test_nothing_sticks_out(found):
    assert found["overflow"] <= 0, f"the page is {found['overflow']} px too wide"
    assert found["sticking"] == []


def test_text_is_large_enough_to_read(found):
    assert found["smallest"] >= 12
    assert 8 * found["drawn"] >= 10, "most labels of figures have a size of 8"


def test_search_finds_rows_with_all_words(found):
    count = ROWS
    assert found["rows"] == found["all"] == f"1 to 25 of {count} rows" and found["page"] == 25
    assert found["filtered"] == [[kernel, "cfd1"] for kernel in ("mma_bt", "mma_bt_f32") for _ in range(3)]
    assert found["count"] == f"1 to 6 of 6 rows ({count} in all)"


def test_a_heading_sorts_up_and_down_by_number(found):
    times = [float(value.replace(",", "")) for value in found["ascending"]]
    assert times == sorted(times) and len(times) == 6
    assert found["descending"] == found["ascending"][::-1]


def test_filters_and_download_agree(found):
    assert found["wrong"] == ["mma_t"]
    (row,) = csv.DictReader(io.StringIO(found["csv"]))
    assert list(row) == every.SHOWN + every.FURTHER, "the download has all columns, shown or not"
    assert list(row)[: len(found["names"])] == found["names"]
    assert row["status"] == "wrong" and row["message"].startswith("relative error 0.31") and row["time_ms"] == ""
    info, widths, precisions = found["together"]
    assert info == f"1 to 6 of 6 rows ({ROWS} in all)"  # five kernels and cusparse_best
    assert set(widths) == {"32"} and set(precisions) == {"float16"}


def test_a_name_that_is_a_script_stays_a_name(found):
    info, names, text = found["strange"]
    assert info == f"1 to 1 of 1 rows ({ROWS} in all)"
    assert names == [STRANGE]
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["matrix"] == STRANGE


def test_a_point_tells_its_row_and_leads_to_it(found):
    kernel, matrix, n, gflops = found["shown"]
    assert found["tip"].startswith(f"<b>{kernel}</b> on {matrix}, N = {n}<br>")
    rate = float(gflops.replace(",", ""))
    assert f"<br>{numbers.rate(rate)} · " in found["tip"] and "% of the " in found["tip"]
    assert found["chosen"][:5] == ["h200", found["chosen"][1], kernel, matrix, n]
    assert found["keyed"] == found["tip"] and found["escaped"] == "none"


def test_keys_go_round_the_points_and_to_both_ends(found):
    last, after, before, first, from_none = found["ends"]
    assert last == before == from_none and after == first and last != first
    assert found["gaps"] == [8, 8], "a tip stays behind when its mark moves"


def test_nothing_fails_and_every_figure_shows_something(found):
    assert found["errors"] == []
    assert found["blank"] == []
    assert found["dangling"] == []


def test_static_tables_sort_by_value(found):
    assert found["means"] == sorted(found["means"])
    assert len(set(found["means"])) > 3


def test_text_stands_out_from_its_ground(found):
    """WCAG 2.2, 1.4.3: a contrast of 4.5, or of 3 for large text."""
    assert found["faint"] == []


def test_whatever_can_be_operated_has_a_name(found):
    assert found["nameless"] == []
    assert found["undescribed"] == []


def test_headings_and_tables_have_an_order(found):
    assert (found["titles"], found["skips"]) == (1, 0), "one h1, and no level is skipped"
    assert found["headless"] == [], "a heading of a table does not say what it heads"
    assert found["landmarks"] == ["en", 1, "Sections"]


def test_the_keyboard_reaches_what_scrolls_in_the_order_of_the_page(found):
    assert found["jumps"] == []
    assert found["caged"] == []


def test_the_roofline_follows_the_choices(found):
    (everything, fastest), others, picked, says, told, lines = found["roof"]
    assert fastest == 6 * 3 + 1, "one for each matrix and width, and the strange matrix"
    assert everything > others > picked == 3
    assert says.startswith("3 of ") and "mma_bt. In the median they reach" in says
    assert told.startswith("mma_bt on cfd1, N = ")
    assert lines == 1 + picked
    last, first, round_again = found["roof_ends"]
    assert last == round_again and float(first[0]) < float(last[0]) and first[1], "Home and End scroll the page"


def test_a_figure_can_be_taken_along(found):
    svg = ElementTree.fromstring(found["svg"])
    assert svg.tag.endswith("svg") and len(list(svg.iter("{http://www.w3.org/2000/svg}use"))) > 3
    assert "color:#14171e" in found["svg"], "the file has no colour for what takes the page's"
    rows = list(csv.DictReader(io.StringIO(found["plotted"])))
    points = [row for row in rows if row["mark"] == "point"]
    assert {"mma_bt", "mma_t"} <= {row["series"] for row in points}, "the look of a point has its name"
    assert all(float(row["x"]) > 0 for row in points)
