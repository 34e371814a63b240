// Bars and lines, drawn as SVG.

import { h, s } from "./dom.js";
import { number, t } from "./text.js";

const WIDTH = 640;

/** A figure of a result's chart; the table beside it says the same in text. */
export function drawChart(chart) {
  const drawing = chart.kind === "line" ? line(chart) : bars(chart);
  const label = t("chart.label", { ...named(chart), n: chart.points.length });
  return h("figure", { class: "chart" }, h("figcaption", {}, t("chart.title", named(chart))),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, s("svg", { viewBox: `0 0 ${WIDTH} ${drawing.height}`, role: "img", "aria-label": label }, drawing.parts)));
}

function named({ x, y }) {
  return { x, y };
}

function bars(chart) {
  const row = 22;
  const left = 190;
  const values = chart.points.map((point) => point.y);
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const at = scale(low, high, left, WIDTH - 70);
  const parts = chart.points.map((point, index) => {
    const y = index * row + 4;
    const start = at(Math.min(0, point.y));
    const end = at(Math.max(0, point.y));
    return s("g", {}, s("title", {}, `${point.text}: ${point.y}`),
      s("text", { x: left - 8, y: y + 13, class: "end" }, shortened(point.text, 28)),
      s("rect", { x: start, y, width: Math.max(1, end - start), height: row - 6, class: "mark" }),
      s("text", { x: end + 5, y: y + 13 }, readable(point.y)));
  });
  return { parts, height: chart.points.length * row + 8 };
}

function line(chart) {
  const height = 260;
  const x = scale(...bounds(chart.points.map((point) => point.x)), 60, WIDTH - 20);
  const y = scale(...bounds(chart.points.map((point) => point.y)), height - 30, 15);
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const grid = ticks.map((share) => {
    const value = y.low + share * (y.high - y.low);
    return s("g", {}, s("line", { x1: 60, x2: WIDTH - 20, y1: y(value), y2: y(value), class: "grid" }),
      s("text", { x: 54, y: y(value) + 4, class: "end" }, readable(value)));
  });
  const years = ticks.map((share) => {
    const value = x.low + share * (x.high - x.low);
    return s("text", { x: x(value), y: height - 8, class: "mid" }, String(Math.round(value)));
  });
  const path = chart.points.map((point, index) => `${index ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("");
  const dots = chart.points.map((point) =>
    s("circle", { cx: x(point.x).toFixed(1), cy: y(point.y).toFixed(1), r: 3, class: "mark" }, s("title", {}, `${point.text}: ${point.y}`)));
  return { parts: [...grid, ...years, s("path", { d: path, class: "line" }), ...dots], height };
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

function readable(value) {
  return number(Number(value.toPrecision(6)), { maximumFractionDigits: 4 });
}

function shortened(text, width) {
  const letters = [...text];
  return letters.length > width ? `${letters.slice(0, width - 1).join("")}…` : text;
}
