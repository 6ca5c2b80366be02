// Sorting of the tables that stand in the page, by the value of a cell or else by its text; what is missing comes last.
document.addEventListener("click", (event) => {
  const heading = event.target.closest("table.sortable thead button")?.closest("th");
  if (!heading) return;
  const table = heading.closest("table");
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = ({cells: {[heading.cellIndex]: cell}}) =>
    "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.replace("–", "");
  const compare = ([a], [b]) => (a === "") - (b === "") || (down ? -1 : 1) *
    (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true}));
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]).sort(compare);
  table.tBodies[0].append(...rows.map(([, row]) => row));
});
