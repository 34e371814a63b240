// The chat page: what can be chosen, the sessions, the questions.

import { showCards } from "./card.js";
import { call, listen } from "./client.js";
import { h } from "./dom.js";
import { History } from "./history.js";
import { clearComplaint, complain, hideLost, showLost } from "./notices.js";
import { enqueue, next, openQueue } from "./queue.js";
import { RunView, offlineBadge } from "./run.js";
import { t } from "./text.js";

const offered = JSON.parse(document.body.dataset.offered);
const runs = document.getElementById("runs");
const say = (text) => { document.getElementById("status").textContent = text; };

if (offered.share) {
  showShared();
} else {
  chat();
  showCards(runs);
}

async function showShared() {
  try {
    const run = await call(`/api/shared/${encodeURIComponent(offered.share)}`);
    document.title = run.question;
    const view = new RunView(run, offered);
    view.steps.element.open = true;
    runs.append(view.element);
  } catch (error) {
    runs.append(h("p", { class: "problem" }, error.message));
  }
}

function chat() {
  const form = document.getElementById("ask");
  const box = document.getElementById("question");
  const send = document.getElementById("send");
  const stop = document.getElementById("stop");
  const kb = document.getElementById("kb");
  const system = document.getElementById("system");
  const model = document.getElementById("model");
  const badge = document.getElementById("badge");
  const kept = new History({ complain: (error) => complain(error.message), leave: () => {
    history.pushState(null, "", "/");
    open("");
  } });
  let session = offered.session;
  let running = null;
  let opened = 0;

  const options = (select, names, chosen, about = {}) => {
    const option = (name) => h("option", { value: name, selected: name === chosen, title: about[name] }, name);
    const ranks = select === system ? names.filter((name) => base().rankings.includes(name)) : [];
    const answers = names.filter((name) => !ranks.includes(name));
    const group = (label, some) => h("optgroup", { label }, some.map(option));
    select.replaceChildren(...(ranks.length && answers.length ? [group(t("choice.agents"), answers), group(t("choice.rankings"), ranks)] : names.map(option)));
    select.title = about[select.value] || "";
  };
  const base = () => offered.kbs.find((one) => one.key === kb.value);
  const systems = () => base().systems;
  options(kb, offered.kbs.map((one) => one.key));
  options(system, systems(), undefined, base().about);
  options(model, offered.models);
  kb.addEventListener("change", () => {
    options(system, systems(), undefined, base().about);
    leave();
  });
  for (const select of [system, model]) select.addEventListener("change", leave);
  const showBadge = () => badge.replaceChildren(model.value === "offline" ? offlineBadge() : "");
  model.addEventListener("change", showBadge);
  showBadge();
  system.addEventListener("change", () => (system.title = base().about[system.value] || ""));

  /** Another choice is another session. */
  function leave() {
    opened++;
    if (session) {
      session = "";
      openQueue("");
      history.pushState(null, "", "/");
      document.title = "kbnav";
    }
    if (!running) welcome();
  }

  /** What can be asked; where no questions are given, those that are made of the data come as soon as they are there. */
  function welcome() {
    const chosen = kb.value;
    const examples = h("ul");
    const fill = (questions) => examples.replaceChildren(...questions.map((text) => h("li", {}, h("button", { type: "button", class: "example", onclick: () => ask(text) }, text))));
    runs.replaceChildren(h("div", { class: "welcome" }, h("p", {}, t("welcome.ask", { kb: chosen })), examples));
    if (base().examples.length) fill(base().examples);
    else call(`/api/examples/${encodeURIComponent(chosen)}`).then(fill, () => null);
  }

  function work(view, close) {
    running = view && { view, close };
    send.textContent = view ? t("ask.next") : t("ask.label");
    stop.hidden = !view;
    stop.disabled = false;
  }

  /** The newest question stands at the top, with room for its steps above the bar. */
  function newest(view) {
    runs.querySelector(".newest")?.classList.remove("newest");
    view.element.classList.add("newest");
    view.element.scrollIntoView({ block: "start" });
  }

  /** Show a run, and listen where it goes on. */
  function show(run) {
    const view = new RunView(run, offered, ask);
    runs.append(view.element);
    if (!view.done) {
      const last = run.events.length ? run.events.at(-1).id : 0;
      const close = listen(run.id, last, (event) => heard(view, event));
      work(view, close);
    }
    return view;
  }

  function heard(view, event) {
    if (event.kind === "lost") return showLost(event);
    hideLost();
    const said = view.apply(event);
    if (said) say(said);
    if (view.done && running?.view === view) {
      work(null);
      box.focus({ preventScroll: true });
      const question = next();
      if (question) ask(question);
    }
    return undefined;
  }

  /** Ask a question: now, or after the one that is being answered; `choice` has another `system` and `model`. */
  async function ask(question, choice = {}) {
    if (!question.trim() || send.disabled) return;
    clearComplaint();
    if (running && !choice.system) {
      enqueue(question);
      say(t("queue.said", { question }));
      return empty(question);
    }
    send.disabled = true;
    const turn = opened;
    try {
      if (!session) {
        const made = await call("/api/sessions", "POST", { kb: kb.value, system: system.value, model: model.value });
        if (turn !== opened) return; // somebody went elsewhere before anything was asked
        session = made.id;
        openQueue(session);
        runs.replaceChildren();
        history.pushState(null, "", `/s/${session}`);
        document.title = question;
      }
      const run = await call(`/api/sessions/${encodeURIComponent(session)}/questions`, "POST", { question, ...choice });
      list();
      if (turn !== opened) return;
      empty(question);
      newest(show(run));
    } catch (error) {
      if (turn !== opened) return;
      complain(error.message);
      box.value ||= question; // one that had waited is not lost
    } finally {
      send.disabled = false;
    }
  }

  /** Empty the box, unless something else was written into it meanwhile. */
  function empty(question) {
    if (box.value === question) box.value = "";
    grow();
  }

  async function end() {
    if (!running) return;
    stop.disabled = true;
    try {
      await call(`/api/runs/${encodeURIComponent(running.view.run.id)}/stop`, "POST");
    } catch (error) {
      stop.disabled = false;
      complain(error.message);
    }
  }

  async function open(id) {
    running?.close();
    work(null);
    hideLost();
    clearComplaint();
    runs.replaceChildren();
    session = id;
    openQueue(id);
    const turn = ++opened;
    const left = () => turn !== opened; // somebody went elsewhere, or away and back
    if (!id) return welcome();
    try {
      const found = await call(`/api/sessions/${encodeURIComponent(id)}`);
      if (left()) return undefined;
      options(kb, offered.kbs.map((one) => one.key), found.kb);
      options(system, systems(), found.system, base().about);
      options(model, offered.models, found.model);
      showBadge();
      document.title = found.title || "kbnav";
      const views = found.runs.map(show);
      if (views.length > 1) newest(views.at(-1));
      const question = !running && next(); // it waited for one that was answered while nobody looked
      if (question) ask(question);
    } catch (error) {
      if (!left()) runs.append(h("p", { class: "problem" }, error.message));
    }
    return undefined;
  }

  const list = () => kept.load(session);

  function grow() {
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, 200)}px`;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(box.value);
  });
  document.addEventListener("again", ({ detail: { question, ...choice } }) => ask(question, choice));
  document.addEventListener("edit", ({ detail }) => {
    box.value = detail.question;
    grow();
    box.focus();
  });
  stop.addEventListener("click", end);
  box.addEventListener("input", grow);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask(box.value);
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape") end();
    if (event.key === "/" && !typing) {
      event.preventDefault();
      box.focus();
    }
  });
  window.addEventListener("popstate", () => open(location.pathname.startsWith("/s/") ? decodeURIComponent(location.pathname.slice(3)) : ""));
  const bar = new ResizeObserver(() => document.documentElement.style.setProperty("--bar", `${form.offsetHeight}px`));
  bar.observe(form);
  if (matchMedia("(max-width: 50rem)").matches) document.getElementById("sessions").open = false;
  open(session).then(list);
  box.focus({ preventScroll: true });
}
