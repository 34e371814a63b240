// An answer's query: what its ids mean, an editor, and what it gives when it is run again.

import { absent } from "./absent.js";
import { keep, kept } from "./address.js";
import { call, freshName } from "./client.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { QueryEditor } from "./editor.js";
import { origin } from "./examples.js";
import { laidOut } from "./layout.js";
import { menu } from "./menu.js";
import { inWords, warning, withoutBrackets, withVariables } from "./readings.js";
import { ResultView } from "./result.js";
import { language, t } from "./text.js";

const SERVICE = "https://query.wikidata.org/";

/** What a query is called by its comment, as at the Wikidata Query Service; "" where it has none. */
export const titleOf = (query) => /^[ \t]*#[ \t]*title:[ \t]*(\S.*?)\s*$/im.exec(query)?.[1] ?? "";

/** That a column called as a label has none, where a query neither fills it nor has the service that does. */
function unnamed(columns, query) {
  const empty = (name) => /.Label$/.test(name) && query.split(new RegExp(`\\?${name}\\b`)).length === 2;
  return /wikibase:label|serviceParam/i.test(query) ? [] : columns.filter(empty).map((name) => t("query.unnamed", { name: `?${name}`, thing: `?${name.slice(0, -5)}` }));
}

/** A view of a query: of an answer, or one that is typed, with its result; those who read a shared run change nothing. */
export class QueryView {
  constructor(run, answer, offered, { title, of, from } = {}) {
    Object.assign(this, { run, answer, offered, title, of, from, first: laidOut(answer.query), base: offered.kbs.find((one) => one.key === run.kb) });
    const shared = Boolean(offered.share);
    this.typed = !answer.query;
    if (this.typed && this.base?.name === "Wikidata") answer.link ||= SERVICE;
    this.seconds = this.base?.seconds;
    this.inWords = h("div", { class: "query-words", dir: "auto" });
    this.before = h("p", { class: "soft", hidden: true }, t("query.before"));
    this.meaning = h("ul", { class: "meaning", dir: "auto" });
    this.address = h("a", { class: "out", target: "_blank", rel: "noopener noreferrer", hidden: true }, t("query.out"));
    this.problem = h("div", { class: "problem", role: "alert", hidden: true });
    this.original = h("button", { type: "button", class: "original", onclick: () => this.restore() }, t("query.original"));
    this.editor = new QueryEditor({ kb: run.kb, query: this.first, label: t("query.label"), readOnly: shared, change: () => this.changed(), run: () => this.ask() });
    this.button = h("button", { type: "button", class: this.typed ? "again primary" : "again", title: t("query.run_keys"), onclick: () => this.ask() }, t("query.run"));
    this.stop = h("button", { type: "button", class: "stop-query", hidden: true, onclick: () => call(this.path, "DELETE").catch(() => null) }, t("ask.stop"));
    this.told = h("span", { class: "soft", role: "status" });
    this.shown = h("div", { onthings: ({ detail }) => this.label(detail) });
    this.asks = this.typed ? h("details", { class: "asks" }, h("summary", {}, t("query.asks")), this.before, this.inWords, this.meaning) : h("div", {}, this.before, this.inWords, this.meaning);
    this.live = h("p", { class: "soft", hidden: true }, t("query.live"));
    const link = () => `${location.origin}/#${new URLSearchParams({ query: this.editor.value, ...(offered.kbs.length > 1 && { kb: run.kb }), ...(kept("view") && { view: kept("view") }) })}`;
    this.link = this.typed && copyButton(t("copy.link"), link);
    this.copy = copyButton(t("copy.query"), () => this.editor.value);
    this.code = menu(t("query.code"), "code", [], { onclick: () => this.offerCode() });
    const actions = h("div", { class: "tools" }, !shared && [this.button, this.stop, this.original], this.copy, !title && this.link, this.code, this.address, this.told);
    this.details = h("details", { class: "sparql", ontoggle: () => this.details.open && this.opened() }, h("summary", {}, t("query.show")),
      this.typed ? [this.editor.element, actions, this.problem, !title && this.shown, this.asks] : [this.asks, this.editor.element, actions, this.problem, this.shown], this.live);
    this.details.open = this.typed && !title;
    this.element = title ? h("div", { class: "titled" }, this.shown, this.details) : this.details;
    this.explain(answer);
    this.changed();
  }

