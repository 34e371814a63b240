// Examples by kind: of Wikidata those that are known, in the reader's language; of other knowledge bases those that the server makes.

import { call } from "./client.js";
import { h } from "./dom.js";
import { language, t } from "./text.js";

const MOST = 8; // that are shown at first
const KINDS = {
  look: t("kind.look"), list: t("kind.list"), count: t("kind.count"), compare: t("kind.compare"),
  map: t("view.map"), timeline: t("view.timeline"), chart: t("view.chart"), graph: t("view.graph"), table: t("view.table"),
};

/** Of a knowledge base its examples, each with `text` and `question` or `query`, and with a `kind` where it is known. */
export async function examplesOf(base) {
  if (base.name === "Wikidata" && (base.key === "mini" || !base.entities)) {
    const { questions, queries, columns } = await fetch("/static/examples.json").then((response) => response.json());
    return [...questions[language].map(([kind, question]) => ({ kind, question, text: question })),
      ...queries.map(({ kind, title, query }) => ({ kind, query: query.replace(/\?(\w+)/g, (all, name) => `?${columns[name]?.[language] ?? name}`), text: title[language] }))];
  }
  const questions = await call(`/api/examples/${encodeURIComponent(base.key)}`).catch(() => []);
  return questions.map((question) => ({ question, text: question }));
}

/** A query whatever its variables are called, which they are in the reader's language. */
export const shapeOf = (query) => query?.replace(/\?[\p{L}\p{N}_]+/gu, "?");

/** Where something is from, as far as it is known: `by` whom and at what cost, of how large a copy and from when, and that this is a part. */
export function origin(base, by = []) {
  const date = base?.taken && new Date(base.taken).toLocaleDateString(language, { dateStyle: "long", timeZone: "UTC" });
  const copy = base?.entities > 0 && [t("copy.of", { n: base.entities }), date].filter(Boolean).join(", ");
  const told = [...by, copy && h("span", {}, copy),
    copy && h("strong", { class: "part" }, t("origin.part", { kb: base.name }))].filter(Boolean);
  return told.length > 0 && h("p", { class: "soft origin" }, told.flatMap((one, place) => (place ? [" · ", one] : [one])));
}

/** The first of each kind, `most` of them, as items of a list. */
export function shownExamples(found, chosen, most = MOST) {
  const first = found.filter(({ kind }, place) => !kind || found.findIndex((one) => one.kind === kind) === place).slice(0, most);
  return first.map((one) => h("li", {}, h("button", { type: "button", class: "example", onclick: () => chosen(one) }, one.kind && h("small", {}, KINDS[one.kind]), h("span", { dir: "auto" }, one.text))));
}

const WORD = 5; // letters by which words are compared

/** The examples, those with the most words of a question first; a word of many examples counts less. */
export function akin(found, question) {
  const words = (text) => new Set((text.toLocaleLowerCase(language).match(/[\p{L}\p{N}]{3,}/gu) ?? []).map((word) => word.slice(0, WORD)));
  const [asked, own] = [words(question), found.map((one) => words(one.text))];
  const worth = (some) => [...some].filter((word) => asked.has(word)).reduce((sum, word) => sum + 1 / own.filter((other) => other.has(word)).length, 0);
  return found.map((one, place) => [worth(own[place]), one]).sort(([one], [other]) => other - one).map(([, one]) => one);
}

/** The browser of all examples, which a button opens; they are searched by their words. */
export function listenToExamples(base, chosen) {
  const dialog = document.getElementById("examples");
  const [find, list] = [dialog.querySelector("input"), dialog.querySelector(".list")];
  let found = [];
  const show = () => {
    const words = find.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const fits = (one) => words.every((word) => `${KINDS[one.kind] ?? ""} ${one.text} ${one.query ?? ""}`.toLocaleLowerCase().includes(word));
    const some = found.filter(fits);
    const item = (one) => h("li", {}, h("button", { type: "button", dir: "auto", onclick: () => { dialog.close(); chosen(one); } }, one.text));
    list.replaceChildren(...[...new Set(some.map((one) => one.kind))].flatMap((kind) => [kind && h("h3", {}, KINDS[kind]), h("ul", {}, some.filter((one) => one.kind === kind).map(item))].filter(Boolean)),
      ...(some.length ? [] : [h("p", { class: "soft" }, t("examples.none"))]));
  };
  find.addEventListener("input", show);
  document.getElementById("examples-open").addEventListener("click", async () => {
    dialog.showModal();
    find.value = "";
    find.focus();
    found = await examplesOf(base());
    show();
  });
}
