// The sessions and the queries that are kept: found, renamed, taken along, deleted and fetched back.

import { kept } from "./address.js";
import { call } from "./client.js";
import { h } from "./dom.js";
import { icon } from "./menu.js";
import { language, t } from "./text.js";

const UNDO = 30_000; // milliseconds for which a deleted session can be fetched back
const SEARCHED = 5; // sessions from which on they can be searched
const QUERIES = 50; // that are kept
const LETTERS = 80; // of a query in the list
const FORMS = { html: "HTML", json: "JSON", wiki: "Wikitext" };

/** The sessions and queries of a `user`; `called` names a knowledge base where there are several, `leave` is called where the session that is shown was deleted, `complain` where something fails. */
export class History {
  constructor({ leave, complain, called, user }) {
    Object.assign(this, { leave, complain, called });
    this.key = `queries ${user}`;
    this.place = document.querySelector("#sessions ul");
    this.find = h("input", { type: "search", class: "find", placeholder: t("session.find"), "aria-label": t("session.find"), hidden: true, oninput: () => this.search() });
    this.place.before(this.find);
    this.found = [];
    this.said = new Set(); // sessions in which what is looked for was asked or answered
    this.going = new Map(); // sessions that are deleted unless somebody thinks better of it, each with its timer
    addEventListener("pagehide", () => this.going.forEach((_, id) => this.remove(id)));
  }

  /** The queries that were run, the last one first. */
  get queries() {
    try {
      return JSON.parse(localStorage.getItem(this.key)) ?? [];
    } catch {
      return [];
    }
  }

  set queries(queries) {
    try {
      localStorage.setItem(this.key, JSON.stringify(queries.slice(0, QUERIES)));
    } catch {
      // a browser that keeps nothing
    }
  }

  /** Keep a query with its `title`, the question that it is a change `of` and its address `from`, the `name` of the example that it is, and what it asks in `words`. */
  ran({ query, kb, title, of, from, name, words }) {
    const spaced = (text) => text.replace(/\s+/g, " ").trim();
    const before = this.queries.find((one) => spaced(one.query) === spaced(query) && one.kb === kb);
    this.queries = [{ title, of, from, name, words, ...before, query, kb, id: `query ${Date.now()}`, made: Date.now() / 1000 }, ...this.queries.filter((one) => one.id !== before?.id)];
    this.current = "";
    this.show();
  }

  async load(current) {
    const found = await call("/api/sessions").catch(() => this.found);
    const same = current === this.current && JSON.stringify(found) === JSON.stringify(this.found);
    this.current = current;
    this.found = found;
    if (!same) this.show(); // or a menu that somebody has just opened would close
  }

