// A result: its rows a page at a time, sorted and searched by the server, its downloads, and what can be drawn of it.

import { imprecise, showCells } from "./cells.js";
import { drawCharts } from "./chart.js";
import { call } from "./client.js";
import { h } from "./dom.js";
import { evidenceButton } from "./evidence.js";
import { graphButton } from "./graph.js";
import { drawMap } from "./map.js";
import { number, t } from "./text.js";
import { drawTimeline } from "./timeline.js";

const PAGE = 50;
const SEARCHED = 10; // rows from which on they can be searched
const FORMS = { csv: "CSV", tsv: "TSV", json: "JSON", nt: "RDF", xlsx: "Excel" };

/** A view of a result; `base` is the address that its rows, files and statements are under, `title` what its files are called after. */
export function showResult(result, base, offered, title) {
  return new ResultView(result, base, offered, title).element;
}

class ResultView {
  constructor(result, base, offered, title) {
    Object.assign(this, { result, base, offered, title });
    this.state = { start: 0, sort: "", descending: false, find: "", total: result.rows };
    this.asked = 0; // pages
    this.body = h("tbody");
    this.heads = result.columns.map((name) => h("th", { scope: "col" },
      h("button", { type: "button", class: "sort", onclick: () => this.sortBy(name) }, name)));
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    const table = h("table", { class: "rows" }, h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.element = h("div", { class: "result" },
      h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("rows.region") }, table), this.problem,
      result.cut && h("p", { class: "soft" }, result.cut), this.pager(), this.drawings());
    this.load();
  }

  /** Which rows these are, the pages before and behind them, a search, and files. */
  pager() {
    const { result } = this;
    this.where = h("span", { class: "where", role: "status" });
    this.back = h("button", { type: "button", onclick: () => this.move(-PAGE) }, t("rows.previous"));
    this.on = h("button", { type: "button", onclick: () => this.move(PAGE) }, t("rows.next"));
    const file = (form) => h("a", { href: this.address(form), download: "" }, FORMS[form]);
    const forms = Object.keys(FORMS).filter((form) => form !== "nt" || result.columns.join() === "subject,predicate,object");
    return h("div", { class: "pager", role: "group", "aria-label": t("rows.label") }, this.where, result.rows > PAGE && [this.back, this.on],
      result.rows >= SEARCHED && this.search(), forms.map(file));
  }

  search() {
    const find = h("input", { type: "search", class: "find", placeholder: t("rows.find"), "aria-label": t("rows.find"), maxlength: 200 });
    let waiting = 0;
    find.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.change({ find: find.value.trim(), start: 0 }), 250);
    });
    return find;
  }

  /** Charts, a timeline, a map, and the statements as a graph. */
  drawings() {
    const { result, offered } = this;
    const charts = result.charts ?? (result.chart ? [result.chart] : []); // an earlier version kept one
    return [charts.length > 0 && drawCharts(charts), result.events?.length > 1 && drawTimeline(result.events),
      result.points.length > 0 && drawMap(result.points),
      result.rows > 0 && graphButton(`${this.base}/evidence`, () => this.numbers ?? [])];
  }

  async load() {
    const turn = ++this.asked;
    this.element.setAttribute("aria-busy", "true");
    const { start, sort, descending, find } = this.state;
    const query = new URLSearchParams({ start, count: PAGE, sort, descending, find });
    try {
      const page = await call(`${this.base}/rows?${query}`);
      if (turn !== this.asked) return; // another page was asked for meanwhile
      this.numbers = page.numbers;
      this.show(page);
      this.state.total = page.total;
      this.problem.hidden = true;
      this.date(page, turn);
    } catch (error) {
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
    this.tell();
    this.element.setAttribute("aria-busy", "false");
  }

  show(page) {
    this.body.replaceChildren(...showCells(page.rows).map((cells, place) => {
      if (cells.length) cells.at(-1).append(evidenceButton(`${this.base}/evidence`, page.numbers[place], cells.length));
      return h("tr", {}, cells);
    }));
  }

  /** The first of a month or of a year may stand for the whole: what is stated of it says how precise it is. */
  async date(page, turn) {
    const rows = page.numbers.filter((_, place) => page.rows[place].some(imprecise));
    if (!rows.length) return;
    const query = new URLSearchParams(rows.map((row) => ["row", row]));
    const found = await call(`${this.base}/dates?${query}`).catch(() => null);
    if (!found || turn !== this.asked) return;
    rows.forEach((row, at) => page.rows[page.numbers.indexOf(row)].forEach((value) => {
      if (imprecise(value)) value.precision = found[at]?.[value.text];
    }));
    if (!this.body.querySelector(".evidence")) this.show(page);
  }

  /** Which page of the rows is there, how it is sorted, and where one can go from it. */
  tell() {
    const { start, sort, descending, total } = this.state;
    this.where.textContent = this.shown();
    this.back.disabled = start === 0;
    this.on.disabled = start + PAGE >= total;
    this.heads.forEach((head, index) => {
      const sorted = this.result.columns[index] === sort;
      head.setAttribute("aria-sort", sorted ? (descending ? "descending" : "ascending") : "none");
    });
  }

  /** Which rows of how many. */
  shown() {
    const { result, state } = this;
    if (state.find) return t("rows.found", { n: state.total, all: result.rows });
    const total = result.total > result.rows ? t("rows.kept", { kept: result.rows, total: result.total }) : number(result.rows);
    if (result.rows > PAGE) return t("rows.some", { first: state.start + 1, last: Math.min(state.start + PAGE, result.rows), total });
    return result.total > result.rows ? total : t("rows.all", { n: result.rows });
  }

  address(form) {
    return `${this.base}/${form}?${new URLSearchParams({ title: this.title.slice(0, 200) })}`;
  }

  change(state) {
    Object.assign(this.state, state);
    this.load();
  }

  move(rows) {
    this.change({ start: Math.max(0, this.state.start + rows) });
  }

  sortBy(name) {
    this.change({ descending: this.state.sort === name && !this.state.descending, sort: name, start: 0 });
  }
}
