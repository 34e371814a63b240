// The query editor: CodeMirror in a shadow root, where the policy lets it bring its styles as style sheets of its own.

import { h } from "./dom.js";

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
    const [parts, { colours, complete, explain, marks, theme }] = await Promise.all([import("./vendor/codemirror.js"), import("./editing.js")]);
    const { EditorView, EditorState } = parts;
    const root = this.element.attachShadow({ mode: "open" });
    this.marks = marks(parts);
    const keys = [{ key: "Mod-Enter", run: () => (this.run(), true) }, ...parts.closeBracketsKeymap, ...parts.completionKeymap, ...parts.historyKeymap, ...parts.defaultKeymap];
    const state = EditorState.create({ doc: this.plain.value, extensions: [
      parts.history(), parts.bracketMatching(), parts.closeBrackets(), parts.keymap.of(keys),
      parts.StreamLanguage.define(parts.sparql), parts.syntaxHighlighting(colours(parts)), theme(parts), this.marks.field,
      parts.autocompletion({ override: [(context) => complete(this.kb, context)], icons: false }),
      parts.hoverTooltip((view, place) => explain(this.kb, view, place), { hoverTime: 200 }),
      EditorView.lineWrapping, EditorView.contentAttributes.of({ tabindex: "0", "aria-label": this.label, "aria-readonly": String(this.readOnly) }),
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
