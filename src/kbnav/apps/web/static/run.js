// One question: what is waited for, what was done, what came back, the answer.

import { absent } from "./absent.js";
import { kept } from "./address.js";
import { againButtons, described } from "./again.js";
import { Awaited } from "./awaited.js";
import { readable } from "./cells.js";
import { call } from "./client.js";
import { copyButton } from "./copy.js";
import { h, heading } from "./dom.js";
import { origin } from "./examples.js";
import { menu } from "./menu.js";
import { QueryView } from "./query.js";
import { doubts, inWords, understood } from "./readings.js";
import { ResultView } from "./result.js";
import { Steps } from "./steps.js";
import { language, t } from "./text.js";

/** A view of a run that grows by its events; where a question can be asked, `ask` asks it and `holds` offers some. */
export class RunView {
  constructor(run, offered, ask = undefined, holds = undefined) {
    this.run = run;
    this.offered = offered;
    this.ask = ask;
    this.holds = holds;
    this.done = false;
    this.answered = false;
    this.steps = new Steps();
    this.awaited = new Awaited(thinking(run, offered), run.now - Date.now() / 1000);
    this.words = h("div", { class: "words" });
    this.found = h("div", { class: "found", onsingle: ({ detail }) => this.once(detail), onmeasured: ({ detail }) => this.measured(detail), onthings: ({ detail }) => this.query?.label(detail) });
    this.answer = h("div", { class: "answer" }, this.words, this.awaited.element, this.steps.element, this.found);
    this.element = h("section", { class: "run", id: run.id, "data-kb": run.kb, "aria-label": run.question, "aria-busy": "true" },
      heading(run.question),
      this.by(), this.answer);
    if (run.status === "queued" || run.status === "running") this.awaited.begin(t("run.waiting"), run.made);
    for (const event of run.events) this.apply(event);
  }

  /** By what it is answered, where that is not the usual; of a shared answer also when. */
  by() {
    const { run, offered } = this;
    const base = offered.kbs.find((one) => one.key === run.kb);
    const date = offered.share && new Date(run.made * 1000).toLocaleDateString(language, { dateStyle: "long" });
    const told = [date, base && run.system !== base.systems[0] && described(run.system, base)].filter(Boolean).join(" · ");
    return told && h("p", { class: "soft" }, told);
  }

  /** A result of one value says by itself what the words above it say; words that say more of it stand below it. */
  once(text) {
    const words = this.words.querySelector(".text");
    const [said, year] = [words?.dataset.said ?? "", text.replace(/(-01){1,2}$/, "")];
    if (said === text || said === year || /^[✓✗]/.test(said)) words.hidden = true;
    else if (said.split("; ").some((part) => part.endsWith(`: ${text}`))) {
      words.className = "soft";
      this.found.prepend(words);
    }
  }

  /** Numbers in the answer's words have their units, those of the first rows. */
  measured(units) {
    if (this.units) return;
    const words = this.element.querySelector(".answer .text");
    this.units = units;
    if (words) words.textContent = readable(words.dataset.said, units);
  }

  /** What a screen reader is told of an event. */
  apply(event) {
    if (event.kind === "draft") return this.drafted(event);
    if (event.kind === "waiting") this.awaited.begin(t("run.before", { n: event.before }), this.run.made);
    if (event.kind === "started") this.think(event);
    if (event.kind === "call") return this.called(event);
    if (event.kind === "step") this.stepped(event);
    if (event.kind === "dropped") this.steps.dropped(event);
    if (event.kind === "resumed") {
      this.steps.resumed();
      this.think(event);
    }
    if (event.kind === "end") return this.ended(event);
    if (event.kind === "gone") return this.gone();
    return "";
  }

  think(event) {
    this.steps.tell(t("run.working"));
    this.awaited.think(event.at);
  }

  called(event) {
    this.awaited.begin(this.steps.line(event), event.at);
    return this.steps.called(event);
  }

  stepped(event) {
    this.steps.stepped(event);
    if (!this.steps.pending) this.awaited.think(event.at);
  }

  /** What a model has written so far: of the answer, or of its next step. */
  drafted(event) {
    this.awaited.tell(t("await.writing"));
    this.steps.write(event.answer ? null : event);
    this.words.replaceChildren(event.answer ? h("p", { class: "text draft", dir: "auto" }, event.answer) : "");
    return "";
  }

  /** Its session was deleted elsewhere. */
  gone() {
    this.over();
    return this.steps.tell(t("run.gone"));
  }

  over() {
    this.done = true;
    this.awaited.end();
    this.element.setAttribute("aria-busy", "false");
  }

