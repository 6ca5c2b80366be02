// Every figure as SVG, in the light colours and with its own styles, and the numbers that it draws as CSV.
function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function standalone(svg) {
  const own = svg.cloneNode(true);
  for (const name of ["tabindex", "aria-description"]) own.removeAttribute(name);
  for (const shown of own.querySelectorAll(".near")) shown.classList.remove("near");
  const used = new Set([...own.querySelectorAll("[class]")].flatMap((element) => [...element.classList].map((name) => `.${name}`)));
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) =>
    used.has(rule.selectorText) || svg.closest("#roof") && rule.selectorText?.startsWith("#roof"));
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = "svg{color:#14171e;--ink:#14171e;--quiet:#5b6472;--line:#c9ced7;--card:#fdfdfe;--accent:#0b62a8;" +
    "background:#fdfdfe;font-family:DejaVu Sans,Arial,sans-serif}" + rules.map((rule) => rule.cssText.replaceAll(/#roof (?:svg )?/g, "")).join("");
  own.prepend(style);
  own.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(own);
}

for (const figure of document.querySelectorAll("figure[id^=figure-]")) {
  const tools = document.createElement("p");
  tools.className = "tools";
  const add = (word, what, act) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = word;
    button.setAttribute("aria-label", `Download ${what} of this figure`);
    button.addEventListener("click", act);
    tools.append(button);
  };
  const name = figure.id.replace("figure-", "");
  add("SVG", "the picture", async () => {
    const place = figure.querySelector(".later");
    if (place) await arrive(place);
    save(`${name}.svg`, "image/svg+xml", standalone(figure.querySelector("svg")));
  });
  const plotted = figure.querySelector(".plotted");
  if (plotted && canUnpack) add("CSV", "the numbers", async () => save(`${name}.csv`, "text/csv", await unpack(plotted)));
  figure.querySelector("figcaption")?.prepend(tools);
}
