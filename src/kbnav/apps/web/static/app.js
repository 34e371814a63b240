// The chat page: what can be chosen, the sessions, the questions.

import { kept } from "./address.js";
import { described } from "./again.js";
import { call, listen } from "./client.js";
import { h, heading } from "./dom.js";
import { akin, examplesOf, listenToExamples, origin, shapeOf, shownExamples } from "./examples.js";
import { History } from "./history.js";
import { listenToMenus } from "./menu.js";
import { clearComplaint, complain, hideLost, showLost } from "./notices.js";
import { enqueue, next, openQueue } from "./queue.js";
import { language, t } from "./text.js";

const offered = JSON.parse(document.body.dataset.offered);
const runs = document.getElementById("runs");
const TYPES = 10; // of things that are named
const ANY = "SELECT ?thing ?property ?value WHERE {\n  ?thing ?property ?value .\n}\nLIMIT 20";
const ID = /^\s*(?:wdt?:|https?:\/\/(?:www\.)?wikidata\.org\/(?:wiki|entity)\/(?:Property:)?)?([PQ]\d+)\s*$/i;
const LINK = /^\s*https:\/\/query\.wikidata\.org\/(?:embed\.html)?#(.+)$/s;
const SPARQL = new RegExp(offered.sparql, "i");
const views = () => Promise.all([import("./run.js"), import("./query.js")]); // what the first screen does not need
/** The query that a link to Wikidata's query service has; any other text itself. */
const linked = (text) => {
  try {
    return LINK.test(text) ? decodeURIComponent(LINK.exec(text)[1]) : text;
  } catch {
    return text; // no link that a browser made
  }
};
const say = (text) => { document.getElementById("status").textContent = text; };

