// Runs of benchmarks while they go on: sums, the questions under way with their last step, and what was answered.

import { call } from "./client.js";
import { h } from "./dom.js";
import { number, t } from "./text.js";

const AGAIN = 1000; // milliseconds between two looks
const MOST = 500; // samples that are shown at once
const SHOW = { runs: showRuns, run: showRun, sample: showSample };
const STATES = { live: t("view.live"), over: t("view.over"), stopped: t("view.stopped") };
const place = document.querySelector("[data-page]");
const told = document.getElementById("told");
const samples = new Map();
let version = 0;

look();

/** Look, and again later; a server that is away for a while is no reason to stop. */
async function look() {
  try {
    await SHOW[place.dataset.page]();
    told.textContent = "";
  } catch (error) {
    told.textContent = error.message;
  }
  setTimeout(look, AGAIN);
}

function table(label, heads, rows) {
  const head = ([text, numeric]) => h("th", { scope: "col", class: numeric && "number" }, text);
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map(head))), h("tbody", {}, rows)));
}

/** Put something in a place, unless it is there already: who reads or selects it is left alone. */
function put(where, made) {
  if (where.firstElementChild?.isEqualNode(made)) return;
  where.replaceChildren(made);
}

const percent = (score) => score === null ? "–" : number(100 * score, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const dollars = (cost) => cost === null ? "–" : `$${cost.toFixed(4)}`;
const seconds = (value) => value === null ? "–" : number(value, { maximumFractionDigits: 1 });
const named = (run) => `/run?name=${encodeURIComponent(run)}`;
const numeric = (text) => h("td", { class: "number" }, text);

async function showRuns() {
  const runs = await call("/api/runs");
  if (!runs.length) return put(place, h("p", {}, t("view.none")));
  const heads = [[t("view.run")], [t("view.state")], [t("choice.system")], [t("view.dataset")], [t("view.done"), true], [t("view.open"), true], [t("view.failed"), true], [t("view.score"), true], [t("view.cost"), true], [t("view.tokens"), true], [t("view.seconds"), true]];
  const row = (run) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: named(run.name) }, h("bdi", {}, run.name))),
    ...(run.problem ? [h("td", { colspan: 10, class: "bad" }, run.problem)] : [
      h("td", { class: run.state }, STATES[run.state]),
      h("td", {}, h("bdi", {}, run.system), " ", h("small", {}, run.model)), h("td", {}, h("bdi", {}, run.dataset)),
      numeric(`${number(run.done)}/${number(run.total)}`), numeric(number(run.under_way)), numeric(number(run.failed)),
      h("td", { class: "number" }, percent(run.score), run.metric && h("small", {}, ` ${run.metric}`)), numeric(dollars(run.cost)), numeric(number(run.tokens)), numeric(seconds(run.seconds))]));
  return put(place, table(t("view.head"), heads, runs.map(row)));
}

async function showRun() {
  const { name } = place.dataset;
  const run = await call(`/api/run?name=${encodeURIComponent(name)}&after=${version}`);
  version = run.version;
  for (const one of run.samples) samples.set(one.id, one);
  const sums = [STATES[run.state], t("view.so_many", { done: run.done, n: run.total }), t("view.failed_n", { n: run.failed })];
  if (run.score !== null) sums.push(`${run.metric} ${percent(run.score)}`);
  if (run.cost !== null) sums.push(dollars(run.cost));
  if (run.tokens) sums.push(t("run.tokens", { n: run.tokens }));
  document.getElementById("sums").textContent = sums.join(" · ");
  const bar = document.getElementById("progress");
  bar.max = run.total || 1;
  bar.value = run.done;
  put(document.getElementById("open"), underWay(name, run));
  if (run.samples.length || !document.getElementById("samples").firstElementChild) filtered();
}

function sampleLink(run, one) {
  return h("a", { href: `/sample?run=${encodeURIComponent(run)}&id=${encodeURIComponent(one.id)}` }, h("bdi", {}, one.question || one.id));
}

/** The questions under way, that which is asked for longest first. */
function underWay(name, run) {
  if (!run.open.length) return h("p", { class: "soft" }, t("view.open_none"));
  const row = (one) => h("tr", { "data-id": one.id }, h("th", { scope: "row" }, sampleLink(name, one)), numeric(seconds(Math.max(0, Math.round(run.now - one.began)))), numeric(number(one.steps)), h("td", {}, lastStep(one.step)));
  return table(t("view.under_way"), [[t("view.question")], [t("view.seconds"), true], [t("view.steps"), true], [t("view.last")]], run.open.map(row));
}

function lastStep(step) {
  if (!step) return h("span", { class: "soft" }, t("view.no_step"));
  const given = Object.values(step.arguments).join(", ");
  return h("div", {}, step.thought && h("p", { class: "thought", dir: "auto" }, step.thought), h("p", { class: "action" }, h("code", {}, step.tool), " ", h("span", { dir: "auto" }, given)),
    step.observation !== undefined && h("p", { class: step.ok ? "soft" : "bad", dir: "auto" }, step.observation));
}

function kindOf(one) {
  if (one.error) return "failed";
  if (one.score === null) return "";
  return one.score >= 1 ? "right" : one.score > 0 ? "partly" : "wrong";
}

/** The samples that fit the filter, the newest first. */
function filtered() {
  const text = document.getElementById("text").value.trim().toLocaleLowerCase();
  const kind = document.getElementById("kind").value;
  const fits = [...samples.values()].reverse().filter((one) => (!kind || kindOf(one) === kind) && (!text || `${one.id}\n${one.question}`.toLocaleLowerCase().includes(text)));
  document.getElementById("count").textContent = t("view.some", { n: fits.length, all: samples.size });
  const row = (one) => h("tr", { class: kindOf(one), "data-id": one.id }, h("th", { scope: "row" }, sampleLink(place.dataset.name, one)),
    h("td", {}, one.error || one.status), numeric(percent(one.score)), h("td", { class: "number" }, number(one.steps), one.tool && h("small", {}, ` ${one.tool}`)), numeric(number(one.tokens)), numeric(dollars(one.cost)), numeric(seconds(one.seconds)));
  const heads = [[t("view.question")], [t("view.state")], [t("view.score"), true], [t("view.steps"), true], [t("view.tokens"), true], [t("view.cost"), true], [t("view.seconds"), true]];
  document.getElementById("samples").replaceChildren(table(t("view.answered"), heads, fits.slice(0, MOST).map(row)), fits.length > MOST ? h("p", { class: "soft" }, t("view.first", { n: MOST })) : "");
}

if (place.dataset.page === "run") {
  const form = document.getElementById("filter");
  form.addEventListener("input", filtered);
  form.addEventListener("submit", (event) => event.preventDefault());
}

/** What a question under way is at; the whole of it once it is answered. */
async function showSample() {
  const { name, id } = place.dataset;
  const run = await call(`/api/run?name=${encodeURIComponent(name)}&after=${version}`);
  version = run.version;
  if (run.samples.some((one) => one.id === id)) return location.reload();
  const one = run.open.find((open) => open.id === id);
  return put(place, one ? h("div", {}, h("p", {}, t("view.at", { n: one.steps })), lastStep(one.step)) : h("p", {}, t("view.not_yet")));
}
