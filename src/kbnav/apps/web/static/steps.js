// The steps of a run, which read as a story while it goes on.

import { h } from "./dom.js";
import { laidOut } from "./layout.js";
import { language, t } from "./text.js";

const TOOLS = {
  search_entities: t("tool.search"), search_neighbors: t("tool.search"), vector_query: t("tool.search"), get_entry: t("tool.entry"), get_entity_entry: t("tool.entry"),
  read_document: t("tool.entry"), get_property_examples: t("tool.examples"), execute_query: t("tool.query"), finish: t("tool.finish"), find_relations: t("tool.search"), follow_paths: t("tool.follow"),
};

const DROPPED = { repeat: t("dropped.repeat"), "premature finish": t("dropped.early"), "rolled back": t("dropped.back"), "not alone": t("dropped.alone"), "over budget": t("dropped.budget") };

/** What a tool does, in words; of one that is not known here, its name. */
export function toolName(tool) {
  return TOOLS[tool] ?? tool.replaceAll("_", " ");
}

/** A list of steps that is open while they come, and that a reader opens and closes as they like. */
export class Steps {
  constructor() {
    this.calls = new Map();
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
    const item = h("li", { class: "step pending", "data-tool": event.tool }, event.thought && !(event.thought === this.last?.thought && event.turn === this.last.turn) && h("p", { class: "thought", dir: "auto" }, event.thought), action(event));
    this.last = event; // calls of one turn may come of the same thought
    this.calls.set(event.call, item);
    this.list.append(item);
    return this.tell(t("run.step", { n: this.list.children.length, tool: toolName(event.tool) }));
  }

  stepped(event) {
    const item = this.calls.get(event.call);
    if (!item) return;
    item.classList.remove("pending");
    if (!event.ok) item.classList.add("odd");
    item.append(observation(event.observation));
  }

  dropped(event) {
    this.write(null);
    for (const step of event.steps) {
      let item = this.calls.get(step.call);
      if (!item) {
        item = h("li", { class: "step" }, action(step));
        this.list.append(item);
      }
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
      this.writing = h("li", { class: "step writing" }, h("p", { class: "thought", dir: "auto" }), h("p", { class: "action" }, h("span", { class: "tool", lang: language })));
      this.list.append(this.writing);
    }
    this.writing.querySelector(".thought").textContent = draft.thought;
    this.writing.querySelector(".tool").textContent = toolName(draft.tool);
  }

  /** No more will come: they close, unless the reader has opened or closed them. */
  ended() {
    this.write(null);
    for (const item of this.list.querySelectorAll(".pending")) item.classList.remove("pending");
    if (!this.chosen) this.element.open = false;
  }
}

function action(call) {
  const { query, ...others } = call.arguments;
  const isQuery = call.tool === "execute_query" && typeof query === "string";
  const unrestricted = { kind: "any", direction: "both" };
  const told = Object.entries(isQuery ? others : call.arguments).filter(([name, value]) => unrestricted[name] !== value);
  const given = told.map(([, value]) => value).filter((value) => !["", null, false, 0].includes(value) && !(Array.isArray(value) && !value.length));
  const text = given.map((value) => typeof value === "string" ? value : JSON.stringify(value)).join(", ");
  return [h("p", { class: "action" }, h("span", { class: "tool", title: call.tool, lang: language }, toolName(call.tool)), " ", h("span", { dir: "auto" }, text)), isQuery && h("pre", { class: "query" }, laidOut(query))];
}

function observation(text) {
  const lines = text.split("\n");
  if (lines.length <= 8 && text.length < 900) return h("pre", { class: "observation", dir: "auto" }, text);
  return h("details", { class: "long" }, h("summary", { "data-less": t("run.less") }, h("pre", { class: "observation", dir: "auto" }, `${lines.slice(0, 5).join("\n").slice(0, 600)} …`)), h("pre", { class: "observation", dir: "auto" }, text));
}