async function showShared() {
  try {
    const [run, [{ RunView }]] = await Promise.all([call(`/api/shared/${encodeURIComponent(offered.share)}`), views()]);
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
    for (const name of ["ask", "question", "send", "stop", "kb", "system", "model", "settings"]) this[name] = document.getElementById(name);
    this.kept = new History({ user: offered.user, called: (key) => offered.kbs.length > 1 && this.called(key), complain: (error) => complain(error.message), leave: () => {
      history.pushState(null, "", "/");
      return this.open("");
    } });
    this.session = offered.session;
    this.examples = { found: [] }; // that were shown last, and of which base
    this.running = null;
    this.opened = 0; // how often somebody went elsewhere
    this.fillChoice();
    this.listen();
    this.open(this.session).then(() => this.session && this.list());
  }

  get base() {
    return offered.kbs.find((one) => one.key === this.kb.value);
  }

  options(select, names, chosen) {
    const option = (name) => h("option", { value: name, selected: name === chosen }, select === this.kb ? this.called(name) : select === this.system ? described(name, this.base) : name);
    const ranks = select === this.system ? names.filter((name) => this.base.rankings.includes(name)) : [];
    const answers = names.filter((name) => !ranks.includes(name));
    const group = (label, some) => h("optgroup", { label }, some.map(option));
    select.replaceChildren(...(ranks.length && answers.length ? [group(t("choice.agents"), answers), group(t("choice.rankings"), ranks)] : names.map(option)));
  }

  /** What a visitor calls a knowledge base; its key too where two are called the same. */
  called(key) {
    const name = offered.kbs.find((one) => one.key === key)?.name ?? key;
    return offered.kbs.filter((one) => one.name === name).length > 1 ? `${name}: ${key}` : name;
  }

  /** The choices of a session; the first of each without one. */
  fillChoice({ kb, system, model } = {}) {
    this.options(this.kb, offered.kbs.map((one) => one.key), kb);
    this.options(this.system, this.base.systems, system);
    this.options(this.model, offered.models, model);
    this.kb.parentElement.hidden = offered.kbs.length < 2;
    this.lookAround();
    this.settings.hidden = this.base.systems.length < 2 && offered.models.length < 2;
  }

  /** The pages on which one looks around in what is chosen, where it has some. */
  lookAround() {
    const explore = document.getElementById("explore-open");
    if (explore) Object.assign(explore, { href: this.base.explore, hidden: !this.base.explore });
  }

  listen() {
    this.kb.addEventListener("change", () => {
      this.options(this.system, this.base.systems);
      this.lookAround();
      this.leave();
    });
    for (const select of [this.system, this.model]) select.addEventListener("change", () => this.rechosen());
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
    document.addEventListener("query", ({ detail: { query, ...more } }) => this.write(query, more));
    document.addEventListener("ran", ({ detail }) => this.kept.ran(detail));
    document.getElementById("write").addEventListener("click", () => this.write());
    listenToExamples(() => this.base, (one) => this.try(one));
    this.question.addEventListener("input", () => (this.grow(), views().catch(() => null)));
    this.listenToKeys();
    window.addEventListener("popstate", () => this.open(location.pathname.startsWith("/s/") ? decodeURIComponent(location.pathname.slice(3)) : ""));
    for (const [name, bar] of [["--bar", this.ask], ["--head", document.querySelector("header")]]) {
      new ResizeObserver(() => document.documentElement.style.setProperty(name, `${bar.offsetHeight}px`)).observe(bar);
    }
    if (matchMedia("(max-width: 50rem), (max-height: 30rem)").matches) document.getElementById("sessions").open = false;
  }

  listenToKeys() {
    this.question.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.put(this.question.value);
      }
      if (event.key === "ArrowUp" && !this.question.value && this.views.length) {
        event.preventDefault();
        this.question.value = this.views.at(-1).run.question;
        this.grow();
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

  /** Another system or model answers what is asked next, in the same session. */
  rechosen() {
    if (!runs.querySelector(".run")) return this.welcome();
    return this.query && this.invite();
  }

  /** Another knowledge base is another session. */
  leave() {
    this.opened++;
    if (this.session || kept("query")) {
      this.session = "";
      openQueue("");
      history.pushState(null, "", "/");
      document.title = "kbnav";
    }
    if (!this.running) this.welcome();
  }

  /** Nothing is shown, and what is asked next stands below. */
  clear() {
    this.views = [];
    this.query = null;
    this.question.placeholder = t("ask.follow");
    runs.after(this.ask);
    runs.replaceChildren();
  }

  /** What this is, the box for a question, and what can be asked. */
  welcome() {
    const { key, name, entities, explore, types } = this.base;
    this.clear();
    this.question.placeholder = t("ask.placeholder");
    document.title = "kbnav";
    runs.append(h("div", { class: "welcome" }, h("h2", {}, t("welcome.head", { kb: entities > 0 ? t("welcome.asked", { kb: name }) : name })),
      h("p", {}, name === "Wikidata" && t("welcome.wikidata"), types.length > 0 && t("welcome.types", { kb: key, types: new Intl.ListFormat(language).format(types.slice(0, TYPES)) }), " ", explore ? t("welcome.texts") : t("welcome.what"), key === "demo" && ` ${t("copy.demo")}`), this.ask,
      h("p", { class: "soft" }, this.model.value === "offline" ? [h("strong", {}, t("offline.badge")), ". ", t("offline.about")] : this.readsQueries && t("model.about", { model: this.model.value })), this.holds(key)));
    this.focus();
  }

  /** What a knowledge base holds, with questions that it can answer, one of each kind; of one that it cannot, the three nearest. */
  holds(key, question = "") {
    const base = offered.kbs.find((one) => one.key === key);
    const examples = h("ul", { class: "kinds" });
    const head = h("p", { class: "soft", hidden: true }, t("welcome.try"));
    if (base) examplesOf(base).then((found) => {
      this.examples = { kb: key, found };
      examples.replaceChildren(...shownExamples(akin(found, question), (one) => this.try(one), question ? 3 : undefined));
      head.hidden = !found.length;
    });
    const copy = origin(base);
    if (copy && key === "mini") copy.append(`. ${t("copy.mini")}`);
    return h("div", { class: "holds" }, copy, head, examples);
  }

  /** Ask an example, or run it where it is a query. */
  try({ question, query, text }) {
    if (query) this.write(query, { now: true, title: text });
    else this.put(question);
  }

  /** Go to a page of a query's own, as `showQuery` shows it. */
  write(query = "", more = {}) {
    history.pushState(null, "", "/");
    this.away("");
    this.showQuery(query, more);
  }

  /** The page of a query for all that is stated of an entity whose id was typed, of a property some uses; nothing where there is no such. */
  async describe(id) {
    const turn = this.opened;
    this.send.disabled = true;
    const found = await call(`/api/entities/${encodeURIComponent(this.base.key)}/${id}?language=${language}`).catch(() => null);
    this.send.disabled = false;
    if (turn !== this.opened) return true;
    const uses = `SELECT ?item ?value WHERE {\n  ?item wdt:${id} ?value .\n}\nLIMIT 20`;
    if (found) this.write(id[0] === "P" ? uses : `SELECT ?property ?value WHERE {\n  wd:${found.id} ?claim ?value .\n  ?property wikibase:directClaim ?claim .\n}`, { now: true, title: `${found.label} (${found.id})`, about: found.about });
    return Boolean(found);
  }

  /** A query above its result: `found` is what it gave; `now` runs it. With a `title` it is closed, below; `of` is the question whose query was changed, `from` its address; `about` says more of what it is titled. */
  async showQuery(query, { now = false, kb = this.kb.value, found, title, of, from, about } = {}) {
    const turn = this.opened;
    const [, { QueryView, titleOf }] = await views();
    if (turn !== this.opened) return;
    const view = new QueryView({ kb, question: "" }, { query: "", query_labelled: "", link: "", language }, offered, { title, of, from });
    view.editor.value = query;
    const base = offered.kbs.find((one) => one.key === kb);
    const hint = of ? h("p", { class: "soft", dir: "auto" }, t("query.of", { question: "" }), from ? h("a", { href: from }, of) : of) : about ? h("p", { dir: "auto" }, about) : !query && h("p", { class: "soft hint" }, base?.name === "Wikidata" ? t("query.hint_wikidata") : t("query.hint"));
    if (!query && base) examplesOf(base).then((known) => {
      const own = known.filter((one) => one.query);
      const some = own.length ? own : [{ query: ANY, text: t("query.any") }];
      view.offer(h("p", { class: "soft" }, t("welcome.try")), h("ul", { class: "kinds" }, shownExamples(some, (one) => {
        view.editor.value = one.query;
        view.name = one.text;
        view.ask();
      })));
    });
    const called = title ?? (titleOf(query) || t("query.label"));
    const element = h("section", { class: "run typed", "data-kb": kb, "aria-label": called }, heading(called), hint, view.element);
    document.title = called;
    this.query = view;
    this.invite();
    runs.append(element);
    this.newest(element);
    if (!title) view.editor.open().then(() => view.editor.focus());
    if (found) view.show(query, found);
    if (now) view.ask();
  }

  work(view, close) {
    this.running = view && { view, close };
    this.send.textContent = view ? t("ask.next") : t("ask.label");
    this.stop.hidden = !view;
    this.stop.disabled = false;
  }

  /** The newest question stands at the top, with room for its steps above the bar. */
  newest(element) {
    runs.querySelector(".newest")?.classList.remove("newest");
    element.classList.add("newest");
    element.scrollIntoView({ block: "start" });
  }

  /** To the box, unless a keyboard would rise over what is to be read. */
  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.question.focus({ preventScroll: true });
  }

  /** Show a run, and listen where it goes on; `views` has what shows it. */
  show(run, [{ RunView }]) {
    const view = new RunView(run, offered, (question) => this.put(question), () => this.holds(run.kb, run.question));
    runs.append(view.element);
    this.views.push(view);
    this.invite();
    if (!view.done) {
      const last = run.events.length ? run.events.at(-1).id : 0;
      const close = listen(run.id, last, (event) => this.heard(view, event));
      this.work(view, close);
    }
    return view;
  }

  /** What the box is for: a follow-up, also to a query, which rules do not read; after an unanswered question, of which one before it. */
  invite() {
    if (this.query) {
      this.question.placeholder = this.readsQueries ? t("ask.query") : t("ask.placeholder");
      return;
    }
    const asked = [...this.views].reverse();
    const [last, from] = [asked[0], asked.find((view) => view.answered)];
    const lost = last?.done && !last.answered && last.run.model === "offline";
    this.question.placeholder = !lost ? t("ask.follow") : from ? t("ask.from", { question: from.run.question }) : t("ask.another");
  }

  heard(view, event) {
    if (event.kind === "lost") return showLost(event);
    hideLost();
    const said = view.apply(event);
    if (said) say(said);
    this.invite();
    if (view.done && this.running?.view === view) {
      this.work(null);
      this.focus();
      const question = next();
      if (question) this.put(question);
    }
    return undefined;
  }

  get readsQueries() {
    return this.model.value !== "offline" && !this.base.rankings.includes(this.system.value);
  }

  /** Ask a question: now, or after the one that is being answered; `choice` has another `system` and `model`. */
  async put(question, choice = {}) {
    if (!question.trim() || this.send.disabled) return;
    clearComplaint();
    const typed = linked(question);
    if (SPARQL.test(typed)) {
      this.write(typed, { now: true });
      return this.empty(question);
    }
    const id = ID.exec(question)?.[1].toUpperCase();
    if (id && this.base.name === "Wikidata" && !choice.system && await this.describe(id)) return this.empty(question);
    const plain = (text) => text.toLowerCase().replace(/[\s.?!]+$/, "").trim();
    const shown = this.examples.kb === this.kb.value && !choice.system ? this.examples.found : [];
    const example = shown.find((one) => one.query && plain(one.text) === plain(question));
    if (example) {
      this.try(example);
      return this.empty(question);
    }
    if (this.running && !choice.system) {
      enqueue(question);
      say(t("queue.said", { question }));
      return this.empty(question);
    }
    this.send.disabled = true;
    const turn = this.opened;
    const query = this.query && this.readsQueries ? this.query.editor.value.replace(/^\s*#.*$/gm, "").trim() : "";
    const chosen = { question: query ? `${question}\n\n${query}` : question, system: this.system.value, model: this.model.value, ...choice };
    const sent = h("section", { class: "run", "aria-label": question }, heading(question), h("p", { class: "soft" }, t("run.waiting")));
    if (!runs.querySelector(".run:not(.typed)")) {
      if (!this.query) this.clear();
      this.kept.place.closest("aside").hidden = false; // now, and not when the list comes: nothing moves then
      this.focus();
    }
    runs.append(sent);
    this.newest(sent);
    try {
      const [run, parts] = await Promise.all([this.session ? call(`/api/sessions/${encodeURIComponent(this.session)}/questions`, "POST", chosen) : this.begin(chosen, question, turn), views()]);
      this.list();
      if (turn !== this.opened) return;
      if (this.query) { // now, and not before: a query that was typed is not lost with a question that is refused
        this.clear();
        this.focus();
      }
      this.empty(question);
      sent.remove();
      this.newest(this.show(run, parts).element);
    } catch (error) {
      if (turn !== this.opened) return;
      sent.remove();
      if (!runs.children.length) this.welcome();
      complain(error.message);
      this.question.value ||= question; // one that had waited is not lost
    } finally {
      this.send.disabled = false;
    }
  }

  /** Begin a session by its first question, which is shown unless somebody went elsewhere; its run. */
  async begin(chosen, question, turn) {
    const made = await call("/api/sessions", "POST", { kb: this.kb.value, ...chosen });
    if (turn === this.opened) {
      this.session = made.id;
      openQueue(made.id);
      history.pushState(null, "", `/s/${made.id}`);
      document.title = question;
    }
    return made.runs[0];
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

  /** Put away what is shown, for a session or for what belongs to none. */
  away(id) {
    this.running?.close();
    this.work(null);
    hideLost();
    clearComplaint();
    this.clear();
    this.session = id;
    openQueue(id);
    return ++this.opened;
  }

  async open(id) {
    const turn = this.away(id);
    const left = () => turn !== this.opened; // somebody went elsewhere, or away and back
    if (!id) {
      this.list();
      return kept("query") ? this.again(kept("query")) : this.welcome();
    }
    this.kept.spare(id);
    try {
      const [found, parts] = await Promise.all([call(`/api/sessions/${encodeURIComponent(id)}`), views()]);
      if (left()) return undefined;
      const last = found.runs.at(-1);
      this.fillChoice({ ...found, ...(last && { system: last.system, model: last.model }) });
      document.title = found.title || "kbnav";
      for (const run of found.runs) this.show(run, parts);
      if (found.runs.length > 1) this.newest(this.views.at(-1).element);
      const question = !this.running && next(); // it waited for one that was answered while nobody looked
      if (question) this.put(question);
    } catch (error) {
      if (!left()) runs.append(h("p", { class: "problem" }, error.message));
    }
    return undefined;
  }

  /** A query that the address has, under its title where it is an example or was given one. */
  async again(query) {
    const kb = kept("kb");
    if (offered.kbs.some((one) => one.key === kb)) this.fillChoice({ kb });
    const turn = this.opened;
    const known = [this.kept.queries.find((one) => one.query === query && one.kb === this.kb.value), (await examplesOf(this.base)).find((one) => shapeOf(one.query) === shapeOf(query))];
    if (turn === this.opened) this.showQuery(query, { now: true, title: known[0]?.title ?? known[1]?.text, of: known[0]?.of, from: known[0]?.from });
  }

  list() {
    return this.kept.load(this.session);
  }

  grow() {
    this.question.style.height = "auto";
    this.question.style.height = `${Math.min(this.question.scrollHeight + 2, 200)}px`;
  }
}

listenToMenus();
if (offered.share) {
  showShared();
} else {
  new Chat();
}
