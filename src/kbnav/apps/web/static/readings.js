// How a question was read by rules where no model reads it, and what speaks against an answer.

import { h } from "./dom.js";
import { icon } from "./menu.js";
import { t } from "./text.js";

/** What rules made of the question, and what can be asked instead; `ask` is absent where nothing can. */
export function understood(read, ask) {
  if (!read || !(read.text || read.instead.length)) return "";
  return h("div", { class: "read" },
    read.text && h("p", { class: "soft", dir: "auto" }, t("read.as", { text: read.text })),
    read.instead.length > 0 && ask && h("p", {}, t("read.instead"), " ", read.instead.map((question) => choice(question, "", () => ask(question)))));
}

function ofAll(about) {
  const [n, all] = about.split(" / ");
  return { n, all };
}

const DOUBTS = {
  truth: () => t("doubt.truth"),
  count: () => t("doubt.count"),
  zero: () => t("doubt.zero"),
  choice: (about) => t("doubt.choice", { about }),
  one: (about) => t("doubt.one", { about }),
  order: (about) => t("doubt.order", { about }),
  exception: (about) => t("doubt.exception", { about }),
  limit: (about) => t("doubt.limit", { about }),
  units: (about) => t("doubt.units", { about }),
  several: (about) => t("doubt.several", { about }),
  compared: (about) => t("doubt.compared", ofAll(about)),
  class: (about) => t("doubt.class", ofAll(about)),
  copy: () => t("doubt.copy"),
};

/** What speaks against an answer, or with `note` what of a question without one was not understood and is not in the note, in one box: what of the question was not used, and one line for each other kind; one that is newer than this page is told as it came. A whole date says its year. */
export function doubts(found, read, note = undefined) {
  const unused = [...(read?.unused ?? []), ...found.flatMap(({ kind, about }) => (kind === "number" ? about.split(", ") : []))];
  const words = [...new Set(unused)].filter((word) => !note?.includes(word)).map((word) => t("read.word", { word })).join(" ");
  const lines = [words && h("p", { class: "unused", dir: "auto" }, t(note === undefined ? "read.unused" : "read.unread", { words })),
    ...found.flatMap(({ kind, about, text }) => (["number", "year"].includes(kind) ? [] : [h("p", { dir: "auto" }, DOUBTS[kind]?.(about) ?? text)]))].filter(Boolean);
  return lines.length ? [h("div", { class: "message doubt", role: "note" }, icon("alert"), h("div", {}, lines))] : [];
}

function choice(text, about, chosen) {
  return h("button", { type: "button", class: "choice", dir: "auto", onclick: chosen }, text, about && h("span", { class: "soft" }, ` ${about}`));
}
