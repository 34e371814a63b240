// One question: what was done, what came back, the answer.

import { call, freshName } from "./client.js";
import { h, link, s } from "./dom.js";
import { showResult } from "./result.js";
import { t } from "./text.js";

const HEADS = {
  "best effort": t("answer.best_effort"),
  "no answer": t("answer.no_answer"),
  refused: t("answer.refused"),
  failed: t("answer.failed"),
  stopped: t("answer.stopped"),
};

/** A view of a run that grows by its events. */
export class RunView {
  constructor(run, offered) {
    this.run = run;
    this.offered = offered;
    this.calls = new Map();
    this.done = false;
    this.count = h("span", {}, t("run.waiting"));
    this.list = h("ol");
    this.steps = h("details", { class: "steps", open: true }, h("summary", {}, this.count), this.list);
    this.answer = h("div", { class: "answer" });
    this.element = h("section", { class: "run", id: run.id, "aria-label": run.question, "aria-busy": "true" },
      h("h2", { class: "question", dir: "auto" }, run.question),
      h("p", { class: "soft" }, `${run.kb} · ${run.system} · ${run.model}`), this.steps, this.answer);
    for (const event of run.events) this.apply(event);
  }

  /** What a screen reader is told of an event. */
  apply(event) {
    if (event.kind === "call") return this.called(event);
    if (event.kind === "step") return this.stepped(event);
    if (event.kind === "dropped") return this.dropped(event);
    if (event.kind === "resumed") return this.resumed();
    if (event.kind === "waiting") this.count.textContent = t("run.before", { n: event.before });
    if (event.kind === "started") this.count.textContent = t("run.working");
    if (event.kind === "end") return this.ended(event);
    if (event.kind === "gone") return this.gone();
    return "";
  }

  called(event) {
    const item = h("li", { class: "step pending" }, event.thought && h("p", { class: "thought", dir: "auto" }, event.thought), action(event));
    this.calls.set(event.call, item);
    this.list.append(item);
    this.count.textContent = t("run.step", { n: this.list.children.length, tool: event.tool });
    return this.count.textContent;
  }

  stepped(event) {
    const item = this.calls.get(event.call);
    if (!item) return "";
    item.classList.remove("pending");
    if (!event.ok) item.classList.add("odd");
    item.append(observation(event.observation));
    return "";
  }

  dropped(event) {
    for (const step of event.steps) {
      let item = this.calls.get(step.call);
      if (!item) {
        item = h("li", { class: "step" }, action(step));
        this.list.append(item);
      }
      item.classList.add("dropped");
      item.append(h("p", { class: "reason" }, t("run.taken_back", { reason: step.reason })));
    }
    return "";
  }

  /** After a restart of the server, what was under way is done again. */
  resumed() {
    for (const item of this.list.querySelectorAll(".pending")) item.remove();
    this.list.append(h("li", { class: "soft" }, t("run.resumed")));
    return "";
  }

  /** Its session was deleted elsewhere. */
  gone() {
    this.done = true;
    this.element.setAttribute("aria-busy", "false");
    this.count.textContent = t("run.gone");
    return this.count.textContent;
  }

  ended(event) {
    this.done = true;
    this.element.setAttribute("aria-busy", "false");
    for (const item of this.list.querySelectorAll(".pending")) item.classList.remove("pending");
    const answer = event.answer;
    this.steps.open = false;
    const steps = answer.actions ?? this.calls.size;
    const parts = [t("run.steps", { n: steps })];
    if (answer.taken_back) parts.push(t("run.taken_back_count", { n: answer.taken_back }));
    if (answer.not_run) parts.push(t("run.not_run", { n: answer.not_run }));
    if (answer.seconds !== undefined) parts.push(t("run.seconds", { n: Number(answer.seconds.toFixed(1)) }));
    if (answer.tokens?.prompt) parts.push(t("run.tokens", { n: answer.tokens.prompt + answer.tokens.completion }));
    if (typeof answer.cost === "number") parts.push(`$${answer.cost.toFixed(4)}`);
    this.count.textContent = parts.join(" · ");
    const base = this.offered.share ? `/api/shared/${encodeURIComponent(this.offered.share)}` : answer.result && `/api/results/${encodeURIComponent(answer.result.id)}`;
    this.answer.replaceChildren(
      HEADS[answer.status] ? h("p", { class: "head" }, HEADS[answer.status]) : "",
      answer.text ? h("p", { class: "text", dir: "auto" }, answer.text) : "",
      answer.note ? h("p", { class: "note", dir: "auto" }, answer.note) : "",
      answer.result ? showResult(answer.result, base, this.offered) : "",
      answer.query ? this.query(answer) : "",
      this.offered.share ? "" : this.foot());
    return HEADS[answer.status] || t("answer.said", { text: answer.text });
  }

