// Points on a Mercator map, drawn as SVG; behind them the outline of the land.

import { h, s } from "./dom.js";
import { t } from "./text.js";

const WIDTH = 640;
const HEIGHT = 400;
const TILE = 256;
const NORTH = 85.05;
const STEPS = [60, 30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1];
const NEAR = 14; // points that are nearer to each other are one mark
const NAMED = 3; // names beside a mark, at most
const CLOSEST = 7; // the outline has no more detail
let land;

/** A figure of points with `lat`, `lon` and `text`. */
export function drawMap(points) {
  const view = fitted(points, CLOSEST);
  const behind = s("g", {}, graticule(view));
  outline().then((rings) => behind.prepend(s("path", { d: rings.map((ring) => shape(view, ring)).join(""), class: "land" })), () => null);
  const marks = merged(points, view);
  const label = t("map.label", { n: points.length });
  return h("figure", { class: "map" }, h("figcaption", {}, label),
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, behind, marks.map(circle), names(marks)));
}

/** Rings of longitudes and latitudes in tenths of a degree; fetched once. */
function outline() {
  land ??= fetch("/static/vendor/land.json").then((response) => response.json());
  return land;
}

function shape(view, ring) {
  let path = "";
  for (let at = 0; at < ring.length; at += 2) {
    const [x, y] = view.place(ring[at + 1] / 10, ring[at] / 10);
    path += `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }
  return `${path}Z`;
}

/** Marks of the points, those that would cover each other as one. */
function merged(points, view) {
  const marks = [];
  for (const point of points) {
    const [x, y] = view.place(point.lat, point.lon);
    const near = marks.find((mark) => Math.hypot(mark.x - x, mark.y - y) < NEAR);
    if (near) near.points.push(point);
    else marks.push({ x, y, points: [point] });
  }
  return marks;
}

function circle({ x, y, points }) {
  const told = points.map((point) => `${point.text} (${point.lat}, ${point.lon})`).join("\n");
  const size = Math.min(16, 4 + 2 * Math.sqrt(points.length));
  return s("g", {}, s("title", {}, told), s("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: size.toFixed(1), class: "mark" }),
    points.length > 1 && s("text", { x, y: y + 4, class: "mid count" }, String(points.length)));
}

/** Names of the marks, as far as none covers another. */
function names(marks) {
  const taken = [];
  const shown = [];
  for (const { x, y, points } of marks) {
    const all = [...new Set(points.map((point) => point.text).filter(Boolean))];
    const text = all.length > NAMED ? `${all.slice(0, NAMED).join(", ")} +${all.length - NAMED}` : all.join(", ");
    const wide = text.length * 6.8;
    const boxes = [x + 12, x - 12 - wide].map((left) => ({ left, right: left + wide, top: y - 8, bottom: y + 8 }));
    const box = boxes.find((one) => one.left >= 0 && one.right <= WIDTH && !taken.some((other) => other.left < one.right && one.left < other.right && other.top < one.bottom && one.top < other.bottom));
    if (!text || !box) continue;
    taken.push(box);
    const before = box.left < x;
    shown.push(s("text", { x: before ? x - 12 : x + 12, y: y + 4, class: before ? "place end" : "place" }, text));
  }
  return shown;
}

function world(lat, lon) {
  const clamped = Math.max(-NORTH, Math.min(NORTH, lat)) * Math.PI / 180;
  return [(lon + 180) / 360, (1 - Math.asinh(Math.tan(clamped)) / Math.PI) / 2];
}

/** The largest whole zoom at which all points fit, with room around them. */
function fitted(points, closest) {
  const places = points.map((point) => world(point.lat, point.lon));
  const xs = places.map((place) => place[0]);
  const ys = places.map((place) => place[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  let zoom = closest;
  while (zoom > 0 && ((right - left) * TILE * 2 ** zoom > WIDTH - 80 || (bottom - top) * TILE * 2 ** zoom > HEIGHT - 60)) zoom -= 1;
  const size = TILE * 2 ** zoom;
  const originX = (left + right) / 2 * size - WIDTH / 2;
  const originY = (top + bottom) / 2 * size - HEIGHT / 2;
  const place = (lat, lon) => {
    const [x, y] = world(lat, lon);
    return [x * size - originX, y * size - originY];
  };
  return { zoom, size, originX, originY, place };
}

function graticule(view) {
  const across = (WIDTH / view.size) * 360;
  const step = STEPS.find((degrees) => across / degrees >= 4) || STEPS.at(-1);
  const lines = [];
  for (let lon = -180; lon <= 180; lon += step) {
    const [x] = view.place(0, lon);
    if (x < 0 || x > WIDTH) continue;
    lines.push(s("line", { x1: x, x2: x, y1: 0, y2: HEIGHT, class: "grid" }), s("text", { x: x + 3, y: HEIGHT - 5 }, degrees(lon, "map.east", "map.west")));
  }
  for (let lat = -80; lat <= 80; lat += step) {
    const [, y] = view.place(lat, 0);
    if (y < 0 || y > HEIGHT) continue;
    lines.push(s("line", { x1: 0, x2: WIDTH, y1: y, y2: y, class: "grid" }), s("text", { x: 3, y: y - 3 }, degrees(lat, "map.north", "map.south")));
  }
  return lines;
}

function degrees(value, positive, negative) {
  const size = Number(Math.abs(value).toFixed(1));
  return size === 0 ? "0°" : t(value > 0 ? positive : negative, { degrees: size });
}