  /** What a query asks, in words, and what its ids mean, which the server has put in front of it as comments. */
  explain({ query_labelled: labelled, query, query_words: words }) {
    const line = (one) => [...withVariables(one.text), one.inner.length > 0 && h("ul", {}, one.inner.map((inner) => h("li", {}, line(inner))))];
    this.inWords.replaceChildren(
      ...(words?.lines ?? []).map((one) => h("div", {}, line(one))),
      ...(words?.remarks ?? []).map((remark) => h("p", { class: "remark" }, remark)));
    const above = labelled.endsWith(query) ? labelled.slice(0, labelled.length - query.length) : "";
    this.empty = !words && !above;
    this.explained = laidOut(query);
    this.asks.hidden = this.empty;
    this.meaning.replaceChildren(...above.split("\n").filter(Boolean).map((line) => h("li", {}, line.replace(/^# /, ""))));
  }

  opened() {
    this.editor.open();
    if (!this.typed) this.details.scrollIntoView();
  }

  /** The link opens what stands in the editor. */
  changed() {
    const query = this.editor.value;
    const page = (this.answer.link || "").split("#")[0];
    this.problem.hidden = true;
    this.asks.hidden = this.empty;
    this.before.hidden = query === this.explained; // or it would tell of another query
    this.original.hidden = this.typed || query === this.first;
    for (const button of [this.copy, this.link]) if (button) button.hidden = !query.trim();
    this.address.hidden = !page || !query.trim();
    this.code.hidden = !page.startsWith(SERVICE);
    this.live.hidden = this.address.hidden || !this.base?.entities;
    if (page) this.address.href = `${page}#${encodeURIComponent(this.named?.(query) ?? query)}`;
  }

  /** Of some columns with things Wikidata's query service shall show the names too. */
  async label(things) {
    if (!this.answer.link?.startsWith(SERVICE)) return;
    const { withNames } = await import("./service.js");
    this.named = (query) => withNames(query, things);
    this.changed();
  }

  /** The query as programs ask it, to copy. */
  async offerCode() {
    const { CODE } = await import("./code.js");
    const copies = Object.entries(CODE).map(([name, code]) => copyButton(t("copy.code", { name }), () => code(`${SERVICE}sparql`, this.editor.value)));
    this.code.lastElementChild.replaceChildren(...copies);
  }

  restore() {
    this.editor.value = this.first;
    this.explain(this.answer);
  }

  /** Put something where the result will be. */
  offer(...what) {
    this.shown.replaceChildren(...what);
  }

  /** What a query found; the page's address and the list of sessions keep it. */
  show(query, found) {
    const { result } = found;
    this.ran = query;
    keep("query", query);
    if (this.offered.kbs.length > 1) keep("kb", this.run.kb);
    document.dispatchEvent(new CustomEvent("ran", { detail: { query, kb: this.run.kb, title: this.title, of: this.of, from: this.from, name: this.name ?? (titleOf(query) || undefined), words: withoutBrackets(inWords(found.query_words)) } }));
    this.name = undefined;
    this.explain(found);
    this.answer.link = found.link || this.answer.link;
    const heading = this.element.closest(".typed")?.querySelector(".question");
    if (heading?.isConnected && !this.title) document.title = heading.textContent = titleOf(query) || t("query.label");
    this.changed();
    const shown = new ResultView(result, `/api/results/${encodeURIComponent(result.id)}`, t("query.label"), { query: this.editor.value, labelled: found.query_labelled, ranked: this.base?.name === "Wikidata", key: "view" });
    const hints = unnamed(result.columns, query).map((hint) => h("p", {}, hint));
    this.shown.replaceChildren(absent(result.absence, { written: true, words: result.rows ? "" : inWords(found.query_words) }), hints.length ? warning(hints) : "", found.doubts?.length ? h("p", { class: "part" }, t("copy.part", { kb: "Wikidata" })) : "", shown.element, h("div", { class: "foot" }, shown.files, this.title && this.link), origin(this.base) || "");
  }

  fail(error) {
    const [why, ...place] = error.message.split("\n");
    const service = this.answer.link?.startsWith(SERVICE) && /\bSERVICE\b/.test(why);
    this.problem.replaceChildren(language !== "en" && error.line ? `${t("query.english")} ` : "", h("span", { lang: "en" }, why), place.length ? h("pre", { tabindex: 0 }, place.join("\n")) : "",
      service ? h("p", {}, t("query.elsewhere"), " ", h("a", { href: this.address.href, target: "_blank", rel: "noopener noreferrer" }, t("query.out"))) : "");
    this.problem.hidden = false;
    this.details.open = true;
    if (error.line) this.editor.mark(error.line, error.column);
  }

  /** Run it: what was changed of an answer's query, or of one with a title, is a result of its own, on a page of its own. */
  async ask() {
    if (this.button.disabled || this.offered.share) return;
    this.button.disabled = true;
    this.stop.hidden = false;
    this.changed();
    const name = freshName();
    this.path = `/api/queries/${name}`;
    const ticking = this.clock();
    const began = Date.now();
    let took = "";
    const query = this.editor.value;
    try {
      const found = await call("/api/queries", "POST", { kb: this.run.kb, query, language: this.answer.language || "en", name });
      took = t("run.seconds", { n: Math.max(0.1, Number(((Date.now() - began) / 1000).toFixed(1))) });
      if (this.typed && (!this.title || [undefined, query].includes(this.ran))) {
        this.show(query, found);
      } else {
        document.dispatchEvent(new CustomEvent("query", { detail: { query, kb: this.run.kb, found, of: this.run.question || this.title, from: location.pathname + location.hash } }));
      }
    } catch (error) {
      if (this.typed) this.shown.replaceChildren();
      this.fail(error);
    }
    clearInterval(ticking);
    this.stop.hidden = true;
    this.told.textContent = took;
    this.button.disabled = false;
  }

  /** Seconds since a query was sent, and how many it may take; or how many are before it. */
  clock() {
    const began = Date.now();
    const tell = (before) => {
      const n = Math.round((Date.now() - began) / 1000);
      this.told.textContent = before ? t("run.before", { n: before }) : t("query.clock", { n, most: this.seconds });
    };
    tell(0);
    return setInterval(async () => {
      const line = await call(this.path).catch(() => null);
      if (this.button.disabled) tell(line?.before);
    }, 1000);
  }
}
