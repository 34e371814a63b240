// How a question was read: by rules where no model reads it, and which of several things a name stands for.

import { h, link } from "./dom.js";
import { t } from "./text.js";

/** What rules made of the question, what of it they did not use, and what can be asked instead; `ask` is absent where nothing can. */
export function understood(read, ask) {
  if (!read || !(read.text || read.unused.length || read.instead.length)) return "";
  const quoted = (words) => words.map((word) => t("read.word", { word })).join(" ");
  return h("div", { class: "read" },
    read.text && h("p", { class: "soft", dir: "auto" }, t("read.as", { text: read.text })),
    read.unused.length > 0 && h("p", { class: "unused", dir: "auto" }, t("read.unused", { words: quoted(read.unused) })),
    read.instead.length > 0 && ask && h("p", {}, t("read.instead"), " ", read.instead.map((question) => choice(question, "", () => ask(question)))));
}

const DOUBTS = {
  truth: () => t("doubt.truth"),
  count: () => t("doubt.count"),
  zero: () => t("doubt.zero"),
  year: () => t("doubt.year"),
  choice: (about) => t("doubt.choice", { about }),
  one: (about) => t("doubt.one", { about }),
  order: (about) => t("doubt.order", { about }),
  number: (about) => t("doubt.number", { about }),
  exception: (about) => t("doubt.exception", { about }),
  limit: (about) => t("doubt.limit", { about }),
  units: (about) => t("doubt.units", { about }),
};

/** What speaks against an answer, one line each; a kind that is newer than this page is told as it came. */
export function doubts(found) {
  return found.map(({ kind, about, text }) => h("p", { class: "note doubt", dir: "auto" }, DOUBTS[kind]?.(about) ?? text));
}

/** For each name that several things have: the one that was taken, and the others to ask about in its place. */
export function readings(found, question, ask) {
  return found.map(({ name, taken, others }) => h("div", { class: "meant" },
    h("p", { dir: "auto" }, t("meant.taken", { name }), " ", named(taken), taken.about && h("span", { class: "soft" }, ` ${taken.about}`)),
    ask && h("details", {}, h("summary", {}, t("meant.others", { n: others.length })),
      h("ul", {}, others.map((one) => h("li", {}, choice(one.label, one.about || one.id, () => ask(meaning(question, name, one.id)))))))));
}

/** An entity with its page, of which a card is shown. */
function named(one) {
  return link(one.label, one.href, { "data-entity": one.id });
}

function choice(text, about, chosen) {
  return h("button", { type: "button", class: "choice", dir: "auto", onclick: chosen }, text, about && h("span", { class: "soft" }, ` ${about}`));
}

/** A question that says what a name in it stands for, in place of what it said before. */
function meaning(question, name, id) {
  const remark = (one) => ` (${one}: `;
  const at = question.indexOf(remark(name));
  const end = question.indexOf(")", at);
  const bare = at < 0 ? question : question.slice(0, at) + question.slice(end + 1);
  return `${bare}${remark(name)}${id})`;
}
