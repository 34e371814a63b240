// The statements behind an answer as a graph: things and values, with the properties between them.

import { call } from "./client.js";
import { h, s } from "./dom.js";
import { t } from "./text.js";

const ROWS = 20; // whose statements are drawn, at most
const MOST = 40; // things and values
const WIDTH = 640;
const TURNS = 300; // of the layout
const LETTER = 6.6; // width of one
const LONGEST = 26; // letters of a name

/** A button that draws the statements behind the rows that are shown, and takes the drawing away again. */
export function graphButton(evidence, numbers) {
  const place = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "button", class: "graph-open", "aria-expanded": "false", onclick: async () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return place.replaceChildren();
    place.replaceChildren(h("p", { class: "soft" }, t("evidence.waiting")));
    const query = new URLSearchParams([...numbers().slice(0, ROWS).map((row) => ["row", row]), ...(evidence.edited ? [["edited", true]] : [])]);
    try {
      const found = await call(`${evidence.base}?${query}`);
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
  const height = Math.max(200, Math.min(900, 70 * Math.sqrt(nodes.length) * 1.6));
  layOut(nodes, edges, height);
  const label = t("graph.label", { n: edges.length });
  const more = left ? ` · ${t("chart.some", { n: edges.length, total: edges.length + left })}` : "";
  return h("figure", { class: "graph" }, h("figcaption", {}, label, more),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label },
      s("svg", { viewBox: `0 0 ${WIDTH} ${Math.round(height)}`, role: "img", "aria-label": label },
        s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z", class: "tip" }))),
        edges.map(line), nodes.map(box), edges.map(name))));
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

/** Places where linked nodes are near and others apart: Fruchterman and Reingold's forces, from a circle, the same each time. */
function layOut(nodes, edges, height) {
  const ideal = 0.75 * Math.sqrt((WIDTH * height) / nodes.length);
  nodes.forEach((node, at) => {
    const angle = (2 * Math.PI * at) / nodes.length;
    Object.assign(node, { x: WIDTH / 2 + WIDTH / 3 * Math.cos(angle), y: height / 2 + height / 3 * Math.sin(angle), wide: node.text.length * LETTER + 16 });
  });
  for (let turn = 0; turn < TURNS; turn += 1) {
    const moves = new Map(nodes.map((node) => [node, [0, 0]]));
    const push = (one, other, force) => {
      const [dx, dy] = [one.x - other.x || 0.1, one.y - other.y || 0.1];
      const far = Math.hypot(dx, dy);
      const size = force(far) / far;
      moves.get(one)[0] += dx * size;
      moves.get(one)[1] += dy * size * 0.8; // names are wide
    };
    for (const one of nodes) for (const other of nodes) if (one !== other) push(one, other, (far) => ideal * ideal / far);
    for (const { from, to } of edges) {
      push(from, to, (far) => -far * far / ideal);
      push(to, from, (far) => -far * far / ideal);
    }
    const most = (WIDTH / 8) * (1 - turn / TURNS) + 0.5;
    for (const [node, [dx, dy]] of moves) {
      const far = Math.hypot(dx, dy) || 1;
      node.x = within(node.x + dx / far * Math.min(far, most), node.wide / 2 + 2, WIDTH);
      node.y = within(node.y + dy / far * Math.min(far, most), 14, height);
    }
  }
}

function within(value, edge, size) {
  return Math.max(edge, Math.min(size - edge, value));
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

function name({ from, to, names }) {
  const text = [...names].map(shortened).join(", ");
  return s("text", { x: ((from.x + to.x) / 2).toFixed(1), y: ((from.y + to.y) / 2 - 3).toFixed(1), class: "mid relation" }, text);
}

function shortened(text) {
  const letters = [...text];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : text;
}
