// Why a row is there: the statements that make it true, below the row, looked up when they are asked for.

import { dated, readable } from "./cells.js";
import { h, link } from "./dom.js";
import { withVariables } from "./readings.js";
import { t } from "./text.js";

const ADDRESS = 60; // characters of an address that are shown

/** What is known of one row, beside rows of the entities that are `shown`; of a `no` there may be nothing. */
export function statements(found, shown = new Set(), no = false) {
  if (found.failed) return [h("span", { class: "problem" }, t("evidence.failed", { why: found.failed }))];
  const told = found.rows[0] ?? [];
  return [
    told.length > 0 && h("ul", { class: "statements" }, told.map((one) => h("li", { dir: "auto" }, statement(one, found.copy, shown)))),
    told.length === 0 && found.absent.length === 0 && h("p", {}, t(no ? "absent.not_stated" : "evidence.none")),
    ...found.absent.map((condition) => h("p", { dir: "auto" }, withVariables(t("evidence.absent", { condition })))),
    found.cut && h("p", { class: "soft" }, t("evidence.cut")),
    ...found.untold.map((part) => h("p", { class: "soft" }, t("evidence.untold", { part }))),
  ].filter(Boolean);
}

/** A statement with what it rests on; of a `copy` which may lack that, without other values that are `shown` as rows. */
function statement(one, copy, shown) {
  const others = one.others.filter((other) => !shown.has(other.id));
  if (one.source === "document") return [cell(one.subject), h("span", { class: "soft" }, ` ${t("evidence.document")} `), h("q", { dir: "auto" }, one.value.text)];
  const page = one.statement && /^https:\/\/www\.wikidata\.org\/wiki\/Q\d+$/.test(one.subject.href) && /P\d+$/.exec(one.property.href);
  const claim = h("span", {}, cell(one.subject), " — ", link(one.property.text, one.property.href), " — ", cell(one.value));
  if (one.source === "generated") return [claim, warning(t("evidence.generated"))];
  if (one.chain) return [claim, h("span", { class: "soft" }, ` ${t("evidence.chain")}`)];
  return [claim,
    one.rank === "deprecated" && warning(t("evidence.deprecated")),
    one.rank === "preferred" && h("span", { class: "soft" }, ` ${t("evidence.preferred")}`),
    one.higher.length > 0 && h("div", { class: "soft" }, t("evidence.higher"), " ", listed(one.higher.map(cell))),
    others.length > 0 && h("div", { class: "soft" }, t("evidence.beside"), " ", listed(others.map(cell))),
    one.lower.length > 0 && h("div", { class: "soft" }, t("evidence.lower"), " ", listed(one.lower.map(cell))),
    one.qualifiers.length > 0 && h("ul", { class: "qualifiers" }, one.qualifiers.map((pair) => h("li", {}, said(pair)))),
    one.statement && h("ul", { class: "qualifiers" }, one.references.length > 0
      ? one.references.map((pairs) => h("li", {}, t("evidence.reference"), " ", listed(pairs.map(said))))
      : h("li", {}, t(copy ? "evidence.no_copied" : "evidence.no_reference")),
    page && h("li", {}, link(t("evidence.edit"), `${one.subject.href}#${page[0]}`)))];
}

function warning(text) {
  return h("span", { class: "badge" }, text);
}

function said(pair) {
  return h("span", {}, pair.property.text, ": ", cell(pair.value));
}

/** A value with its page; of a long address the beginning is shown. */
function cell(value) {
  if (value.kind === "unknown") return h("em", {}, t("cell.unknown"));
  if (value.kind === "date") return h("span", { title: value.text }, dated(value.text, false, value.precision));
  if (value.kind === "number") return h("span", { title: value.text }, readable(value.text));
  const address = value.href === value.text && value.text.replace(/^https?:\/\/(www\.)?/, "");
  if (address) return link(address.length > ADDRESS ? `${address.slice(0, ADDRESS)}…` : address, value.href, { title: value.text });
  return value.href ? link(value.text, value.href, { lang: value.language, "data-entity": value.id }) : h("span", { dir: "auto", lang: value.language }, value.text);
}

function listed(parts) {
  return h("span", {}, parts.flatMap((part, place) => (place ? [", ", part] : [part])));
}
