// Icons, and menus that open below a button.

import { h } from "./dom.js";
import * as icons from "./vendor/icons.js";

/** An icon by its name in the vendored set; it says nothing to a screen reader. */
export function icon(name) {
  const drawn = icons[name];
  const { ltr = drawn, shouldFlip = false } = typeof drawn === "string" ? {} : drawn;
  const parsed = new DOMParser().parseFromString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20" aria-hidden="true">${ltr}</svg>`, "image/svg+xml");
  parsed.documentElement.setAttribute("class", shouldFlip ? "icon flips" : "icon");
  return document.importNode(parsed.documentElement, true);
}

/** A button that opens a list of buttons and links below it; `named` has attributes of the button. */
export function menu(label, name, children, named = {}) {
  return h("details", { class: "menu" }, h("summary", { class: "button", ...named }, icon(name), label), h("div", { class: "choices" }, children));
}

/** Put icons on a page's own buttons, and close a menu when something else is pressed, chosen or reached. */
export function listenToMenus() {
  for (const button of document.querySelectorAll("[data-icon]")) button.prepend(icon(button.dataset.icon));
  const languages = document.getElementById("languages");
  if (languages && !matchMedia("(max-width: 50rem), (max-height: 30rem)").matches) document.getElementById("more").before(languages);
  const close = (except) => {
    for (const one of document.querySelectorAll(".menu[open]")) if (!one.contains(except)) one.open = false;
  };
  document.addEventListener("click", (event) => {
    close(event.target);
    if (event.target.closest(".choices > button:not(.copy), .choices > a")) close(null);
  });
  document.addEventListener("toggle", ({ target }) => { // to where it is seen whole
    if (target.matches("aside .menu[open]")) target.lastElementChild.scrollIntoView({ block: "nearest" });
    const bar = document.getElementById("ask")?.getBoundingClientRect().top ?? innerHeight;
    if (!target.matches(".foot .menu")) return;
    target.classList.remove("end");
    target.classList.toggle("up", target.open && target.getBoundingClientRect().bottom + target.lastElementChild.offsetHeight > bar);
    target.classList.toggle("end", target.open && target.lastElementChild.getBoundingClientRect().right > document.documentElement.clientWidth);
  }, true);
  document.addEventListener("focusin", (event) => close(event.target));
  document.addEventListener("keydown", (event) => {
    const open = event.key === "Escape" && event.target.closest?.(".menu[open]");
    if (!open) return;
    event.stopPropagation();
    open.querySelector("summary").focus();
    open.open = false;
  }, true);
}
