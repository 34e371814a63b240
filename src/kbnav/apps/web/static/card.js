// A card that says what an entity is, where a pointer rests on its name or the keyboard is at it; loaded with the first result.

import { call } from "./client.js";
import { h, link } from "./dom.js";
import { language } from "./text.js";

const REST = 350; // milliseconds
const known = new Map();
let card = null;
let at = null;
let timer = 0;

/** Show cards of the entities named in a place, each a link with `data-entity` in something with `data-kb`. */
function showCards(place) {
  const begin = (event) => {
    const name = event.target.closest?.("[data-entity]");
    if (!name || name === at) return;
    leave();
    at = name;
    timer = setTimeout(() => open(name), REST);
  };
  const end = (event) => {
    if (!at || event.relatedTarget?.closest?.(".card") || event.relatedTarget?.closest?.("[data-entity]") === at) return;
    leave();
  };
  let last = "";
  place.addEventListener("pointermove", (event) => { // not where the page moves below a pointer that rests
    const here = `${event.screenX} ${event.screenY}`;
    if (event.pointerType !== "touch" && here !== last) begin(event);
    last = here;
  });
  place.addEventListener("focusin", begin);
  place.addEventListener("pointerout", end);
  place.addEventListener("focusout", end);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") leave(); });
}

function leave() {
  clearTimeout(timer);
  card?.remove();
  at?.removeAttribute("aria-describedby");
  card = at = null;
}

async function open(name) {
  const kb = name.closest("[data-kb]")?.dataset.kb;
  const path = `/api/entities/${encodeURIComponent(kb)}/${encodeURIComponent(name.dataset.entity)}?language=${language}`;
  if (!known.has(path)) known.set(path, call(path).catch(() => null));
  const found = await known.get(path);
  if (!found) known.delete(path);
  if (!found || at !== name || !name.isConnected) return;
  card = h("div", { class: "card", role: "tooltip", id: "card", onpointerleave: leave },
    h("p", {}, h("strong", { dir: "auto" }, link(found.label, found.href)), h("small", {}, ` ${found.id}`)),
    found.about && h("p", { dir: "auto" }, found.about),
    found.aliases.length > 0 && h("p", { class: "soft", dir: "auto" }, found.aliases.join(" · ")),
    found.text && h("p", { dir: "auto" }, found.text),
    h("dl", {}, found.facts.flatMap(([property, value]) => [h("dt", { dir: "auto" }, property), h("dd", { dir: "auto" }, value)])));
  name.setAttribute("aria-describedby", "card");
  document.body.append(card);
  const box = name.getBoundingClientRect();
  const below = box.bottom + card.offsetHeight + 8 < innerHeight || box.top < card.offsetHeight;
  card.style.left = `${scrollX + Math.max(8, Math.min(box.left, document.documentElement.clientWidth - card.offsetWidth - 8))}px`;
  card.style.top = `${scrollY + (below ? box.bottom + 4 : box.top - card.offsetHeight - 4)}px`;
}

showCards(document.getElementById("runs"));
