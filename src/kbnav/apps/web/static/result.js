// A result: its rows a page at a time, its downloads, a chart, a map.

import { drawChart } from "./chart.js";
import { call, freshName } from "./client.js";
import { h, link } from "./dom.js";
import { drawMap } from "./map.js";
import { number, t } from "./text.js";

const PAGE = 50;

/** A view of a result; `base` is the address that its rows and files are under, `edited` says of which of a run that is shared. */
export function showResult(result, base, offered, { edited = false } = {}) {
  const state = { start: 0, sort: "", descending: false };
  const body = h("tbody");
  const heads = result.columns.map((name) => h("th", { scope: "col" },
    h("button", { type: "button", class: "sort", onclick: () => sortBy(name) }, name)));
  const table = h("table", { class: "rows" }, h("thead", {}, h("tr", {}, heads)), body);
  const where = h("span", { class: "where" });
  const back = h("button", { type: "button", onclick: () => move(-PAGE) }, t("rows.previous"));
  const on = h("button", { type: "button", onclick: () => move(PAGE) }, t("rows.next"));
  const told = h("span", { class: "soft", role: "status" });
  const file = (form) => h("a", { href: `${base}/${form}${edited ? "?edited=true" : ""}`, download: `kbnav.${form}`, onclick: (event) => fetchFile(event.target, form) },
    form === "xlsx" ? "Excel" : form.toUpperCase());
  const pager = h("div", { class: "pager", role: "group", "aria-label": t("rows.label") }, where, result.rows > PAGE && [back, on], ["csv", "tsv", "json", "xlsx"].map(file), told);
  const problem = h("p", { class: "problem", role: "alert", hidden: true });

  async function load() {
    const query = new URLSearchParams({ start: state.start, count: PAGE, sort: state.sort, descending: state.descending, ...(edited && { edited }) });
    try {
      const page = await call(`${base}/rows?${query}`);
      body.replaceChildren(...page.rows.map((row) => h("tr", {}, row.map(cell))));
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    const end = Math.min(state.start + PAGE, result.rows);
    const total = result.total > result.rows ? t("rows.kept", { kept: result.rows, total: result.total }) : number(result.rows);
    where.textContent = result.rows > PAGE ? t("rows.some", { first: state.start + 1, last: end, total }) : result.total > result.rows ? total : t("rows.all", { n: result.rows });
    back.disabled = state.start === 0;
    on.disabled = end >= result.rows;
    heads.forEach((head, index) => {
      const sorted = result.columns[index] === state.sort;
      head.setAttribute("aria-sort", sorted ? (state.descending ? "descending" : "ascending") : "none");
    });
  }
  /** Give a download a name, by which it is told how many come first. */
  async function fetchFile(address, form) {
    if (offered.share) return;
    const name = freshName();
    address.href = `${base}/${form}?name=${name}`;
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
  load();
  return h("div", { class: "result" },
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("rows.region") }, table), problem,
    result.cut && h("p", { class: "soft" }, result.cut), pager,
    result.chart && drawChart(result.chart), result.points.length > 0 && drawMap(result.points, offered.tiles, offered.tilesCredit));
}

function cell(value) {
  if (value === null) return h("td", { class: "none" }, "–");
  const text = value.href ? link(value.text, value.href, { lang: value.language }) : h("span", { dir: "auto", lang: value.language }, value.text);
  const id = value.id && value.id !== value.text && h("small", {}, ` ${value.id}`);
  return h("td", { class: value.kind || false }, text, id);
}
