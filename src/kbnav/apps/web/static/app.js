// The chat page: what can be chosen, the sessions, the questions.

import { showCards } from "./card.js";
import { call, listen } from "./client.js";
import { h } from "./dom.js";
import { History } from "./history.js";
import { clearComplaint, complain, hideLost, showLost } from "./notices.js";
import { enqueue, next, openQueue } from "./queue.js";
import { QueryView } from "./query.js";
import { RunView, offlineBadge } from "./run.js";
import { language, t } from "./text.js";

const offered = JSON.parse(document.body.dataset.offered);
const runs = document.getElementById("runs");
const SPARQL = /^\s*(#.*\s+|(prefix|base)\s[^>]*>\s*)*(select|ask|construct|describe)\b[^]*\{/i;
const QUERIES = { // a first query of each picture
  "view.map": "#defaultView:Map\nSELECT ?place ?at WHERE { ?place wdt:P625 ?at } LIMIT 300",
  "view.timeline": "#defaultView:Timeline\nSELECT ?person ?born ?died WHERE { ?person wdt:P569 ?born ; wdt:P570 ?died } ORDER BY ?born LIMIT 300",
  "view.chart": "#defaultView:BarChart\nSELECT ?element ?number WHERE { ?element wdt:P1086 ?number } ORDER BY ?number LIMIT 60",
};
const say = (text) => { document.getElementById("status").textContent = text; };

async function showShared() {
  try {
    const run = await call(`/api/shared/${encodeURIComponent(offered.share)}`);
    document.title = run.question;
    const view = new RunView(run, offered);
    runs.append(view.element);
  } catch (error) {
    runs.append(h("p", { class: "problem" }, error.message));
  }
}

/** The chat: what is asked, of what, in which session, and what runs now. */
class Chat {
  constructor() {
    for (const name of ["ask", "question", "send", "stop", "kb", "system", "model", "badge", "settings"]) this[name] = document.getElementById(name);
    this.kept = new History({ complain: (error) => complain(error.message), leave: () => {
      history.pushState(null, "", "/");
      this.open("");
    } });
    this.session = offered.session;
    this.running = null;
    this.opened = 0; // how often somebody went elsewhere
    this.fillChoice();
    this.listen();
    this.open(this.session).then(() => this.list());
    this.question.focus({ preventScroll: true });
  }

  get base() {
    return offered.kbs.find((one) => one.key === this.kb.value);
  }

  options(select, names, chosen, about = {}) {
    const option = (name) => h("option", { value: name, selected: name === chosen, title: about[name] }, name);
    const ranks = select === this.system ? names.filter((name) => this.base.rankings.includes(name)) : [];
    const answers = names.filter((name) => !ranks.includes(name));
    const group = (label, some) => h("optgroup", { label }, some.map(option));
    select.replaceChildren(...(ranks.length && answers.length ? [group(t("choice.agents"), answers), group(t("choice.rankings"), ranks)] : names.map(option)));
    select.title = about[select.value] || "";
  }

  /** The choices of a session; the first of each without one. */
  fillChoice({ kb, system, model } = {}) {
    this.options(this.kb, offered.kbs.map((one) => one.key), kb);
    this.options(this.system, this.base.systems, system, this.base.about);
    this.options(this.model, offered.models, model);
    this.kb.parentElement.hidden = offered.kbs.length < 2;
    this.settings.hidden = this.base.systems.length < 2 && offered.models.length < 2;
    this.showBadge();
  }

  showBadge() {
    this.badge.replaceChildren(this.model.value === "offline" ? offlineBadge() : "");
  }

  listen() {
    this.kb.addEventListener("change", () => {
      this.options(this.system, this.base.systems, undefined, this.base.about);
      this.leave();
    });
    for (const select of [this.system, this.model]) select.addEventListener("change", () => this.leave());
    this.model.addEventListener("change", () => this.showBadge());
    this.system.addEventListener("change", () => (this.system.title = this.base.about[this.system.value] || ""));
    this.ask.addEventListener("submit", (event) => {
      event.preventDefault();
      this.put(this.question.value);
    });
    document.addEventListener("again", ({ detail: { question, ...choice } }) => this.put(question, choice));
    document.addEventListener("edit", ({ detail }) => {
      this.question.value = detail.question;
      this.grow();
      this.question.focus();
    });
    this.stop.addEventListener("click", () => this.end());
    document.getElementById("write").addEventListener("click", () => this.write());
    this.question.addEventListener("input", () => this.grow());
    this.listenToKeys();
    window.addEventListener("popstate", () => this.open(location.pathname.startsWith("/s/") ? decodeURIComponent(location.pathname.slice(3)) : ""));
    for (const [name, bar] of [["--bar", this.ask], ["--head", document.querySelector("header")]]) {
      new ResizeObserver(() => document.documentElement.style.setProperty(name, `${bar.offsetHeight}px`)).observe(bar);
    }
    if (matchMedia("(max-width: 50rem)").matches) {
      for (const name of ["sessions", "more"]) document.getElementById(name).open = false;
    }
  }

  listenToKeys() {
    this.question.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.put(this.question.value);
      }
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, textarea, select");
      if (event.key === "Escape") this.end();
      if (event.key === "/" && !typing) {
        event.preventDefault();
        this.question.focus();
      }
    });
  }

  /** Another choice is another session. */
  leave() {
    this.opened++;
    if (this.session) {
      this.session = "";
      openQueue("");
      history.pushState(null, "", "/");
      document.title = "kbnav";
    }
    if (!this.running) this.welcome();
  }

  /** What this is, and what can be asked. */
  welcome() {
    const chosen = this.kb.value;
    const { name, wikibase } = this.base;
    runs.replaceChildren(h("div", { class: "welcome" }, h("h2", {}, t("welcome.head", { kb: name })), h("p", {}, t("welcome.what")), this.holds(chosen),
      wikibase && h("p", { class: "tools" }, h("span", { class: "soft" }, `${t("query.write")}:`), Object.entries(QUERIES).map(([view, query]) => h("button", { type: "button", onclick: () => this.write(query, true) }, t(view))))));
  }

  /** What a knowledge base holds, and questions that it can answer, `most` of them. */
  holds(key, most = undefined) {
    const { entities, taken } = offered.kbs.find((one) => one.key === key) ?? {};
    const date = taken && new Date(taken).toLocaleDateString(language, { dateStyle: "long", timeZone: "UTC" });
    const examples = h("ul");
    const fill = (questions) => examples.replaceChildren(...questions.slice(0, most).map((text) => h("li", {}, h("button", { type: "button", class: "example", onclick: () => this.put(text) }, text))));
    call(`/api/examples/${encodeURIComponent(key)}`).then(fill, () => null);
    return h("div", { class: "holds" }, entities && h("p", {}, t("welcome.copy", { n: entities }), date && ` ${t("welcome.taken", { date })}`), h("p", { class: "soft" }, t("welcome.try")), examples);
  }

  /** A query of one's own, with its result below it; `now` runs it. */
  write(query = "", now = false) {
    runs.querySelector(".welcome")?.remove();
    const view = new QueryView({ kb: this.kb.value, question: "" }, { query: "", query_labelled: "", link: "", language }, offered);
    view.editor.value = query;
    view.element.open = true;
    runs.append(h("section", { class: "run typed", "data-kb": this.kb.value, "aria-label": t("query.write") }, h("h2", { class: "question" }, t("query.write")), view.element));
    this.newest({ element: runs.lastElementChild });
    view.editor.open().then(() => view.editor.focus());
    if (now) view.ask();
  }

  work(view, close) {
    this.running = view && { view, close };
    this.send.textContent = view ? t("ask.next") : t("ask.label");
    this.stop.hidden = !view;
    this.stop.disabled = false;
  }

  /** The newest question stands at the top, with room for its steps above the bar. */
  newest(view) {
    runs.querySelector(".newest")?.classList.remove("newest");
    view.element.classList.add("newest");
    view.element.scrollIntoView({ block: "start" });
  }

  /** Show a run, and listen where it goes on. */
  show(run) {
    const view = new RunView(run, offered, (question) => this.put(question), () => this.holds(run.kb, 3));
    runs.append(view.element);
    if (!view.done) {
      const last = run.events.length ? run.events.at(-1).id : 0;
      const close = listen(run.id, last, (event) => this.heard(view, event));
      this.work(view, close);
    }
    return view;
  }

  heard(view, event) {
    if (event.kind === "lost") return showLost(event);
    hideLost();
    const said = view.apply(event);
    if (said) say(said);
    if (view.done && this.running?.view === view) {
      this.work(null);
      this.question.focus({ preventScroll: true });
      const question = next();
      if (question) this.put(question);
    }
    return undefined;
  }

  /** Ask a question: now, or after the one that is being answered; `choice` has another `system` and `model`. */
  async put(question, choice = {}) {
    if (!question.trim() || this.send.disabled) return;
    clearComplaint();
    if (SPARQL.test(question)) {
      this.write(question, true);
      return this.empty(question);
    }
    if (this.running && !choice.system) {
      enqueue(question);
      say(t("queue.said", { question }));
      return this.empty(question);
    }
    this.send.disabled = true;
    const turn = this.opened;
    try {
      if (!this.session && !await this.begin(question, turn)) return;
      const run = await call(`/api/sessions/${encodeURIComponent(this.session)}/questions`, "POST", { question, ...choice });
      this.list();
      if (turn !== this.opened) return;
      this.empty(question);
      this.newest(this.show(run));
    } catch (error) {
      if (turn !== this.opened) return;
      complain(error.message);
      this.question.value ||= question; // one that had waited is not lost
    } finally {
      this.send.disabled = false;
    }
  }

  /** Begin a session by its first question; false where somebody went elsewhere before anything was asked. */
  async begin(question, turn) {
    const made = await call("/api/sessions", "POST", { kb: this.kb.value, system: this.system.value, model: this.model.value });
    if (turn !== this.opened) return false;
    this.session = made.id;
    openQueue(made.id);
    runs.replaceChildren();
    history.pushState(null, "", `/s/${made.id}`);
    document.title = question;
    return true;
  }

  /** Empty the box, unless something else was written into it meanwhile. */
  empty(question) {
    if (this.question.value === question) this.question.value = "";
    this.grow();
  }

  async end() {
    if (!this.running) return;
    this.stop.disabled = true;
    try {
      await call(`/api/runs/${encodeURIComponent(this.running.view.run.id)}/stop`, "POST");
    } catch (error) {
      this.stop.disabled = false;
      complain(error.message);
    }
  }

  async open(id) {
    this.running?.close();
    this.work(null);
    hideLost();
    clearComplaint();
    runs.replaceChildren();
    this.session = id;
    openQueue(id);
    const turn = ++this.opened;
    const left = () => turn !== this.opened; // somebody went elsewhere, or away and back
    if (!id) return this.welcome();
    try {
      const found = await call(`/api/sessions/${encodeURIComponent(id)}`);
      if (left()) return undefined;
      this.fillChoice(found);
      document.title = found.title || "kbnav";
      const views = found.runs.map((run) => this.show(run));
      if (views.length > 1) this.newest(views.at(-1));
      const question = !this.running && next(); // it waited for one that was answered while nobody looked
      if (question) this.put(question);
    } catch (error) {
      if (!left()) runs.append(h("p", { class: "problem" }, error.message));
    }
    return undefined;
  }

  list() {
    return this.kept.load(this.session);
  }

  grow() {
    this.question.style.height = "auto";
    this.question.style.height = `${Math.min(this.question.scrollHeight + 2, 200)}px`;
  }
}

if (offered.share) {
  showShared();
} else {
  new Chat();
}
showCards(runs);
