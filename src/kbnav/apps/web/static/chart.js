// Bars and lines over time, drawn as SVG; the table beside them says the same in text.

import { h, s } from "./dom.js";
import { number, t } from "./text.js";

const WIDTH = 640;
const HEIGHT = 280;
const LETTER = 6.8; // width of one, at the size of the figures
const SERIES = 6; // lines that colours tell apart
const DRAWN = { line, bars };
const KINDS = { line: "chart.line", bars: "chart.bars" };

/** Figures of a result, one at a time where there are several. */
export function drawCharts(charts) {
  if (charts.length === 1) return figure(charts[0]);
  const place = h("div", {}, figure(charts[0]));
  const kinds = charts.map((chart, index) => h("button", { type: "button", "aria-pressed": String(index === 0), onclick: () => choose(index) }, t(KINDS[chart.kind])));
  function choose(index) {
    kinds.forEach((kind, at) => kind.setAttribute("aria-pressed", String(at === index)));
    place.replaceChildren(figure(charts[index]));
  }
  return h("div", { class: "charts" }, h("div", { class: "tools", role: "group", "aria-label": t("chart.choose") }, kinds), place);
}

function figure(chart) {
  const { x, y } = chart;
  const drawing = DRAWN[chart.kind](chart);
  const label = t("chart.label", { x, y, n: chart.points.length });
  const means = chart.points.some((point) => point.of) && t("chart.means");
  const some = chart.total > chart.points.length && t("chart.some", { n: chart.points.length, total: chart.total });
  return h("figure", { class: "chart" }, h("figcaption", {}, [t("chart.title", { x, y }), means, some].filter(Boolean).join(" · ")),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label },
      s("svg", { viewBox: `0 0 ${WIDTH} ${drawing.height}`, role: "img", "aria-label": label }, drawing.parts)), drawing.legend);
}

function bars(chart) {
  const row = 22;
  const values = chart.points.map((point) => point.y);
  const texts = values.map(readable);
  const left = Math.min(210, 14 + LETTER * Math.max(...chart.points.map((point) => [...point.text].length)));
  const room = 10 + LETTER * Math.max(...texts.map((text) => text.length));
  const negative = values.some((value) => value < 0);
  const at = scale(Math.min(0, ...values), Math.max(0, ...values), left + (negative ? room : 0), WIDTH - room);
  const parts = chart.points.map((point, index) => {
    const y = index * row + 4;
    const [start, end] = [at(Math.min(0, point.y)), at(Math.max(0, point.y))];
    const told = point.y < 0 ? { x: start - 5, class: "end" } : { x: end + 5 };
    const mean = point.of ? t("chart.mean", { n: point.of }) : "";
    return s("g", {}, s("title", {}, `${point.text}: ${texts[index]} ${mean}`),
      s("text", { x: left - 8, y: y + 13, class: "end" }, shortened(point.text, 28)),
      s("rect", { x: start, y, width: Math.max(1, end - start), height: row - 6, class: "mark" }),
      s("text", { ...told, y: y + 13 }, texts[index]));
  });
  return { parts, height: chart.points.length * row + 8 };
}

function line(chart) {
  const frame = axes(chart, (value) => String(Math.round(value)));
  const series = Map.groupBy ? [...Map.groupBy(chart.points, (point) => point.series ?? "")] : [["", chart.points]];
  const apart = series.length > 1 && series.length <= SERIES ? series : [["", chart.points]];
  const joined = series.length <= SERIES; // dots alone, where lines of many names would cross
  const lines = apart.map(([, points], index) => {
    const path = points.map((point, at) => `${at ? "L" : "M"}${frame.x(point.x).toFixed(1)} ${frame.y(point.y).toFixed(1)}`).join("");
    return [joined && s("path", { d: path, class: `line series${index}` }), points.map((point) => dot(frame, point, `mark series${index}`))];
  });
  const legend = apart.length > 1 && h("ul", { class: "legend" }, apart.map(([name], index) => h("li", {}, s("svg", { viewBox: "0 0 10 10", class: "swatch", "aria-hidden": "true" }, s("circle", { cx: 5, cy: 5, r: 4, class: `mark series${index}` })), name)));
  return { parts: [frame.parts, lines.flat(2)].flat(), height: HEIGHT, legend };
}

function dot(frame, point, look) {
  return s("circle", { cx: frame.x(point.x).toFixed(1), cy: frame.y(point.y).toFixed(1), r: 3.5, class: look },
    s("title", {}, [point.series, point.text, readable(point.y)].filter(Boolean).join(" · ")));
}

/** Scales whose numbers fit, with a grid; `told` writes what stands below. */
function axes(chart, told) {
  const ups = ticks(...bounds(chart.points.map((point) => point.y)));
  const texts = ups.map(readable);
  const left = 16 + LETTER * Math.max(...texts.map((text) => text.length));
  const x = scale(...bounds(chart.points.map((point) => point.x)), left, WIDTH - 40);
  const y = scale(ups[0], ups.at(-1), HEIGHT - 30, 15);
  const grid = ups.map((value, index) => s("g", {}, s("line", { x1: left, x2: WIDTH - 20, y1: y(value), y2: y(value), class: "grid" }),
    s("text", { x: left - 6, y: y(value) + 4, class: "end" }, texts[index])));
  const below = [0, 0.25, 0.5, 0.75, 1].map((share) => x.low + share * (x.high - x.low)).map((value) => ({ text: told(value), at: x(value) }));
  const apart = below.filter((one, index) => index === 0 || one.text !== below[index - 1].text);
  return { x, y, parts: [...grid, ...apart.map((one) => s("text", { x: one.at, y: HEIGHT - 8, class: "mid" }, one.text))] };
}

/** Four to six round numbers around a span. */
function ticks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const first = Math.floor(low / step);
  return Array.from({ length: Math.ceil(high / step) - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function bounds(values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  return low === high ? [low - 1, high + 1] : [low, high];
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  const place = (value) => from + ((value - low) / span) * (to - from);
  return Object.assign(place, { low, high });
}

/** A number in a few characters: large ones in thousands and millions. */
function readable(value) {
  const large = Math.abs(value) >= 100_000;
  return number(Number(value.toPrecision(6)), large ? { notation: "compact", maximumFractionDigits: 2 } : { maximumFractionDigits: 4, useGrouping: Math.abs(value) >= 10_000 });
}

function shortened(text, width) {
  const letters = [...text];
  return letters.length > width ? `${letters.slice(0, width - 1).join("")}…` : text;
}
