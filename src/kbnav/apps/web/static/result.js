// A result: its rows a page at a time, sorted and searched by the server, its downloads, and the pictures that it allows.

import { keep, kept } from "./address.js";
import { columnName, measurable, showCells } from "./cells.js";
import { call } from "./client.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { menu } from "./menu.js";
import { number, t } from "./text.js";

const PAGE = 50;
const OPEN = ["partial copy", "split graph", "service failed"]; // kinds of nothing after which "no" is not known
const FEW = 5; // rows beside which it is told what else is stated
const SEARCHED = 10; // rows from which on they can be searched
const STATEMENTS = "subject,predicate,object"; // the columns of what CONSTRUCT and DESCRIBE give
const FORMS = { csv: "CSV", tsv: "TSV", json: "JSON", nt: "RDF", xlsx: "Excel" };

/**
 * A view of a result; `base` is the address that its rows, files and statements are under, `title` what its files are
 * called after, `labelled` the query behind comments that name its ids, `absence` which kind of nothing it is, `rows` its first page if that was told, `ranked` whether its statements have ranks. It has an `element`, and `files` for a line of actions. The picture is the one that the page's address has for `key`, else one that the `query` or the title asks for.
 */
export class ResultView {
  constructor(result, base, title, { query, key, labelled = "", absence = result.absence, rows: told, ranked = false }) {
    const stated = result.columns.join() === STATEMENTS && formOf(query) !== "select"; // each row is a statement, and needs no other
    Object.assign(this, { result, base, title, query, key, labelled, told, stated, ranked, open: OPEN.includes(absence?.kind) });
    this.state = { start: 0, sort: "", descending: false, find: "", total: result.rows };
    this.asked = 0; // pages
    this.body = h("tbody");
    const head = (name) => (result.rows > 1 ? h("button", { type: "button", class: "sort", onclick: () => this.sortBy(name) }, columnName(name, result.ranking)) : columnName(name, result.ranking));
    this.heads = result.columns.map((name) => h("th", { scope: "col" }, head(name)));
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    const table = h("table", { class: "rows" }, h("thead", {}, h("tr", {}, this.heads, !stated && h("th", { scope: "col", class: "because" }, t("evidence.head")))), this.body);
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": t("view.choose") });
    this.drawn = h("div", { hidden: true });
    this.table = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("rows.region") }, table);
    this.element = h("div", { class: result.rows === 1 && result.columns.length === 1 ? "result single" : "result" }, this.head(), this.table, this.drawn, this.problem, result.cut && h("p", { class: "soft" }, result.cut), this.pages = this.pager());
    this.table.hidden = !result.rows;
    this.table.style.minHeight = `${2.2 * Math.min(result.rows + 1, PAGE)}rem`; // until they are there
    this.load();
  }

  /** The views, which rows these are, and a search. */
  head() {
    this.where = h("span", { class: "where", role: "status" });
    this.find = this.result.rows >= SEARCHED && this.search();
    return h("div", { class: "line", hidden: this.result.rows === 1, role: "group", "aria-label": t("rows.label") }, this.tabs, this.where, this.find);
  }

  /** The rows as they are shown, a line each, entities with their ids, and how many more there are; a yes or no stands above. */
  get text() {
    if (this.result.columns.join() === "boolean") return "";
    const said = ({ firstChild, children: [, id] }) => `${firstChild.textContent}${id?.matches(".unit") ? id.textContent : id ? ` (${id.textContent.trim()})` : ""}`;
    const lines = [...this.body.querySelectorAll(":scope > tr:not(.evidence)")].map((row) => [...row.querySelectorAll("td:not(.because)")].map(said).join(" · "));
    return [...lines, this.result.rows > PAGE && `… ${this.shown()}`].filter(Boolean).join("\n");
  }

  /** A menu of files. */
  get files() {
    const file = (form) => h("a", { href: this.address(form), download: "" }, FORMS[form]);
    const forms = Object.keys(FORMS).filter((form) => form !== "nt" || this.result.columns.join() === STATEMENTS);
    const text = async () => (await fetch(this.address("tsv"))).text();
    const ids = async () => [...new Set((await text()).split("\n").map((line) => /\/([QPL]\d+)>/.exec(line)?.[1]).filter(Boolean))].join("\n");
    return menu(t("rows.download"), "download", [...forms.map(file), this.ranked && copyButton(t("copy.ids"), ids)], { "data-files": true });
  }

  /** The pages of rows before and behind these. */
  pager() {
    this.back = h("button", { type: "button", onclick: () => this.move(-PAGE) }, t("rows.previous"));
    this.on = h("button", { type: "button", onclick: () => this.move(PAGE) }, t("rows.next"));
    return this.result.rows > PAGE && h("div", { class: "pager" }, this.back, this.on);
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

  /** Tabs of the views that the first rows allow, where there is more than the table; a single value needs none. */
  offer(rows) {
    const { asked, kindsOf, named, viewsOf } = this.pictures;
    const { name, same, nearest } = asked(this.query);
    const before = this.key && kept(this.key);
    const wanted = [before, nearest, ...named(this.title)];
    this.kinds = kindsOf(this.result.columns, rows);
    const single = rows.length === 1 && rows[0].length === 1 && !["point", "picture"].includes(this.kinds[0]) && rows[0][0];
    this.element.classList.toggle("single", Boolean(single));
    if (single?.kind === "unknown") this.body.querySelector("em").textContent = t("cell.not_known");
    const views = viewsOf(this.kinds, this.result, rows);
    const usual = this.result.rows === 1 && this.kinds.join() === "point" ? "map" : "table"; // where something is
    const view = wanted.find((one) => views.includes(one)) ?? usual;
    if (name && rows.length && !before && view !== same) this.element.prepend(this.instead = h("p", { class: "soft" }, t("view.instead", { name, view: t(`view.${view}`) })));
    if (single) return this.element.dispatchEvent(new CustomEvent("single", { bubbles: true, detail: single.text }));
    if (views.length < 2) return undefined;
    this.tabs.parentElement.hidden = false;
    this.tabs.replaceChildren(...views.map((view) => h("button", { type: "button", "data-view": view, onclick: () => this.choose(view) }, t(`view.${view}`))));
    return this.choose(view, true);
  }

  /** Show a view; the page's address keeps it. */
  choose(view, first = false) {
    for (const tab of this.tabs.children) tab.setAttribute("aria-pressed", String(tab.dataset.view === view));
    this.table.hidden = view !== "table";
    for (const part of [this.find, this.pages]) if (part) part.hidden = this.table.hidden;
    this.tell();
    this.drawn.hidden = view === "table";
    if (view !== "table") this.pictures.draw(view, this.drawn, this);
    if (!first) this.instead?.remove();
    if (!first && this.key) keep(this.key, view);
  }

  async load() {
    const turn = ++this.asked;
    this.element.setAttribute("aria-busy", "true");
    const { start, sort, descending, find } = this.state;
    const query = new URLSearchParams({ start, count: PAGE, sort, descending, find });
    try {
      const [page, pictures] = await Promise.all([this.told ?? call(`${this.base}/rows?${query}`), import("./views.js"), import("./card.js")]);
      this.told = undefined;
      this.pictures = pictures;
      if (turn !== this.asked) return; // another page was asked for meanwhile
      this.numbers = page.numbers;
      this.rows = page.rows;
      this.show(page);
      this.table.style.minHeight = "";
      this.table.classList.toggle("wide", this.table.scrollWidth > this.table.clientWidth); // some of it is below the last column
      if (!this.kinds) this.offer(page.rows);
      this.element.dispatchEvent(new CustomEvent("things", { bubbles: true, detail: this.result.columns.filter((_, place) => page.rows.some((row) => row[place]?.id)) }));
      this.state.total = page.total;
      this.problem.hidden = true;
      this.measure(page, turn).then(() => this.rank(page, turn)).catch(() => {});
    } catch (error) {
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
    this.tell();
    this.element.setAttribute("aria-busy", "false");
  }

  show(page) {
    this.body.replaceChildren(...showCells(page.rows, this.open).map((cells, place) => {
      const [no] = page.rows[place].filter((one) => one?.kind === "truth" && one.text === "false");
      const why = cells.length > 0 && !this.stated && h("td", { class: "because" }, evidenceButton(`${this.base}/evidence`, page.numbers[place], cells.length + 1, no));
      return h("tr", {}, cells, why);
    }));
  }

  /** What is stated of numbers and dates says the unit, and whether the first of a month or of a year stands for the whole. */
  async measure(page, turn) {
    const places = this.result.ranking ? [] : page.rows.flatMap((row, place) => (row.some(measurable) ? [place] : []));
    if (!places.length) return;
    const query = new URLSearchParams(places.map((place) => ["row", page.numbers[place]]));
    const found = await call(`${this.base}/measures?${query}`).catch(() => []);
    if (turn !== this.asked) return;
    found.forEach((measures, at) => measures.forEach((one, column) => {
      const value = page.rows[places[at]][column];
      if (one) Object.assign(value, { unit: one.unit, precision: one.precision ?? value.precision });
    }));
    const units = new Map();
    for (const { text, unit = "" } of page.rows.flat().filter((one) => one?.kind === "number")) units.set(text, (units.get(text) ?? unit) === unit ? unit : ""); // of equal numbers all have it
    this.element.dispatchEvent(new CustomEvent("measured", { bubbles: true, detail: units }));
    const lines = this.body.querySelectorAll(":scope > tr:not(.evidence)");
    showCells(page.rows, this.open).forEach((cells, row) => cells.forEach((cell, place) => measurable(page.rows[row][place]) && lines[row].children[place].replaceWith(cell)));
  }

  /** Beside a few rows of the newest answer, not of a shared one, how many other values are stated of lower rank. */
  async rank(page, turn) {
    if (!this.ranked || this.stated || page.total > FEW || this.base.startsWith("/api/shared") || this.element.closest("section")?.nextElementSibling) return;
    const signal = AbortSignal.timeout(15_000);
    const found = await call(`${this.base}/evidence?${new URLSearchParams(page.numbers.map((row) => ["row", row]))}`, "GET", undefined, { signal }).catch(() => null);
    if (!found || turn !== this.asked) return;
    const shown = page.rows.flat().map((one) => one?.text);
    const buttons = this.body.querySelectorAll(".why");
    found.rows.forEach((told, at) => {
      const lower = new Set(told.flatMap((one) => one.lower).map((one) => one.text).filter((text) => !shown.includes(text)));
      if (lower.size) buttons[at].textContent = `${t("evidence.why")} ${t("evidence.ranked", { n: lower.size })}`;
    });
  }

  /** Which page of the rows is there, how it is sorted, and where one can go from it. */
  tell() {
    const { start, sort, descending, total } = this.state;
    this.where.textContent = this.shown();
    this.back.disabled = start === 0;
    this.on.disabled = start + PAGE >= total;
    if (this.pages) this.pages.hidden = this.table.hidden || total <= PAGE; // few were found
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
    if (result.rows > PAGE && !this.table.hidden) return t("rows.some", { first: state.start + 1, last: Math.min(state.start + PAGE, result.rows), total });
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

/** Which form a query has: "select", "ask", "construct" or "describe". */
const formOf = (query = "") => /\b(select|ask|construct|describe)\b(?!:)/i.exec(query.replace(/<[^<>\s]*>|#.*/g, ""))?.[1].toLowerCase();

/** A button for a row, which opens and closes a row of statements below it; `base` is their address, and of a `no` there may be none. */
function evidenceButton(base, number, width, no) {
  let below = null;
  const button = h("button", { type: "button", class: "why", title: t("evidence.show"), "aria-expanded": "false" }, t("evidence.why"));
  button.addEventListener("click", async () => {
    const row = button.closest("tr");
    if (below) {
      below.remove();
      below = null;
      button.setAttribute("aria-expanded", "false");
      return;
    }
    const told = h("div", { "aria-live": "polite" }, h("span", { class: "soft" }, t("evidence.waiting")));
    below = h("tr", { class: "evidence" }, h("td", { colspan: width }, h("div", {}, told))); // as wide as the place, not as the columns
    row.after(below);
    button.setAttribute("aria-expanded", "true");
    try {
      const [found, { statements }] = await Promise.all([call(`${base}?${new URLSearchParams({ row: number })}`), import("./evidence.js")]);
      const shown = new Set([...row.parentElement.querySelectorAll("tr:not(.evidence) a[data-entity]")].map((one) => one.dataset.entity));
      told.replaceChildren(...statements(found, shown, no));
    } catch (error) {
      told.replaceChildren(h("span", { class: "problem" }, error.message));
    }
  });
  return button;
}
