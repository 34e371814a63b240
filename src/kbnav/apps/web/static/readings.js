// How a question was read by rules where no model reads it, and what speaks against an answer.

import { columnName } from "./cells.js";
import { h } from "./dom.js";
import { icon } from "./menu.js";
import { has, t } from "./text.js";

const RIGHT_TO_LEFT = /[\u0590-\u08ff]/; // letters whose quotes would turn round among others
const SHORT = 200; // letters of a query in words on one line
const VARIABLE = /\[([\p{L}\p{N}_]+)\]/u; // of a query in words

/** What a query asks, as the server says it in words, on one line: its first conditions, up to one that only heads others, of that one the first, or how a list of its own is sorted; and all that deny something. */
export function inWords(words) {
  const all = (words?.lines ?? []).flatMap((one) => (one.inner.length ? one.inner : [one]));
  const heads = (one) => one.inner.length > 0 && /[:：]$/.test(one.text);
  const flat = (one) => [one.text, one.inner.map(flat).join("; ")].filter(Boolean).join(heads(one) ? " " : "; ");
  const denied = all.filter((one) => one.denies).map(flat);
  const lines = all.filter((one) => !one.denies);
  const plain = lines.findIndex(heads);
  const first = (one) => (one.inner.length ? first(one.inner[0]) : one.text);
  const told = plain === 0 ? [`${lines[0].text} ${first(lines[0])}`] : lines.slice(0, plain < 0 ? undefined : plain).map((one) => flat(one).replace(/\s*[:：]\s*\[answer\]$/, ""));
  const sorted = plain > 0 ? lines[plain].inner.slice(1).filter((one) => !one.inner.length).map((one) => one.text.replace(/[.。]$/, "")) : [];
  const parts = [...told, ...sorted];
  let most = parts.length; // cut between conditions
  while (most > 1 && [...parts.slice(0, most), ...denied].join("; ").length > SHORT) most -= 1;
  const more = most > 0 && (most < parts.length || (plain >= 0 && !sorted.length));
  return [...parts.slice(0, most), more && "…", ...denied].filter(Boolean).join("; ");
}

/** Words in which a query's variables stand in brackets, as text and elements. */
export function withVariables(text) {
  return text.split(VARIABLE).map((part, place) => (place % 2 ? h("var", {}, columnName(part)) : part));
}

/** The same as text alone. */
export function withoutBrackets(text) {
  return text.split(VARIABLE).join("");
}

/** What rules made of the question, or else `words`, and what can be asked instead; `ask` is absent where nothing can. */
export function understood(read, ask, words = "") {
  const text = read?.text || words;
  if (!text && !read?.instead.length) return "";
  return h("div", { class: "read" },
    text && h("p", { class: "soft", dir: "auto" }, withVariables(t("read.as", { text }))),
    read?.instead.length > 0 && ask && h("p", { class: "tools" }, t("read.instead"), read.instead.map((question) => choice(question, "", () => ask(question)))));
}

/** A doubt in the reader's language, where that has words for its kind; some name how many of how many, and what these have. */
function worded({ kind, about, text }) {
  const [n, all, ...what] = about.split(" / ");
  const told = kind === "compared" && !what.length ? "lacking" : kind;
  return has(`doubt.${told}`) ? t(`doubt.${told}`, { about, n, all, what: what.join(" / ") }) : text;
}

/** What speaks against an answer, in one box: words that were not used, and a line for each other kind; where there is no answer, what its `note` does not name. */
export function doubts(found, read, note = undefined) {
  const unused = [...(read?.unused ?? []), ...found.flatMap(({ kind, about }) => (kind === "number" ? about.split(", ") : []))];
  const words = [...new Set(unused)].filter((word) => !note?.includes(word)).map((word) => t("read.word", { word })).map((word) => (RIGHT_TO_LEFT.test(word) ? `\u2068${word}\u2069` : word)).join(" ");
  const lines = [words && h("p", { class: "unused", dir: "auto" }, t(note === undefined ? "read.unused" : "read.unread", { words })),
    ...found.filter(({ kind }) => !["number", "year", "copy"].includes(kind)).map((one) => h("p", { dir: "auto" }, worded(one)))].filter(Boolean);
  return lines.length ? warning(lines) : "";
}

/** Lines of what needs care, in one box. */
export function warning(lines) {
  return h("div", { class: "message doubt", role: "note" }, icon("alert"), h("div", {}, lines));
}

function choice(text, about, chosen) {
  return h("button", { type: "button", class: "choice", dir: "auto", onclick: chosen }, text, about && h("span", { class: "soft" }, ` ${about}`));
}
