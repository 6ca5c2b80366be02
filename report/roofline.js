// The roofline of all rows: choose device, precision, state of L2, kernel, matrix and N, and see where they stand.
const roof = document.getElementById("roof");
const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.textContent = text;
  return element;
}

async function makeRoofline() {
  const {columns, rows} = await allRows();
  const at = Object.fromEntries(columns.map((name, number) => [name, number]));
  const {ceilings, names} = JSON.parse(document.getElementById("ceilings").textContent);
  const chosen = Object.fromEntries([...document.querySelectorAll("select[data-roof]")].map((select) => [select.dataset.roof, select]));
  const timed = [];
  rows.forEach((row, number) => {
    if (row[at.status] === "ok" && row[at.intensity_flop_per_byte] > 0 && row[at.useful_gflops] > 0) timed.push(number);
  });
  const value = (number, name) => rows[number][at[name]];
  const svg = roof.querySelector("svg"), said = document.getElementById("roof-says"), list = document.getElementById("roof-list");
  const [left, right, top, bottom, width, height] = [64, 16, 14, 46, 1000, 460];
  let shown = [], picked = [], place, here = -1;

  // A select offers what the choices above it leave.
  function offer(name, within, all) {
    const select = chosen[name], before = select.value || select.dataset.first;
    const found = [...new Set(within.map((number) => value(number, name)))];
    found.sort((a, b) => typeof a === "number" ? a - b : a.localeCompare(b, "en", {numeric: true}));
    select.replaceChildren(...(all ? [new Option(all, "")] : []), ...found.map((text) => new Option(names[text] ?? text, text)));
    select.value = found.map(String).includes(before) ? before : all ? "" : String(found[0]);
    return within.filter((number) => select.value === "" || String(value(number, name)) === select.value);
  }

  function update() {
    const context = ["device", "precision", "l2"].reduce((left, name) => offer(name, left, ""), timed);
    shown = offer("n", offer("matrix", context, "all matrices"), "all N");
    picked = offer("kernel", shown, "the fastest of each case");
    if (!chosen.kernel.value) {
      const best = new Map();
      for (const number of shown) {
        const key = `${value(number, "matrix")} ${value(number, "n")}`;
        if (!best.has(key) || value(number, "time_ms") < value(best.get(key), "time_ms")) best.set(key, number);
      }
      picked = [...best.values()];
    }
    picked.sort((a, b) => value(a, "intensity_flop_per_byte") - value(b, "intensity_flop_per_byte"));
    here = -1;
    draw();
    tellAll();
  }

  function draw() {
    const {slopes, levels} = ceilings[chosen.device.value] ?? {slopes: [], levels: {}};
    const across = levels[chosen.precision.value] ?? [];
    const xs = shown.map((number) => value(number, "intensity_flop_per_byte")), ys = shown.map((number) => value(number, "useful_gflops"));
    const ends = (values, more) => [Math.floor(Math.log10(values.reduce((a, b) => Math.min(a, b)))), Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b), more)))];
    // Labels stand above the highest level.
    const [x0, x1] = ends(xs, 1000), [y0, y1] = ends(ys, 3 * Math.max(1, ...across.map((level) => level.value)));
    place = {
      x: (intensity) => left + (Math.log10(intensity) - x0) / (x1 - x0) * (width - left - right),
      y: (gflops) => height - bottom - (Math.log10(gflops) - y0) / (y1 - y0) * (height - top - bottom),
    };
    const parts = [];
    const power = (exponent) => (10 ** exponent).toLocaleString("en", {notation: "compact"});
    for (let tick = x0; tick <= x1; tick++)
      parts.push(drawn("path", {class: "grid", d: `M${place.x(10 ** tick)} ${top}V${height - bottom}`}),
        drawn("text", {x: place.x(10 ** tick), y: height - bottom + 16, "text-anchor": "middle"}, power(tick)));
    for (let tick = y0; tick <= y1; tick++)
      parts.push(drawn("path", {class: "grid", d: `M${left} ${place.y(10 ** tick)}H${width - right}`}),
        drawn("text", {x: left - 6, y: place.y(10 ** tick) + 4, "text-anchor": "end"}, power(tick)));
    parts.push(drawn("text", {x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, "compulsory intensity (FLOP/B)"),
      drawn("text", {transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle"}, "useful GFLOP/s"));
    const dots = (numbers) => numbers.map((number) =>
      `M${place.x(value(number, "intensity_flop_per_byte")).toFixed(1)} ${place.y(value(number, "useful_gflops")).toFixed(1)}h0`).join("");
    parts.push(drawn("path", {class: "others", d: dots(shown)}), drawn("path", {class: "picked", d: dots(picked)}));
    const roofTop = Math.max(...across.map((level) => level.value), 10 ** y0), first = Math.max(...slopes.map(({gb_per_s}) => gb_per_s), 0);
    const labels = [];
    for (const {label, gb_per_s} of slopes) {
      const [from, to] = [Math.max(10 ** x0, 10 ** y0 / gb_per_s), Math.min(10 ** x1, roofTop / gb_per_s)];
      if (from >= to) continue;
      const [x, y] = [place.x(from * 1.2), place.y(from * 1.2 * gb_per_s)];
      const turn = Math.atan2(place.y(to * gb_per_s) - place.y(from * gb_per_s), place.x(to) - place.x(from)) * 180 / Math.PI;
      parts.push(drawn("path", {class: "limit", d: `M${place.x(from)} ${place.y(from * gb_per_s)}L${place.x(to)} ${place.y(to * gb_per_s)}`}));
      labels.push(drawn("text", {transform: `translate(${x} ${y - 5}) rotate(${turn})`}, label));
    }
    let above = 0, line = -Infinity;
    for (const {label, value: level, measured} of across.toSorted((a, b) => b.value - a.value)) {
      const x = Math.max(10 ** x0, first ? level / first : 0), y = place.y(level);
      if (x < 10 ** x1) parts.push(drawn("path", {class: measured ? "limit" : "limit told", d: `M${place.x(x)} ${y}H${width - right}`}));
      // No line crosses a label: that of a level close below another one stands above the other's.
      above = y - line < 18 ? above - 13 : y - 4;
      line = y;
      labels.push(drawn("text", {x: width - right, y: above, "text-anchor": "end"}, label));
    }
    parts.push(...labels, drawn("circle", {class: "here", r: 6, cx: -20, cy: -20}));
    svg.replaceChildren(...parts);
  }

  function tellAll() {
    const shares = picked.map((number) => value(number, "bound_fraction")).filter((share) => share !== null).sort((a, b) => a - b);
    const bounds = {};
    for (const number of picked) if (value(number, "bound")) bounds[value(number, "bound")] = (bounds[value(number, "bound")] ?? 0) + 1;
    const binds = Object.entries(bounds).sort((a, b) => b[1] - a[1]).map(([name, count]) => `${name} in ${count.toLocaleString("en")}`).join(", ");
    const without = picked.length - shares.length, rest = without ? `; ${without.toLocaleString("en")} without a known limit` : "";
    const what = chosen.kernel.value || "the fastest kernel of each case";
    said.textContent = `${picked.length.toLocaleString("en")} of ${shown.length.toLocaleString("en")} rows are highlighted: ${what}. ` +
      (shares.length ? `In the median they reach ${Math.round(100 * shares[shares.length >> 1])} % of their lowest limit: ${binds}${rest}.` : "Their limits are unknown.");
    svg.setAttribute("aria-label", `Roofline. ${said.textContent}`);
    const best = [...picked].sort((a, b) => value(b, "useful_gflops") - value(a, "useful_gflops")).slice(0, 10);
    const names = ["kernel", "matrix", "n", "time_ms", "useful_gflops", "bound", "bound_fraction"];
    const cells = (texts, tag) => texts.map((text) => Object.assign(document.createElement(tag), {textContent: text, ...(tag === "th" ? {scope: "col"} : {})}));
    const lines = [cells(["kernel", "matrix", "N", "time (ms)", "useful GFLOP/s", "bound", "of it"], "th"),
      ...best.map((number) => cells(names.map((name) => {
        const found = value(number, name);
        return name === "bound_fraction" && found !== null ? `${Math.round(100 * found)} %` : typeof found === "number" ? found.toLocaleString("en", Number.isInteger(found) ? {} : {maximumSignificantDigits: 4}) : found ?? "–";
      }), "td"))];
    list.replaceChildren(...lines.map((line) => { const row = document.createElement("tr"); row.append(...line); return row; }));
  }

  function point(number) {
    here = picked.indexOf(number);
    const mark = svg.querySelector(".here");
    mark.setAttribute("cx", place.x(value(number, "intensity_flop_per_byte")));
    mark.setAttribute("cy", place.y(value(number, "useful_gflops")));
    tellRow(rows[number], mark);
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), scale = width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let least = 400, found;
    for (const number of picked) {
      const far = (place.x(value(number, "intensity_flop_per_byte")) - x) ** 2 + (place.y(value(number, "useful_gflops")) - y) ** 2;
      if (far < least) [least, found] = [far, number];
    }
    found === undefined ? leave() : point(found);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("click", () => { if (picked[here] !== undefined) showRow(rows[picked[here]]); });
  svg.addEventListener("keydown", (event) => {
    const next = placeOf(event.key, here, picked.length);
    if (next !== undefined && picked.length) point(picked[next]);
    else if (event.key === "Enter" && picked[here] !== undefined) showRow(rows[picked[here]]);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });
  for (const select of Object.values(chosen)) select.addEventListener("change", update);
  document.getElementById("roof-svg").addEventListener("click", () => save("roofline.svg", "image/svg+xml", standalone(svg)));
  document.getElementById("roof-csv").addEventListener("click", () => {
    const cell = (given) => /[",\n]/.test(given ?? "") ? `"${given.replaceAll('"', '""')}"` : given ?? "";
    save("roofline.csv", "text/csv", [columns, ...picked.map((number) => rows[number])].map((row) => row.map(cell).join(",")).join("\n"));
  });
  update();
  roof.classList.add("ready");
}

if (roof && canUnpack)
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    makeRoofline();
  }, {rootMargin: "600px"}).observe(roof);
