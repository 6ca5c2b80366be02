// Figures and long tables, unpacked when a reader comes near or when the browser has nothing else to do.
const canUnpack = "DecompressionStream" in window;

async function unpack(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// What to do with what has arrived in the page; called once for each part, those that were there from the start included.
const arrivals = [];
const arrived = (part) => { for (const take of arrivals) take(part); };

async function arrive(place) {
  if (place.classList.replace("later", "arrives")) {
    const content = document.createRange().createContextualFragment(await unpack(place.firstChild));
    const parts = [...content.children];
    place.replaceWith(content);
    parts.forEach(arrived);
  }
}

if (canUnpack) {
  const near = new IntersectionObserver((entries) => {
    for (const {isIntersecting, target} of entries) if (isIntersecting) arrive(target);
  }, {rootMargin: "1000px"});
  for (const place of document.querySelectorAll(".later")) near.observe(place);
  const idle = window.requestIdleCallback ?? ((call) => setTimeout(call, 50));
  // One after the other, so that the page stays responsive; afterwards all of it can be searched and printed.
  const next = async () => {
    const place = document.querySelector(".later");
    if (place) { await arrive(place); idle(next); }
  };
  addEventListener("load", () => idle(next));
} else {
  for (const place of document.querySelectorAll(".later"))
    place.textContent = "This browser cannot unpack what stands here: it lacks DecompressionStream.";
}
