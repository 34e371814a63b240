// A result: its rows a page at a time, sorted and searched by the server, its downloads, and what can be drawn of it.

import { showCells } from "./cells.js";
import { drawCharts } from "./chart.js";
import { call, freshName } from "./client.js";
import { h } from "./dom.js";
import { evidenceButton } from "./evidence.js";
import { drawMap } from "./map.js";
import { number, t } from "./text.js";
import { drawTimeline } from "./timeline.js";

const PAGE = 50;
const SEARCHED = 10; // rows from which on they can be searched
const FORMS = { csv: "CSV", tsv: "TSV", json: "JSON", nt: "RDF", xlsx: "Excel" };

/** Where the statements behind a run's rows are: those of its answer, or of its query as it was changed. */
export function evidenceOf(run, offered, edited = false) {
  const of = offered.share ? `/api/shared/${encodeURIComponent(offered.share)}` : `/api/runs/${encodeURIComponent(run.id)}`;
  return { base: `${of}/evidence`, edited };
}

/**
 * A view of a result. `base` is the address that its rows and files are under, `title` what its files are called after,
 * `edited` says of which of a run that is shared. `evidence` has the address at which the statements behind a row are.
 */
export function showResult(result, base, offered, { edited = false, title = "", evidence = null } = {}) {
  const state = { start: 0, sort: "", descending: false, find: "", total: result.rows };
  const more = edited ? { edited } : {};
  const body = h("tbody");
  const heads = result.columns.map((name) => h("th", { scope: "col" },
    h("button", { type: "button", class: "sort", onclick: () => sortBy(name) }, name)));
  const table = h("table", { class: "rows" }, h("thead", {}, h("tr", {}, heads)), body);
  const where = h("span", { class: "where", role: "status" });
  const back = h("button", { type: "button", onclick: () => move(-PAGE) }, t("rows.previous"));
  const on = h("button", { type: "button", onclick: () => move(PAGE) }, t("rows.next"));
  const told = h("span", { class: "soft", role: "status" });
  const find = h("input", { type: "search", class: "find", placeholder: t("rows.find"), "aria-label": t("rows.find"), maxlength: 200 });
  const address = (form, name = "") => `${base}/${form}?${new URLSearchParams({ title: title.slice(0, 200), ...more, ...(name && { name }) })}`;
  const file = (form) => h("a", { href: address(form), download: "", onclick: (event) => fetchFile(event.target, form) }, FORMS[form]);
  const forms = Object.keys(FORMS).filter((form) => form !== "nt" || !result.ranking);
  const pager = h("div", { class: "pager", role: "group", "aria-label": t("rows.label") }, where, result.rows > PAGE && [back, on],
    result.rows >= SEARCHED && find, forms.map(file), told);
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  let asked = 0;

  async function load() {
    const turn = ++asked;
    const { start, sort, descending, find: text } = state;
    const query = new URLSearchParams({ start, count: PAGE, sort, descending, find: text, ...more });
    try {
      const page = await call(`${base}/rows?${query}`);
      if (turn !== asked) return; // another page was asked for meanwhile
      body.replaceChildren(...showCells(page.rows).map((cells, place) => {
        if (evidence && cells.length) cells.at(-1).append(" ", evidenceButton(evidence.base, page.numbers[place], cells.length, evidence));
        return h("tr", {}, cells);
      }));
      state.total = page.total;
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    where.textContent = shown();
    back.disabled = start === 0;
    on.disabled = start + PAGE >= state.total;
    heads.forEach((head, index) => {
      const sorted = result.columns[index] === sort;
      head.setAttribute("aria-sort", sorted ? (descending ? "descending" : "ascending") : "none");
    });
  }

  /** Which rows of how many. */
  function shown() {
    if (state.find) return t("rows.found", { n: state.total, all: result.rows });
    const total = result.total > result.rows ? t("rows.kept", { kept: result.rows, total: result.total }) : number(result.rows);
    if (result.rows > PAGE) return t("rows.some", { first: state.start + 1, last: Math.min(state.start + PAGE, result.rows), total });
    return result.total > result.rows ? total : t("rows.all", { n: result.rows });
  }

  /** Give a download a name, by which it is told how many come first. */
  async function fetchFile(anchor, form) {
    if (offered.share) return;
    const name = freshName();
    anchor.href = address(form, name);
    let line;
    do {
      await new Promise((done) => setTimeout(done, 1000));
      line = await call(`/api/downloads/${name}`).catch(() => null);
      told.textContent = line?.before ? t("run.before", { n: line.before }) : "";
    } while (line?.before);
  }

  function move(rows) {
    state.start = Math.max(0, state.start + rows);
    load();
  }

  function sortBy(name) {
    state.descending = state.sort === name && !state.descending;
    state.sort = name;
    state.start = 0;
    load();
  }

  let waiting = 0;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.find = find.value.trim();
      state.start = 0;
      load();
    }, 250);
  });
  load();
  const charts = result.charts ?? (result.chart ? [result.chart] : []); // an earlier version kept one
  return h("div", { class: "result" },
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("rows.region") }, table), problem,
    result.cut && h("p", { class: "soft" }, result.cut), pager,
    charts.length > 0 && drawCharts(charts), result.events?.length > 1 && drawTimeline(result.events),
    result.points.length > 0 && drawMap(result.points, offered.tiles, offered.tilesCredit));
}
