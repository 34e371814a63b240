// Cells of a result: numbers with separators, dates to their precision, entities with their ids, pictures as links.

import { h, link } from "./dom.js";
import { language, number, t } from "./text.js";

const FILE = /^https?:\/\/[^/]+\/(?:[^?#]*\/)?([^/?#]+\.(?:jpe?g|png|svg|gif|webp|tiff?))$/i;
const POINT = /^point\s*\(\s*(\S+)\s+([^\s)]+)\s*\)$/i; // on Earth
const DATE = /^([+-]?\d{1,12})(?:-(\d\d)(?:-(\d\d))?)?$/;

const RANKED = { rank: t("rows.rank"), node: t("rows.node"), type: t("rows.type"), score: t("rows.score"), basis: t("rows.basis") };

/** What a column is called: by its variable, but for the usual one and those of a `ranking`. */
export function columnName(name, ranking = false) {
  return (ranking && RANKED[name]) || (name === "answer" ? t("rows.answer") : name);
}

/** The cells of some rows, a list for each row; in an `open` result a no may be what is only not stated. */
export function showCells(rows, open) {
  const years = (rows[0] || []).map((_, place) => onlyYears(rows.map((row) => row[place])));
  return rows.map((row) => row.map((value, place) => cell(value, years[place], open)));
}

/** Wikidata writes a date that is known to the year as its first of January; so is a column of nothing else. */
function onlyYears(values) {
  const dates = values.filter((value) => value?.kind === "date");
  return dates.length > 1 && dates.every((value) => value.text.endsWith("-01-01"));
}

function cell(value, yearOnly, open) {
  if (value === null) return h("td", { class: "none" }, "–");
  if (value.kind === "number") return h("td", { class: "number" }, h("span", { title: value.text }, grouped(value.text)), value.unit && h("small", { class: "unit", dir: "auto" }, `\u00a0${value.unit}`));
  if (value.kind === "date") return h("td", { class: "date" }, h("span", { title: value.text }, dated(value.text, yearOnly, value.precision)));
  if (value.kind === "point" && located(value)) return h("td", { class: "point" }, h("span", { title: value.text, dir: "ltr" }, located(value)));
  if (value.kind === "unknown") return h("td", {}, h("em", { title: t("cell.not_known") }, t("cell.unknown")));
  if (value.kind === "truth") return h("td", {}, t(value.text === "true" ? "cell.yes" : open ? "cell.unstated" : "cell.no"));
  const image = isPicture(value);
  const shown = image ? fileName(value.href) : value.text;
  const text = value.href ? link(shown, value.href, { lang: value.language, "data-entity": value.id }) : h("span", { dir: "auto", lang: value.language }, shown);
  const id = value.id && value.id !== value.text && h("small", {}, ` ${value.id}`);
  return h("td", { class: image ? "image" : false }, text, id);
}

/** Latitude and longitude of a point. */
export function pointOf(value) {
  const [, lon, lat] = POINT.exec(value.text) || [];
  return lon === undefined ? null : [Number(lat), Number(lon)];
}

/** A point in degrees, to some ten metres, with its directions; "" where it is none. */
export function located(value) {
  const [north, south, east, west] = t("cell.directions").split(" ");
  const told = (degrees, ahead, behind) => `${number(Math.abs(degrees), { maximumFractionDigits: 4 })}°\u00a0${degrees < 0 ? behind : ahead}`;
  const [lat, lon] = pointOf(value) ?? [];
  return lat === undefined ? "" : `${told(lat, north, south)}, ${told(lon, east, west)}`;
}

/** Whether a value is the address of a picture. */
export function isPicture(value) {
  return FILE.test(value?.href || "");
}

/** What the file of a picture is called. */
export function fileName(href) {
  const encoded = FILE.exec(href)[1];
  try {
    return decodeURIComponent(encoded).replaceAll("_", " ");
  } catch {
    return encoded;
  }
}

/** A text that is nothing but numbers, dates and points, or has these behind names, each as a cell has it, of its `units` too; a date that may stand for a month or a year stays. */
export function readable(text, units = new Map()) {
  const [, list, rest] = /^(.*?)( … \(\+\d+\))?$/s.exec(text);
  const one = (part) => /^-?\d+(?:\.\d+)?$/.test(part) ? [grouped(part), units.get(part)].filter(Boolean).join("\u00a0") : /-\d\d-(?!01)\d\d$/.test(part) && DATE.test(part) ? dated(part) : located({ text: part }) || null;
  const shown = list.split(", ").map(one);
  if (shown.includes(null)) return text.replace(/(?<=: )[^;]+(?=; |$)|(?<= \()[^()]+(?=\)$)/g, (part) => one(part) ?? part);
  return shown.join(language === "zh" ? "、" : "; ") + (rest ?? "");
}

/** A number as the reader's language writes it, no digit changed; four before the point, which may be a year, are no groups. */
function grouped(text) {
  const found = /^([+-]?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!found) return text;
  const [, sign, whole, rest] = found;
  const point = (1.5).toLocaleString(language).charAt(1);
  return `${sign === "-" ? "−" : ""}${whole.length > 4 ? BigInt(whole).toLocaleString(language) : whole}${rest ? point + rest : ""}`;
}

/** Whether a value is a number, which may have a unit, or a date that may stand for a month, a year or more. */
export function measurable(value) {
  return value?.kind === "number" || (value?.kind === "date" && value.text.endsWith("-01"));
}

const YEARS = { 8: 10, 7: 100, 6: 1000 }; // of Wikidata's precisions that span some

/** A date as the reader's language writes it, no more precise than it is known. */
export function dated(text, yearOnly, precision) {
  const found = DATE.exec(text);
  if (!found) return text;
  const [year, month, day] = found.slice(1).map((part) => (part === undefined ? undefined : Number(part)));
  if (YEARS[precision] && year > 0) return span(year, YEARS[precision]);
  const date = new Date(Date.UTC(2000, (month || 1) - 1, day || 1));
  date.setUTCFullYear(year);
  if (Number.isNaN(date.getTime())) return text;
  const era = year <= 0 ? { era: "short" } : {};
  const onlyYear = precision ? precision <= 9 : yearOnly || month === undefined;
  const onlyMonth = precision === 10 || day === undefined;
  const shown = onlyYear ? { year: "numeric" } : onlyMonth ? { year: "numeric", month: "long" } : { year: "numeric", month: "short", day: "numeric" };
  return new Intl.DateTimeFormat(language, { ...shown, ...era, timeZone: "UTC" }).format(date);
}

/** The years of a decade, which begins with a round one, or of a century or a millennium, which end with one. */
function span(year, years) {
  const first = years === 10 ? Math.floor(year / 10) * 10 : Math.floor((year - 1) / years) * years + 1;
  return `${first}–${first + years - 1}`;
}
