// Names with their dates, or first and last ones, one below the other along time.

import { h, s } from "./dom.js";
import { t } from "./text.js";

const WIDTH = 640;
const ROW = 20;
const SHOWN = 60;
const EDGE = 45; // half of the widest year

/** A figure of events with `text`, `from` and `to`, in years. */
export function drawTimeline(events) {
  const shown = events.slice(0, SHOWN);
  const low = Math.min(...shown.map((one) => one.from));
  const high = Math.max(...shown.map((one) => one.to ?? one.from));
  const at = (year) => EDGE + ((year - low) / (high - low || 1)) * (WIDTH - 2 * EDGE);
  const height = shown.length * ROW + 30;
  const years = [0, 0.25, 0.5, 0.75, 1].map((share) => low + share * (high - low));
  const grid = years.map((year) => s("g", {}, s("line", { x1: at(year), x2: at(year), y1: 0, y2: height - 22, class: "grid" }), s("text", { x: at(year), y: height - 8, class: "mid" }, told(year))));
  const rows = shown.map((one, index) => {
    const y = index * ROW + 12;
    const [start, end] = [at(one.from), at(Math.max(one.from, one.to ?? one.from))];
    const before = start > WIDTH / 2;
    const span = one.to > one.from ? `${told(one.from)}–${told(one.to)}` : told(one.from);
    return s("g", {}, s("title", {}, `${one.text}: ${span}`),
      one.to > one.from ? s("rect", { x: start, y: y - 4, width: Math.max(2, end - start), height: 8, rx: 4, class: "mark" }) : s("circle", { cx: start, cy: y, r: 4, class: "mark" }),
      s("text", { x: before ? start - 8 : end + 8, y: y + 4, class: before ? "place end" : "place" }, `${one.text} (${span})`));
  });
  const label = t("timeline.label", { n: shown.length });
  const some = events.length > SHOWN ? ` · ${t("chart.some", { n: SHOWN, total: events.length })}` : "";
  return h("figure", { class: "chart timeline" }, h("figcaption", {}, label, some),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label }, grid, rows)));
}

function told(year) {
  const whole = Math.floor(year);
  return whole > 0 ? String(whole) : t("timeline.bc", { year: String(1 - whole) });
}