  /** The query with labels, to be changed and run again. */
  query(answer) {
    const text = answer.query_labelled || answer.query;
    const rows = Math.min(16, text.split("\n").length + 2);
    const editor = h("textarea", { class: "query", rows, spellcheck: "false", "aria-label": t("query.label"), dir: "ltr" });
    editor.value = text;
    const shown = h("div");
    const address = h("span", {}, answer.link && out(answer.link));
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const button = h("button", { type: "button", class: "again" }, t("query.run"));
    const told = h("span", { class: "soft", role: "status" });
    button.addEventListener("click", async () => {
      button.disabled = true;
      problem.hidden = true;
      const name = freshName();
      const path = `/api/queries/${name}`;
      const stop = h("button", { type: "button", class: "stop-query", onclick: () => call(path, "DELETE").catch(() => null) }, t("ask.stop"));
      const ticking = setInterval(async () => {
        const line = await call(path).catch(() => null);
        if (line && button.disabled) told.textContent = line.before ? t("run.before", { n: line.before }) : t("query.running");
      }, 1000);
      button.after(stop);
      try {
        const found = await call("/api/queries", "POST", { kb: this.run.kb, query: editor.value, language: answer.language || "en", name });
        editor.value = found.query_labelled;
        address.replaceChildren(found.link ? out(found.link) : "");
        shown.replaceChildren(showResult(found.result, `/api/results/${encodeURIComponent(found.result.id)}`, this.offered));
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        shown.replaceChildren();
      }
      clearInterval(ticking);
      stop.remove();
      told.textContent = "";
      button.disabled = false;
    });
    if (this.offered.share) editor.readOnly = true;
    return h("details", { class: "sparql", open: true }, h("summary", {}, "SPARQL"), editor,
      h("p", { class: "tools" }, !this.offered.share && button, told, address, answer.link_note && h("span", { class: "soft" }, t("query.live"))),
      problem, shown);
  }

  /** Thumbs, a note, a link to share. */
  foot() {
    const path = `/api/runs/${encodeURIComponent(this.run.id)}`;
    const note = h("input", { type: "text", class: "opinion", maxlength: 2000, placeholder: t("opinion.placeholder"), "aria-label": t("opinion.note") });
    note.value = this.run.note || "";
    const said = h("span", { class: "soft", role: "status" });
    let thumb = this.run.thumb || "";
    let saved = Promise.resolve();
    const put = async () => {
      try {
        await call(`${path}/opinion`, "PUT", { thumb, note: note.value });
        said.textContent = t("opinion.saved");
      } catch (error) {
        said.textContent = error.message;
      }
    };
    // One after another: leaving the note for a thumb saves twice, and the last must win.
    const save = (value) => {
      thumb = value;
      up.setAttribute("aria-pressed", String(thumb === "up"));
      down.setAttribute("aria-pressed", String(thumb === "down"));
      said.textContent = "";
      saved = saved.then(put);
    };
    const up = h("button", { type: "button", "aria-label": t("opinion.good"), "aria-pressed": String(thumb === "up"), onclick: () => save(thumb === "up" ? "" : "up") }, hand(0));
    const down = h("button", { type: "button", "aria-label": t("opinion.bad"), "aria-pressed": String(thumb === "down"), onclick: () => save(thumb === "down" ? "" : "down") }, hand(180));
    note.addEventListener("change", () => save(thumb));
    const shared = h("span", { class: "share" });
    const share = h("button", { type: "button" }, t("share.share"));
    share.addEventListener("click", async () => {
      try {
        const made = await call(`${path}/share`, "POST");
        const address = new URL(made.path, location.href).href;
        const unshare = h("button", { type: "button", onclick: async () => {
          await call(`${path}/share`, "DELETE");
          shared.replaceChildren(t("share.over"));
        } }, t("share.unshare"));
        shared.replaceChildren(h("a", { href: address, class: "shared-link" }, address), " ", unshare);
      } catch (error) {
        shared.textContent = error.message;
      }
    });
    return h("div", { class: "foot" }, up, down, note, said, share, shared);
  }
}

function out(address) {
  return link(t("query.out"), address, { class: "out" });
}

/** A thumb; not every machine has a font with one. */
function hand(turned) {
  return s("svg", { viewBox: "0 0 24 24", class: "hand", "aria-hidden": "true" },
    s("path", { transform: `rotate(${turned} 12 12)`, d: "M2 10h4v11H2z M8 21V10l4-8c2 0 3 1 2.6 3.4L14 9h6c1.5 0 2.2 1 1.9 2.3l-1.7 7.9c-.3 1.2-1.1 1.8-2.2 1.8z" }));
}

function action(call) {
  const { query, ...others } = call.arguments;
  const isQuery = call.tool === "execute_query" && typeof query === "string";
  const unrestricted = { kind: "any", direction: "both" };
  const told = Object.entries(isQuery ? others : call.arguments).filter(([name, value]) => unrestricted[name] !== value);
  const given = told.map(([, value]) => value).filter((value) => !["", null, false, 0].includes(value));
  const text = given.map((value) => typeof value === "string" ? value : JSON.stringify(value)).join(", ");
  return [h("p", { class: "action" }, h("code", {}, call.tool), " ", h("span", { dir: "auto" }, text)), isQuery && h("pre", { class: "query" }, query)];
}

function observation(text) {
  const lines = text.split("\n");
  if (lines.length <= 8 && text.length < 900) return h("pre", { class: "observation", dir: "auto" }, text);
  return h("details", { class: "long" }, h("summary", { "data-less": t("run.less") }, h("pre", { class: "observation", dir: "auto" }, `${lines.slice(0, 5).join("\n").slice(0, 600)} …`)), h("pre", { class: "observation", dir: "auto" }, text));
}
