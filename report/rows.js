// The table of all rows: DataTables and the rows, unpacked when a reader comes near.
const explorer = document.getElementById("explorer");
const selects = [...document.querySelectorAll("select[data-column]")];

async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// Columns by name, and the rows as arrays in the order of `columns`.
async function readRows() {
  const {columns, shown, texts, values} = JSON.parse(await unpack("data"));
  for (const at in texts) values[at] = values[at].map((place) => texts[at][place]);
  return {columns, shown, texts, rows: values[0].map((_, row) => values.map((column) => column[row]))};
}

function shownAs(value) {
  const text = typeof value === "number" ? value.toLocaleString("en", {maximumSignificantDigits: 4}) : value ?? "";
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

async function makeTable({columns, shown, texts, rows}) {
  const style = document.createElement("style");
  style.textContent = await unpack("library-style");
  document.head.prepend(style);
  const bundle = URL.createObjectURL(new Blob([await unpack("library-script")], {type: "text/javascript"}));
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
  const follow = () => document.documentElement.classList.toggle("dark", dark.matches);
  dark.addEventListener("change", follow);
  follow();
  document.getElementById("rows-wait").remove();
  document.getElementById("rows-tools").hidden = false;
  return {table, filter};
}

// Read and made once, by whoever asks first.
let reading, making;
const allRows = () => reading ??= readRows();
const allRowsTable = () => making ??= allRows().then(makeTable);

if (explorer && !("DecompressionStream" in window)) {
  document.getElementById("rows-wait").textContent = "This browser cannot unpack the rows: it lacks DecompressionStream, " +
    "which Chrome and Edge have from version 80, Firefox from 113 and Safari from 16.4. The same rows are in results/analysis/cases.csv.";
} else if (explorer) {
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    allRowsTable();
  }, {rootMargin: "1000px"}).observe(document.getElementById("rows"));
}
