"use strict";
// Sorting of every table, and the table of all rows: search, filters, download.

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === "") return 1;
  if (b === null || b === "") return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
}

// Sets the arrow of a heading and returns 1 for ascending order, -1 for descending.
function turn(heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  return down ? -1 : 1;
}

function order(rows, key, sign) {
  return rows.map((row) => [key(row), row]).sort((a, b) => {
    const missing = [a, b].some(([value]) => value === null || value === "");
    return (missing ? 1 : sign) * compare(a[0], b[0]);
  }).map((pair) => pair[1]);
}

for (const table of document.querySelectorAll("table.sortable")) {
  table.tHead.addEventListener("click", (event) => {
    const heading = event.target.closest("th");
    if (!heading || event.target === heading) return;
    const at = heading.cellIndex;
    const value = ({cells: {[at]: cell}}) => "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.replace("–", "");
    table.tBodies[0].append(...order([...table.tBodies[0].rows], value, turn(heading)));
  });
}

const explorer = document.getElementById("explorer");
if (explorer) {
  const {columns, shown, texts, rows} = JSON.parse(document.getElementById("data").textContent);
  for (const row of rows) for (const at in texts) row[at] = texts[at][row[at]];
  const most = 300;
  const search = document.getElementById("search");
  const selects = [...document.querySelectorAll("select[data-column]")];
  const status = columns.indexOf("status");
  let sorted = rows;
  let found = rows;

  const text = (value) => typeof value === "number" ? value.toLocaleString("en", {maximumSignificantDigits: 4}) : value ?? "";

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = selects.filter((select) => select.value).map((select) => [columns.indexOf(select.dataset.column), select.value]);
    found = sorted.filter((row) => wanted.every(([at, value]) => row[at] === value) &&
      (!words.length || (row.text ??= row.join(" ").toLowerCase(), words.every((word) => row.text.includes(word)))));
    explorer.tBodies[0].replaceChildren(...found.slice(0, most).map((row) => {
      const line = document.createElement("tr");
      if (row[status] !== "ok") line.className = "failed";
      for (const value of row.slice(0, shown)) line.insertCell().textContent = text(value);
      return line;
    }));
    document.getElementById("count").textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows` +
      (found.length > most ? `, the first ${most} shown` : "");
  }

  const line = explorer.tHead.insertRow();
  columns.slice(0, shown).forEach((name, at) => {
    const heading = document.createElement("th");
    const button = document.createElement("button");
    heading.scope = "col";
    button.textContent = name;
    button.addEventListener("click", () => { sorted = order(sorted, (row) => row[at], turn(heading)); show(); });
    heading.append(button);
    line.append(heading);
  });
  for (const select of selects) {
    const at = columns.indexOf(select.dataset.column);
    for (const value of [...new Set(rows.map((row) => row[at]))].sort()) select.add(new Option(value, value));
    select.addEventListener("change", show);
  }
  search.addEventListener("input", show);
  document.getElementById("download").addEventListener("click", () => {
    const quote = (value) => /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
    const csv = [columns, ...found].map((row) => row.map((value) => quote(String(value ?? ""))).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], {type: "text/csv"}));
    link.download = "spmm-roofline-cases.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  show();
}
