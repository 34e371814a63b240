// Elements are only ever made of text nodes and attributes, so nothing that a model or a knowledge base says is markup.

/** An element with attributes, listeners (`onclick`) and children; false, null and undefined are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A link that leads out of the page, or the text alone where the address is no web page. */
export function link(text, href, attributes = {}) {
  const own = typeof href === "string" && /^\/(?!\/)/.test(href);
  if (!own && !/^https?:\/\//i.test(href || "")) return h("span", { dir: "auto", ...attributes }, text);
  return h("a", { href, dir: "auto", target: "_blank", rel: "noopener noreferrer", ...attributes }, text);
}

const LONG = 200; // letters of a heading that may scroll

/** What is asked, as a heading; a long one scrolls. */
export function heading(text) {
  return h("h2", { class: "question", dir: "auto", tabindex: text.length > LONG && 0 }, text);
}
