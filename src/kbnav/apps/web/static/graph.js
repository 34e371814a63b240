// The statements behind an answer as a graph: things and values, with the properties between them.

import { call } from "./client.js";
import { h, s } from "./dom.js";
import { t } from "./text.js";

const ROWS = 20; // whose statements are drawn, at most
const MOST = 40; // things and values
const WIDTH = 640;
const COLUMN = 280; // from one column to the next, at least
const ROW = 46;
const GAP = 12; // between what is not linked
const EDGE = 105; // half of the widest name
const LAYERS = 5;
const LETTER = 6.6; // width of one
const LONGEST = 26; // letters of a name

/** A button that draws the statements behind the rows that are shown, and takes the drawing away again; `base` is their address. */
export function graphButton(base, numbers) {
  const place = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "button", class: "graph-open", "aria-expanded": "false", onclick: async () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return place.replaceChildren();
    place.replaceChildren(h("p", { class: "soft" }, t("evidence.waiting")));
    const query = new URLSearchParams(numbers().slice(0, ROWS).map((row) => ["row", row]));
    try {
      const found = await call(`${base}?${query}`);
      if (found.failed) throw new Error(t("evidence.failed", { why: found.failed }));
      place.replaceChildren(drawGraph(found.rows.flat()));
    } catch (error) {
      place.replaceChildren(h("p", { class: "problem" }, error.message));
    }
    return undefined;
  } }, t("graph.show"));
  return h("div", { class: "graph" }, button, place);
}

/** A figure of statements with `subject`, `property` and `value`. */
export function drawGraph(statements) {
  const { nodes, edges, left } = collected(statements);
  if (!edges.length) return h("p", {}, t("evidence.none"));
  const { width, height } = layOut(nodes, edges);
  const label = t("graph.label", { n: edges.length });
  const more = left ? ` · ${t("chart.some", { n: edges.length, total: edges.length + left })}` : "";
  return h("figure", { class: "graph" }, h("figcaption", {}, label, more),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label },
      s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
        s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z", class: "tip" }))),
        edges.map(line), nodes.map(box), edges.map((edge) => name(edge, edges)))));
}

/** Things and values, each once, and what lies between them: of several properties of one pair, all names. */
function collected(statements) {
  const nodes = new Map();
  const edges = new Map();
  let left = 0;
  const node = (value) => {
    const key = value.id || value.href || value.text;
    if (!nodes.has(key) && nodes.size < MOST) nodes.set(key, { key, text: shortened(value.text), whole: value.text, id: value.id });
    return nodes.get(key);
  };
  for (const one of statements) {
    if (!one.subject || !one.value || !one.property?.text) continue; // a sentence is no edge
    const [from, to] = [node(one.subject), node(one.value)];
    if (!from || !to || from === to) {
      left += 1;
      continue;
    }
    const key = JSON.stringify([from.key, to.key]);
    const edge = edges.get(key) ?? edges.set(key, { from, to, names: new Set() }).get(key);
    edge.names.add(one.property.text);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], left };
}

/** Columns from subjects to values, what is linked below each other; gives the size of the drawing. */
function layOut(nodes, edges) {
  const groups = apart(nodes, edges);
  const layers = 1 + Math.max(...nodes.map((node) => node.layer));
  const width = Math.max(WIDTH, layers * COLUMN);
  let top = 0;
  for (const group of groups) {
    const columns = Array.from({ length: layers }, (_, layer) => group.filter((node) => node.layer === layer));
    const high = ROW * Math.max(...columns.map((column) => column.length));
    for (const [layer, column] of columns.entries()) {
      column.sort((one, other) => middle(one, edges) - middle(other, edges));
      column.forEach((node, at) => {
        node.wide = node.text.length * LETTER + 16;
        node.x = EDGE + (layer * (width - 2 * EDGE)) / Math.max(1, layers - 1);
        node.y = top + (high * (at + 0.5)) / column.length;
      });
    }
    top += high + GAP;
  }
  return { width, height: top - GAP };
}

/** Where what leads to a node stands, on average; nodes that nothing leads to stay as they came. */
function middle(node, edges) {
  const before = edges.filter((edge) => edge.to === node && edge.from.y !== undefined).map((edge) => edge.from.y);
  return before.length ? before.reduce((sum, y) => sum + y, 0) / before.length : 0;
}

/** Groups of nodes that are linked; each node's layer is how many links lead to it at most, as far as they run in no circle. */
function apart(nodes, edges) {
  for (const node of nodes) Object.assign(node, { layer: 0, group: node });
  for (let turn = 0; turn < nodes.length; turn += 1) {
    for (const { from, to } of edges) {
      if (turn < LAYERS) to.layer = Math.min(LAYERS - 1, Math.max(to.layer, from.layer + 1));
      const first = nodes.indexOf(from.group) < nodes.indexOf(to.group) ? from.group : to.group;
      from.group = to.group = first;
    }
  }
  return [...new Set(nodes.map((node) => node.group))].map((group) => nodes.filter((node) => node.group === group));
}

function line({ from, to }) {
  const [x, y] = border(to, from);
  return s("line", { x1: from.x.toFixed(1), y1: from.y.toFixed(1), x2: x.toFixed(1), y2: y.toFixed(1), class: "edge", "marker-end": "url(#arrow)" });
}

/** Where a line from another node meets the box of one. */
function border(node, other) {
  const [dx, dy] = [other.x - node.x, other.y - node.y];
  const share = Math.min(1, Math.min((node.wide / 2) / Math.abs(dx || 0.1), 12 / Math.abs(dy || 0.1)));
  return [node.x + dx * share, node.y + dy * share];
}

function box({ x, y, wide, text, whole, id }) {
  return s("g", { class: id ? "thing" : "value", "data-entity": id }, s("title", {}, whole),
    s("rect", { x: (x - wide / 2).toFixed(1), y: (y - 12).toFixed(1), width: wide.toFixed(1), height: 24, rx: id ? 12 : 3 }),
    s("text", { x: x.toFixed(1), y: (y + 4).toFixed(1), class: "mid" }, text));
}

/** Nearer to the end at which fewer lines meet. */
function name(edge, edges) {
  const { from, to, names } = edge;
  const share = edges.filter((one) => one.from === from).length > edges.filter((one) => one.to === to).length ? 0.62 : 0.38;
  const text = [...names].map(shortened).join(", ");
  return s("text", { x: (from.x + share * (to.x - from.x)).toFixed(1), y: (from.y + share * (to.y - from.y) + 4).toFixed(1), class: "mid relation" }, text);
}

function shortened(text) {
  const letters = [...text];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : text;
}