  /** By titles at once, and by questions and answers once the server has looked. */
  search() {
    this.show();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      const find = this.find.value.trim();
      const found = find ? await call(`/api/sessions?${new URLSearchParams({ find })}`).catch(() => []) : [];
      if (find !== this.find.value.trim()) return;
      this.said = new Set(found.map((one) => one.id));
      this.show();
    }, 250);
  }

  show() {
    const wanted = this.find.value.trim().toLocaleLowerCase();
    const queries = this.queries.map((one) => ({ ...one, title: one.title ?? one.name ?? (one.words || brief(one.query)) }));
    const all = [...this.found, ...queries].sort((one, other) => other.made - one.made);
    this.place.closest("aside").hidden = !all.length;
    this.find.hidden = all.length < SEARCHED;
    const shown = all.filter((one) => (wanted && this.said.has(one.id)) || `${one.title} ${one.query ?? ""}`.toLocaleLowerCase().includes(wanted));
    const focused = document.activeElement?.dataset.id;
    this.place.replaceChildren(...shown.map((one) => this.going.has(one.id) ? this.gone(one) : this.item(one)));
    if (focused) this.focus(focused);
  }

  item(one) {
    const here = one.query ? !this.current && one.query === kept("query") : one.id === this.current;
    const href = one.query ? `/#${new URLSearchParams({ query: one.query, kb: one.kb })}` : `/s/${encodeURIComponent(one.id)}`;
    const title = h("a", { href, "aria-current": here ? "page" : false }, h("span", { class: "title", dir: "auto", title: one.query || one.title }, one.title),
      h("small", {}, h("time", { datetime: new Date(one.made * 1000).toISOString() }, when(one.made)), one.query && ` · ${t("query.write")}`, this.called(one.kb) && ` · ${this.called(one.kb)}`));
    const files = !one.query && Object.entries(FORMS).map(([form, name]) => h("a", { href: `/api/sessions/${encodeURIComponent(one.id)}/${form}`, download: "" }, t("session.file", { form: name })));
    const menu = h("details", { class: "menu" }, h("summary", { "aria-label": t("session.menu", { title: brief(one.title) }), title: t("session.menu_short") }, icon("more")),
      h("div", { class: "choices" }, h("button", { type: "button", onclick: () => this.rename(item, one) }, t("session.rename")), files,
        h("button", { type: "button", class: "delete", "aria-label": t("session.delete", { title: brief(one.title) }), onclick: () => this.drop(one) }, t("session.delete_short"))));
    const item = h("li", {}, title, menu);
    return item;
  }

  rename(item, one) {
    const box = h("input", { type: "text", maxlength: 200, dir: "auto", "aria-label": t("session.rename") });
    box.value = one.title;
    const keep = async () => {
      try {
        const title = box.value.trim();
        if (title && one.query) this.queries = this.queries.map((other) => other.id === one.id ? { ...other, title } : other);
        else if (title && title !== one.title) Object.assign(this.found.find((other) => other.id === one.id), await call(`/api/sessions/${encodeURIComponent(one.id)}`, "PATCH", { title }));
        if (one.id === this.current) document.title = one.title;
      } catch (error) {
        this.complain(error);
      }
      this.show();
    };
    const form = h("form", { onsubmit: (event) => (event.preventDefault(), keep()) }, box);
    box.addEventListener("keydown", (event) => event.key === "Escape" && (event.stopPropagation(), this.show()));
    item.replaceChildren(form);
    box.select();
  }

  /** It goes after a while, unless it is fetched back, or when the page is left. */
  async drop(one) {
    this.going.set(one.id, setTimeout(() => this.remove(one.id), UNDO));
    if (one.id === this.current || (one.query && one.query === kept("query"))) await this.leave();
    this.show();
    this.focus(one.id);
  }

  /** To what fetches a deleted one back. */
  focus(id) {
    this.place.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus();
  }

  gone(one) {
    const back = () => this.spare(one.id);
    return h("li", { class: "soft", role: "status" }, t("session.deleted"), " ", h("button", { type: "button", "data-id": one.id, onclick: back }, t("session.undo")));
  }

  /** Fetch back what was deleted. */
  spare(id) {
    clearTimeout(this.going.get(id));
    if (this.going.delete(id)) this.show();
  }

  async remove(id) {
    this.going.delete(id);
    try {
      if (id.startsWith("query ")) this.queries = this.queries.filter((one) => one.id !== id);
      else await call(`/api/sessions/${encodeURIComponent(id)}`, "DELETE", undefined, { keepalive: true });
      this.found = this.found.filter((one) => one.id !== id);
      this.place.querySelector(`[data-id="${CSS.escape(id)}"]`)?.parentElement.remove(); // the others may have a menu open
    } catch (error) {
      this.complain(error);
      this.show();
    }
    if (!this.place.children.length) this.show();
  }
}

/** The beginning of a query behind its comments. */
function brief(query) {
  const text = query.replace(/^\s*#.*$/gm, "").replace(/\s+/g, " ").trim();
  return text.length > LETTERS ? `${text.slice(0, LETTERS)}…` : text;
}

/** The time of today, the date of any other day. */
function when(seconds) {
  const date = new Date(seconds * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(language, today ? { timeStyle: "short" } : { dateStyle: "medium" }).format(date);
}