  ended(event) {
    this.over();
    this.steps.ended();
    const answer = event.answer;
    this.answered = ["answered", "best effort"].includes(answer.status);
    this.steps.tell(this.spent(answer));
    const base = this.offered.share ? `/api/shared/${encodeURIComponent(this.offered.share)}` : answer.result && `/api/results/${encodeURIComponent(answer.result.id)}`;
    const unfound = answer.status === "no answer" && !/[?？؟]\s*$/.test(answer.text); // a question asked back is no failure
    const head = answer.status === "answered" || (answer.status === "no answer" && answer.text) ? "" : t(`answer.${answer.status.replace(" ", "_")}`);
    const none = answer.text === "no value" && answer.absence?.kind === "stated none";
    const served = this.offered.kbs.find((one) => one.key === this.run.kb);
    const nothing = answer.status === "no answer" && this.run.model === "offline";
    this.words.replaceChildren(
      head ? h("p", { class: "head" }, head) : "",
      doubts(answer.doubts ?? [], answer.understood, answer.status === "no answer" ? answer.note : undefined),
      answer.text && answer.doubts?.some((one) => one.kind === "copy") ? h("p", { class: "part" }, t("copy.part", { kb: "Wikidata" })) : "",
      answer.text ? h("p", { class: "text", dir: "auto", "data-said": answer.text }, none ? t("absent.stated_none") : readable(answer.text)) : "",
      answer.note ? h("p", { class: "note", dir: "auto" }, answer.note) : "",
      nothing && !answer.note ? h("p", { class: "note" }, t("offline.unanswered")) : "");
    const result = answer.result && new ResultView(answer.result, base, this.run.question, { query: answer.query, labelled: answer.query_labelled, absence: answer.absence, rows: event.rows, ranked: served?.name === "Wikidata", key: this.offered.share ? "view" : this.run.id });
    this.found.replaceChildren(
      understood(answer.understood, this.ask, inWords(answer.query_words)),
      result?.element ?? "",
      origin(result || (unfound && !nothing) ? served : undefined, result || !nothing ? this.made(answer) : []) || "",
      answer.status === "stopped" || none || (nothing && answer.note) ? "" : absent(answer.absence, { brief: answer.result?.columns.join() === "boolean" }),
      (nothing && this.holds?.()) || "",
      this.foot(answer, result),
      (this.query = answer.query ? new QueryView(this.run, answer, this.offered) : null)?.element ?? "",
      this.steps.element);
    return head || t("answer.said", { text: answer.text || answer.note });
  }

  /** Who answered, in what time, and for what money. */
  made(answer) {
    const rules = this.run.model === "offline" && h("span", { class: "rules", title: t("offline.about") }, t("offline.badge"));
    const seconds = answer.seconds !== undefined && t("run.seconds", { n: Math.max(0.1, Number(answer.seconds.toFixed(1))) });
    return [rules || (answer.model_calls && h("strong", { class: "model" }, this.run.model)), seconds, typeof answer.cost === "number" && `$${answer.cost.toFixed(4)}`];
  }

  /** How much was done for an answer, on one line. */
  spent(answer) {
    const parts = [t("run.how"), t("run.steps", { n: answer.actions ?? this.steps.calls.size })];
    if (answer.taken_back) parts.push(t("run.taken_back_count", { n: answer.taken_back }));
    if (answer.repeated) parts.push(t("run.repeated"));
    if (answer.not_run) parts.push(t("run.not_run", { n: answer.not_run }));
    if (answer.tokens?.prompt) parts.push(t("run.tokens", { n: answer.tokens.prompt + answer.tokens.completion }));
    return parts.join(" · ");
  }

  /** The answer to copy with its rows and its query's address, a link to share, files, the question again; of a shared answer only what can be taken along. */
  foot({ text, link }, result) {
    const copy = text && copyButton(t("copy.answer"), () => [readable(text, this.units), result?.text, link].filter(Boolean).join("\n"));
    if (this.offered.share) return h("div", { class: "foot" }, copy, result?.files);
    return h("div", { class: "foot" }, copy, this.sharing(), result?.files,
      menu(t("again.menu"), "more", againButtons(this.run, this.offered)));
  }

  /** A menu that says what sharing does and makes a link, or has the link and takes it back; its button says whether it is shared. */
  sharing() {
    const [label, place] = [h("span"), h("div", { class: "share" })];
    const path = `/api/runs/${encodeURIComponent(this.run.id)}/share`;
    const copyLink = copyButton(t("copy.link"), () => place.querySelector("a").href);
    const show = (...told) => {
      const { share } = this.run;
      const view = kept(this.run.id) && `#view=${kept(this.run.id)}`;
      const address = (ending) => new URL(`/share/${share}${ending}${view}`, location.href).href;
      label.textContent = t(share ? "share.shared" : "share.share");
      place.replaceChildren(...told, ...(share
        ? [h("a", { href: address(""), class: "shared-link" }, address("")), copyLink, copyButton(t("copy.embed"), () => `<iframe src="${address("?embed=1")}" width="640" height="360"></iframe>`), button("share.unshare", "DELETE", false)]
        : [h("p", {}, t("share.about")), button("share.make", "POST", "primary")]));
    };
    const change = async (method) => {
      try {
        this.run.share = (await call(path, method))?.share;
        show(...(this.run.share ? [] : [h("p", { role: "status" }, t("share.over"))]));
        (this.run.share ? copyLink : place.querySelector("button")).focus();
      } catch (error) {
        show(h("p", { class: "problem" }, error.message));
      }
    };
    const button = (name, method, kind) => h("button", { type: "button", class: kind, onclick: () => change(method) }, t(name));
    label.textContent = t(this.run.share ? "share.shared" : "share.share");
    return menu(label, "share", place, { onclick: () => show() });
  }
}

/** What is waited for between the steps: a model, rules in its place, or a ranking, which asks none. */
function thinking(run, offered) {
  const ranks = offered.kbs?.find((one) => one.key === run.kb)?.rankings.includes(run.system);
  if (ranks) return t("run.working");
  return run.model === "offline" ? t("await.rules") : t("await.model");
}
