// The query editor: CodeMirror in a shadow root, where the policy lets it bring its styles as style sheets of its own.

import { call } from "./client.js";
import { h } from "./dom.js";
import { language, t } from "./text.js";

const PROPERTIES = /^(wdtn?|p|ps[vn]?|pq[vn]?|pr[vn]?)$/;
const ENTITIES = /^(wd|node)$/;
const WORDS = ("ASK BIND COUNT DISTINCT FILTER GROUP_CONCAT HAVING LIMIT MINUS OFFSET OPTIONAL REGEX SELECT SERVICE UNION VALUES WHERE " +
  "CONTAINS EXISTS LANG STRSTARTS YEAR").split(" ");
const named = new Map(); // of each knowledge base, labels that were looked up
const prefixes = new Map();

/** An editor of one query; `open` brings its parts once it is shown. */
export class QueryEditor {
  /** `change` is told of every change, `run` of Ctrl+Enter. */
  constructor({ kb, query, label, readOnly, change, run }) {
    Object.assign(this, { kb, label, readOnly, change, run });
    this.plain = h("textarea", { class: "query", rows: Math.min(16, query.split("\n").length + 1), spellcheck: "false", "aria-label": label, dir: "ltr", readonly: readOnly });
    this.plain.value = query;
    this.plain.addEventListener("input", change);
    this.element = h("div", { class: "editor", dir: "ltr", }, this.plain);
    // Keys of the page, such as the slash, are letters here; Escape closes a list of completions and stops no run.
    this.element.addEventListener("keydown", (event) => event.stopPropagation());
  }

  get value() {
    return this.view ? this.view.state.doc.toString() : this.plain.value;
  }

  set value(query) {
    if (this.view) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: query } });
    else this.plain.value = query;
  }

  /** Bring its parts; without them, a plain field is left. */
  open() {
    if (this.ready) return this.ready;
    this.element.setAttribute("aria-busy", "true");
    this.ready = this.load().catch(() => (this.plain.hidden = false)).finally(() => this.element.setAttribute("aria-busy", "false"));
    return this.ready;
  }

  async load() {
    const parts = await import("./vendor/codemirror.js");
    const { EditorView, EditorState } = parts;
    const root = this.element.attachShadow({ mode: "open" });
    this.marks = marks(parts);
    const keys = [{ key: "Mod-Enter", run: () => (this.run(), true) }, ...parts.closeBracketsKeymap, ...parts.completionKeymap, ...parts.historyKeymap, ...parts.defaultKeymap];
    const state = EditorState.create({ doc: this.plain.value, extensions: [
      parts.history(), parts.bracketMatching(), parts.closeBrackets(), parts.keymap.of(keys),
      parts.StreamLanguage.define(parts.sparql), parts.syntaxHighlighting(colours(parts)), theme(parts), this.marks.field,
      parts.autocompletion({ override: [(context) => complete(this.kb, context)], icons: false }),
      parts.hoverTooltip((view, place) => explain(this.kb, view, place), { hoverTime: 200 }),
      EditorView.lineWrapping, EditorView.contentAttributes.of({ "aria-label": this.label, "aria-readonly": String(this.readOnly) }),
      EditorState.readOnly.of(this.readOnly), EditorView.updateListener.of((update) => update.docChanged && this.change()),
    ] });
    this.view = new EditorView({ state, root, parent: root });
  }

  focus() {
    (this.view ?? this.plain).focus();
  }

  /** Show where the query goes wrong: the place is marked, and the cursor goes there. */
  mark(line, column) {
    if (!this.view) return;
    const doc = this.view.state.doc;
    const at = doc.line(Math.min(line, doc.lines));
    const from = Math.min(at.to, at.from + column - 1);
    this.view.dispatch({ selection: { anchor: from }, scrollIntoView: true, effects: this.marks.set.of(from < at.to ? [from, from + 1] : [Math.max(at.from, from - 1), from]) });
    this.view.focus();
  }
}

/** A mark under what is wrong, which goes with the next change. */
function marks({ StateEffect, StateField, Decoration, EditorView }) {
  const set = StateEffect.define();
  const look = Decoration.mark({ class: "wrong" });
  const field = StateField.define({
    create: () => Decoration.none,
    update(old, change) {
      for (const effect of change.effects) if (effect.is(set)) return effect.value[0] < effect.value[1] ? Decoration.set([look.range(...effect.value)]) : Decoration.none;
      return change.docChanged ? Decoration.none : old;
    },
    provide: (own) => EditorView.decorations.from(own),
  });
  return { set, field };
}

