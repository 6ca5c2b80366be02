// Figures and long tables, unpacked when a reader comes near or when the browser has nothing else to do.
const canUnpack = "DecompressionStream" in window;

// Base85 of RFC 1924, with other signs for those that HTML reads as its own: five signs for four bytes.
const SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=:?@^_`{|}~";
const digitOf = new Uint8Array(128);
[...SIGNS].forEach((sign, digit) => { digitOf[sign.charCodeAt(0)] = digit; });

function bytesOf(text) {
  const words = Math.ceil(text.length / 5), view = new DataView(new ArrayBuffer(4 * words));
  for (let word = 0; word < words; word++) {
    let value = 0;
    // The last word may lack signs, and as many bytes: the greatest digit in their place does not change the others.
    for (let at = 5 * word; at < 5 * word + 5; at++)
      value = 85 * value + (at < text.length ? digitOf[text.charCodeAt(at)] : 84);
    view.setUint32(4 * word, value);
  }
  return new Uint8Array(view.buffer, 0, 4 * words - (5 * words - text.length));
}

async function unpack(element) {
  const bytes = bytesOf(element.textContent.trim());
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
