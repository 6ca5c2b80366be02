// The table of all rows: DataTables and the rows, unpacked when a reader comes near.
const explorer = document.getElementById("explorer");
const selects = [...document.querySelectorAll("select[data-column]")];

// Columns by name, and the rows as arrays in the order of `columns`.
async function readRows() {
  const {columns, shown, texts, relative, values} = JSON.parse(await unpack(document.getElementById("data")));
  for (const at in texts) values[at] = values[at].map((place) => texts[at][place]);
  // Keys that are whole numbers would come in their own order, so that the entries are a list.
  for (const [at, times, over] of relative)
    values[at] = values[at].map((factor, row) => {
      if (factor === null) return null;
      const product = times.reduce((found, name) => found * (values[name][row] ?? 1), factor);
      return Number((product / (over === null || !product ? 1 : values[over][row] ?? 1)).toPrecision(5));
    });
  return {columns, shown, texts, rows: values[0].map((_, row) => values.map((column) => column[row]))};
}

function shownAs(value) {
  const rounded = Number.isInteger(value) ? {} : {maximumSignificantDigits: 4};
  const text = typeof value === "number" ? value.toLocaleString("en", rounded) : value ?? "";
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

async function makeTable({columns, shown, texts, rows}) {
  const style = document.createElement("style");
  style.textContent = await unpack(document.getElementById("library-style"));
  document.head.prepend(style);
  const bundle = URL.createObjectURL(new Blob([await unpack(document.getElementById("library-script"))], {type: "text/javascript"}));
  const {default: DataTable} = await import(bundle);
  URL.revokeObjectURL(bundle);

  // What is missing comes last in either direction.
  for (const [direction, sign] of [["asc", 1], ["desc", -1]])
    DataTable.ext.type.order[`number-${direction}`] = (a, b) => (a === null) - (b === null) || sign * (a - b);
  const status = columns.indexOf("status");
  const filtered = selects.map((select) => columns.indexOf(select.dataset.column));
  const table = new DataTable(explorer, {
    data: rows,
    columns: columns.map((title, at) => ({
      title,
      visible: at < shown,
      searchable: at < shown && at in texts || filtered.includes(at),
      type: at in texts ? "string" : "number",
      className: at in texts ? "" : "dt-right",
      render: (value, purpose) => purpose === "display" ? shownAs(value) : purpose === "sort" ? value : String(value ?? ""),
    })),
    createdRow: (line, row) => line.classList.toggle("failed", row[status] !== "ok"),
    order: [],
    autoWidth: false,
    pageLength: 25,
    lengthMenu: [25, 100, 500],
    language: {search: "Search", lengthMenu: "_MENU_ rows a page", info: "_START_ to _END_ of _TOTAL_ rows",
      infoEmpty: "no rows", infoFiltered: "(_MAX_ in all)", zeroRecords: "No row is left: reset the filters."},
    layout: {topStart: "search", topEnd: null, bottomStart: ["info", "pageLength"], bottomEnd: "paging"},
    buttons: [{
      extend: "csv",
      filename: "spmm-roofline-rows",
      // As they are: DataTables would take out what looks like HTML.
      exportOptions: {orthogonal: "export", modifier: {search: "applied"}, format: {body: (value) => value}},
    }],
  });
  const filter = () => {
    selects.forEach((select, at) => table.column(filtered[at]).search(select.value, {exact: true}));
    table.draw();
  };
  selects.forEach((select, at) => {
    const found = new Set(rows.map((row) => row[filtered[at]]));
    const order = [...found].sort((a, b) => typeof a === "number" ? a - b : a.localeCompare(b, "en", {numeric: true}));
    for (const value of order) select.add(new Option(value, value));
    select.addEventListener("change", filter);
  });
  document.getElementById("download").addEventListener("click", () => table.button(0).trigger());
  document.getElementById("reset").addEventListener("click", () => {
    for (const select of selects) select.value = "";
    table.search("");
    filter();
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const adapt = () => document.documentElement.classList.toggle("dark", dark.matches);
  dark.addEventListener("change", adapt);
  adapt();
  document.getElementById("rows-wait").remove();
  document.getElementById("rows-tools").hidden = false;
  return {table, filter};
}

// Read and made once, by whoever asks first.
let reading, making;
const allRows = () => reading ??= readRows();
const allRowsTable = () => making ??= allRows().then(makeTable);

// Points of figures that belong to a row: what it says when one is near, and the way to it.
const numbers = (text) => text.split(" ").flatMap((run) => {
  const [first, last = first] = run.split("-").map(Number);
  return Array.from({length: last - first + 1}, (_, at) => first + at);
});
const marksOf = (group) => group.marks ??= [...group.querySelectorAll("use, path:not(defs path)")];
const caseOf = (mark) => {
  const group = mark.closest("[data-cases]");
  return (group.cases ??= numbers(group.dataset.cases))[marksOf(group).indexOf(mark)];
};
const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
document.body.append(tip);
let near;

async function tell(mark) {
  leave();
  near = mark;
  mark.classList.add("near");
  const {rows} = await allRows();
  if (near === mark) await tellRow(rows[caseOf(mark)], mark);
}

// Says what a row is beside the mark that stands for it.
async function tellRow(values, mark) {
  const {columns} = await allRows();
  const row = Object.fromEntries(columns.map((name, at) => [name, values[at]]));
  const digits = (value) => value.toLocaleString("en", {minimumSignificantDigits: 3, maximumSignificantDigits: 3});
  const rate = row.useful_gflops < 1000 ? `${digits(row.useful_gflops)} GFLOP/s` : `${digits(row.useful_gflops / 1000)} TFLOP/s`;
  const said = [rate];
  if (row.bound_fraction !== null) said.push(`${digits(100 * row.bound_fraction)} % of the ${row.bound} limit`);
  if (row.speedup !== null) said.push(`${digits(row.speedup)}× cuSPARSE`);
  const name = document.createElement("b");
  name.textContent = row.kernel;
  tip.replaceChildren(name, ` on ${row.matrix}, N = ${row.n}`, document.createElement("br"), said.join(" · "));
  tip.style.display = "block";
  tip.mark = mark;
  follow();
}

// Puts the tip beside its mark, which moves when the page or the figure scrolls.
function follow() {
  const place = tip.mark.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(place.left + 12, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${place.bottom + 8 + tip.offsetHeight > innerHeight ? place.top - tip.offsetHeight - 8 : place.bottom + 8}px`;
}
addEventListener("scroll", () => { if (tip.style.display === "block") follow(); }, {capture: true, passive: true});

function leave() {
  near?.classList.remove("near");
  near = null;
  tip.style.display = "none";
}

// The place that a key leads to from place `at` of `count`, which is -1 before the first key; undefined for other keys.
function placeOf(key, at, count) {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[key];
  const from = at < 0 && step < 0 ? 0 : at;
  return {Home: 0, End: count - 1}[key] ?? (step && (from + step + count) % count);
}

const show = async (mark) => showRow((await allRows()).rows[caseOf(mark)]);

async function showRow(row) {
  const [{columns}, {table, filter}] = await Promise.all([allRows(), allRowsTable()]);
  for (const select of selects)
    select.value = ["precision", "status"].includes(select.dataset.column) ? "" : row[columns.indexOf(select.dataset.column)];
  table.search("");
  filter();
  leave();
  document.getElementById("rows-tools").scrollIntoView();
}

function watch(svg) {
  const all = [...svg.querySelectorAll("[data-cases]")].flatMap(marksOf);
  const marked = (event) => event.target.closest("[data-cases]") && event.target.closest("use, path");
  svg.setAttribute("role", "group");
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-description", "Arrow keys go from point to point and tell what each is, Home and End go to the first and the last, Enter shows its row.");
  svg.addEventListener("pointerover", (event) => { const mark = marked(event); mark ? tell(mark) : leave(); });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("click", (event) => { const mark = marked(event); if (mark) show(mark); });
  svg.addEventListener("keydown", (event) => {
    const place = placeOf(event.key, all.indexOf(near), all.length);
    if (place !== undefined) tell(all[place]);
    else if (event.key === "Enter" && near) show(near);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });
}

if (explorer && canUnpack) arrivals.push((part) => { if (part.querySelector("[data-cases]")) watch(part); });

if (explorer && !canUnpack) {
  document.getElementById("rows-wait").textContent = "This browser cannot unpack the rows: it lacks DecompressionStream, " +
    "which Chrome and Edge have from version 80, Firefox from 113 and Safari from 16.4. The same rows are in results/analysis/cases.csv.";
} else if (explorer) {
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    allRowsTable();
  }, {rootMargin: "1000px"}).observe(document.getElementById("rows"));
}

for (const part of document.querySelectorAll("figure svg")) arrived(part);