function colours({ HighlightStyle, tags }) {
  const coloured = (tag, name) => ({ tag, color: `var(--code-${name})` });
  return HighlightStyle.define([coloured(tags.keyword, "word"), coloured(tags.standard(tags.name), "word"), coloured(tags.atom, "name"),
    coloured(tags.string, "text"), coloured(tags.comment, "comment"), coloured(tags.local(tags.variableName), "variable"), coloured(tags.meta, "text")]);
}

function theme({ EditorView }) {
  const panel = { backgroundColor: "var(--ground)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px" };
  return EditorView.theme({
    "&": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px", fontSize: ".85rem", minHeight: "inherit", maxHeight: "min(28rem, 45vh)" },
    "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
    ".cm-scroller": { fontFamily: "ui-monospace, monospace", lineHeight: "1.45", overflow: "auto" },
    ".cm-content": { caretColor: "var(--ink)", padding: ".5rem .3rem" },
    ".cm-tooltip": panel,
    ".cm-tooltip.label": { padding: ".3rem .6rem", fontFamily: "system-ui, sans-serif" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "system-ui, sans-serif", maxHeight: "16rem" },
    ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent) !important", color: "var(--on-accent) !important" },
    ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
    ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal" },
    ".cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--soft)" },
    ".wrong": { textDecoration: "underline wavy var(--bad)", backgroundColor: "var(--bad-ground)" },
  });
}

/** Completions: prefixes and words of SPARQL, and behind the prefix of an entity or property, ids by their labels. */
async function complete(kb, context) {
  if (context.matchBefore(/(?:^|\s)#.*/)) return null; // in a comment
  const name = context.matchBefore(/[A-Za-z][\w-]*:[\p{L}\p{N}_'’-]*(?: [\p{L}\p{N}_'’-]+)*/u);
  const [prefix, text] = name ? name.text.split(/:(.*)/s) : [];
  if (name && !/^[QPL]\d+/.test(text)) {
    const kind = PROPERTIES.test(prefix) || prefix === "rel" ? "property" : ENTITIES.test(prefix) ? "item" : "any";
    return text.trim() ? { from: name.from, filter: false, options: await searched(kb, prefix, text, kind) } : null;
  }
  const word = context.matchBefore(/[A-Za-z][\w-]*/);
  if (name || (!word && !context.explicit)) return null;
  const known = Object.entries(await prefixesOf(kb)).map(([one, iri]) => ({ label: `${one}:`, detail: iri }));
  return { from: word ? word.from : context.pos, options: [...known, ...WORDS.map((label) => ({ label }))], validFor: /^[\w-]*$/ };
}

async function searched(kb, prefix, text, kind) {
  const query = new URLSearchParams({ text: text.replaceAll("_", " "), kind, language });
  const found = await call(`/api/kbs/${encodeURIComponent(kb)}/names?${query}`).catch(() => []);
  return found.map((one) => {
    remember(kb, one.id, one.label);
    return { label: one.written || `${prefix}:${one.id}`, displayLabel: `${one.label || one.id} (${one.id})`, detail: one.description };
  });
}

async function prefixesOf(kb) {
  if (!prefixes.has(kb)) prefixes.set(kb, await call(`/api/kbs/${encodeURIComponent(kb)}/prefixes`).catch(() => ({})));
  return prefixes.get(kb);
}

function remember(kb, id, label) {
  if (!named.has(kb)) named.set(kb, new Map());
  named.get(kb).set(id, label);
}

/** The label of the id under the pointer. */
async function explain(kb, view, place) {
  const line = view.state.doc.lineAt(place);
  for (const found of line.text.matchAll(/[A-Za-z][\w-]*:[\w%.-]*[\w%]|<[^<>\s]+>/g)) {
    const [from, end] = [line.from + found.index, line.from + found.index + found[0].length];
    if (place < from || place > end) continue;
    const local = found[0].replace(/^(wd|wdtn?|p|p[sqr][vn]?|node|rel):/, "");
    const id = local === found[0] ? found[0] : decodeURIComponent(local);
    const label = await labelOf(kb, id);
    return label ? { pos: from, end, above: true, create: () => ({ dom: h("div", { class: "label", dir: "auto" }, t("query.hover", { label, id })) }) } : null;
  }
  return null;
}

async function labelOf(kb, id) {
  if (!named.get(kb)?.has(id)) {
    const query = new URLSearchParams({ id, language });
    const found = await call(`/api/kbs/${encodeURIComponent(kb)}/labels?${query}`).catch(() => ({}));
    remember(kb, id, found[id] || "");
  }
  return named.get(kb).get(id);
}
