// The steps of a run, which read as a story while it goes on.

import { h } from "./dom.js";
import { laidOut } from "./layout.js";
import { language, t } from "./text.js";

const TOOLS = {
  search_entities: "tool.search", vector_query: "tool.search", find_relations: "tool.links", search_neighbors: "tool.links", get_entry: "tool.entry", get_entity_entry: "tool.entry",
  read_document: "tool.entry", get_property_examples: "tool.examples", execute_query: "tool.query", join_results: "tool.query", get_fields: "tool.entry", finish: "tool.finish", follow_paths: "tool.follow",
};

const DROPPED = { repeat: t("dropped.repeat"), "premature finish": t("dropped.early"), "rolled back": t("dropped.back"), "not alone": t("dropped.alone"), "over budget": t("dropped.budget") };

/** What a tool does, in words, with `what` it is given; of one that is not known here, its name. */
function toolName(tool, what = "…") {
  return TOOLS[tool] ? t(TOOLS[tool], { what }) : `${tool.replaceAll("_", " ")} ${what}`;
}

/** A list of steps that is open while they come, and that a reader opens and closes as they like. */
export class Steps {
  constructor() {
    this.calls = new Map();
    this.names = new Map(); // of things that were found
    this.chosen = false;
    this.count = h("span", {}, t("run.waiting"));
    this.list = h("ol", { lang: "en" });
    this.summary = h("summary", { onclick: () => { this.chosen = true; } }, this.count);
    this.element = h("details", { class: "steps", open: true }, this.summary, language !== "en" && h("p", { class: "soft english" }, t("run.english")), this.list);
  }

  get pending() {
    return this.list.querySelector(".pending");
  }

  /** What stands in the line above the steps. */
  tell(text) {
    this.count.textContent = text;
    return text;
  }

  called(event) {
    this.write(null);
    const item = this.add(event);
    item.classList.add("pending");
    this.calls.set(event.call, item);
    return this.tell(t("run.step", { n: this.list.children.length, tool: this.line(event) }));
  }

  /** A line that says what a step does, and opens what was thought and given. */
  add(event) {
    const item = h("li", { class: "step" }, h("details", {}, h("summary", { class: "action", dir: "auto", lang: language }, this.line(event)),
      event.thought && h("p", { class: "thought", dir: "auto" }, event.thought), action(event)));
    this.list.append(item);
    return item;
  }

  /** What a step does, its things by the names that earlier ones found. */
  line({ tool, arguments: given }) {
    const words = given.query || given.text;
    const first = [given.entity_id, words, given.property_id, given.relation, ...Object.values(given).flat()].find((value) => value && typeof value === "string") ?? "";
    return toolName(tool, first === words ? `“${first}”` : this.names.get(first) ?? first);
  }

  stepped(event) {
    const item = this.calls.get(event.call);
    if (!item) return;
    item.classList.remove("pending");
    if (!event.ok) item.classList.add("odd");
    item.firstChild.append(h("pre", { class: "observation", dir: "auto" }, event.observation));
    for (const [, name, id] of event.observation.matchAll(/([^\s:;,()][^\n:;,()]{0,99}) \(([^\s()]+)\)/g)) if (!this.names.has(id)) this.names.set(id, name.replace(/^- /, ""));
  }

  dropped(event) {
    this.write(null);
    for (const step of event.steps) {
      const item = this.calls.get(step.call) ?? this.add(step);
      item.classList.add("dropped");
      item.append(h("p", { class: "reason" }, DROPPED[step.reason] ?? step.reason));
    }
  }

  /** After a restart of the server, what was under way is done again. */
  resumed() {
    this.write(null);
    for (const item of this.list.querySelectorAll(".pending")) item.remove();
    this.list.append(h("li", { class: "soft" }, t("run.resumed")));
  }

  /** What a model is writing, until it is a step. */
  write(draft) {
    if (!draft?.thought && !draft?.tool) {
      this.writing?.remove();
      this.writing = null;
      return;
    }
    if (!this.writing) {
      this.writing = h("li", { class: "step writing" }, h("p", { class: "thought", dir: "auto" }), h("p", { class: "action", lang: language }));
      this.list.append(this.writing);
    }
    this.writing.querySelector(".thought").textContent = draft.thought;
    this.writing.querySelector(".action").textContent = draft.tool && toolName(draft.tool);
  }

  /** No more will come: they close, unless the reader has opened or closed them. */
  ended() {
    this.write(null);
    for (const item of this.list.querySelectorAll(".pending")) item.classList.remove("pending");
    if (!this.chosen) this.element.open = false;
  }
}

/** What a tool was given. */
function action({ tool, arguments: { query, ...others } }) {
  const isQuery = tool === "execute_query" && typeof query === "string";
  const given = Object.entries(isQuery || query === undefined ? others : { ...others, query }).filter(([, value]) => value && value.length !== 0).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [given.length > 0 && h("p", { class: "soft", dir: "auto" }, given.join(" · ")), isQuery && h("pre", { class: "query" }, laidOut(query))];
}
