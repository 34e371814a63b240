// What the query editor brings once it is shown: marks, colours, completions, and what an id is called.

import { call } from "./client.js";
import { h } from "./dom.js";
import { language, t } from "./text.js";

const PROPERTIES = /^(wdtn?|p|ps[vn]?|pq[vn]?|pr[vn]?)$/;
const ENTITIES = /^(wd|node)$/;
const WORDS = ("ASK BIND COUNT DISTINCT FILTER GROUP_CONCAT HAVING LIMIT MINUS OFFSET OPTIONAL REGEX SELECT SERVICE UNION VALUES WHERE " +
  "CONTAINS EXISTS LANG STRSTARTS YEAR").split(" ");
const named = new Map(); // of each knowledge base, labels that were looked up
const prefixes = new Map();

/** A mark under what is wrong, which goes with the next change. */
export function marks({ StateEffect, StateField, Decoration, EditorView }) {
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

/** The colours of a query's words. */
export function colours({ HighlightStyle, tags }) {
  const coloured = (tag, name) => ({ tag, color: `var(--code-${name})` });
  return HighlightStyle.define([coloured(tags.keyword, "word"), coloured(tags.standard(tags.name), "word"), coloured(tags.atom, "name"),
    coloured(tags.string, "text"), coloured(tags.comment, "comment"), coloured(tags.local(tags.variableName), "variable"), coloured(tags.meta, "text")]);
}

/** How the editor and what opens in it look. */
export function theme({ EditorView }) {
  const panel = { backgroundColor: "var(--ground)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px" };
  return EditorView.theme({
    "&": { backgroundColor: "var(--ground)", color: "var(--ink)", border: "1px solid var(--edge)", borderRadius: "6px", fontSize: ".85rem", minHeight: "inherit", maxHeight: "var(--most, min(28rem, 45vh))" },
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
export async function complete(kb, context) {
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
export async function explain(kb, view, place) {
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
