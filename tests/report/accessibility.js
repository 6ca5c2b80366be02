// What tools such as axe look at: contrast, names of what can be operated, headings, and the way of the keyboard.
function accessibility() {
  const channels = (colour) => {
    const parts = colour.match(/[\d.]+/g).map(Number);
    return parts.length < 4 ? [...parts, 1] : parts;
  };
  // Relative luminance as WCAG 2.2 defines it.
  const luminance = (colour) => channels(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (one, other) => {
    const [a, b] = [luminance(one), luminance(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const ground = (element) => {
    for (let around = element; around; around = around.parentElement) {
      const colour = getComputedStyle(around).backgroundColor;
      if (channels(colour)[3] > 0.5) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const faint = new Map();
  for (const element of document.querySelectorAll("body *:not(svg *, script, style, option)")) {
    const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    const words = texts.map((node) => node.textContent).join("").trim();
    if (!words || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && parseInt(style.fontWeight) >= 700;
    const found = contrast(style.color, ground(element));
    if (found < (large ? 3 : 4.5)) faint.set(`${style.color} on ${ground(element)}`, `${words.slice(0, 40)}: ${found}`);
  }
  for (const text of document.querySelectorAll("#roof text"))
    if (contrast(getComputedStyle(text).fill, ground(text.closest("#roof"))) < 4.5) faint.set("roof", text.textContent);

  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (elements) => elements.map((element) => element.outerHTML.slice(0, 120));
  const labels = (element) => [...element.labels ?? []].map((label) => label.textContent.trim()).join("");
  const levels = all("h1, h2, h3, h4").map((heading) => Number(heading.tagName[1]));
  return {
    faint: [...faint],
    nameless: shown(all("a[href], button, select, input, summary, [tabindex]").filter((element) =>
      !(element.ariaLabel || labels(element) || !element.matches("select, input") && element.textContent.trim()))),
    undescribed: shown(all("figure svg, figure .later, #roof svg").filter((svg) => (svg.ariaLabel ?? "").length < 20)),
    skips: levels.filter((level, at) => level > (levels[at - 1] ?? 0) + 1).length,
    titles: levels.filter((level) => level === 1).length,
    jumps: shown(all("[tabindex]").filter((element) => element.tabIndex > 0)),
    caged: shown(all(".scroll, pre").filter((box) => box.scrollWidth > box.clientWidth + 1 && box.checkVisibility() &&
      box.tabIndex < 0 && !box.querySelector("a, button, [tabindex='0']"))),
    headless: shown(all("main table th:not([scope])").filter((cell) => !cell.closest("#explorer"))),
    landmarks: [document.documentElement.lang, all("main").length, document.querySelector("nav").ariaLabel],
  };
}
