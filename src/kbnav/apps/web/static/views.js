// Pictures of a result: a map, a timeline, a chart, a graph, its images. Each is drawn by a library that is loaded when it is first shown.

import { dated, fileName, isPicture, located, pointOf } from "./cells.js";
import { call } from "./client.js";
import { h, link } from "./dom.js";
import { t } from "./text.js";

const MOST = 2000; // rows of a picture
const PART = 500; // rows that are fetched at once
const STATED = 20; // rows whose statements are drawn
const FEW = 60; // places that need no clusters but where they lie on each other
const SIDES = [["right", 9, 0], ["left", -9, 0], ["top", 0, -9], ["bottom", 0, 9], ["right", 7, -10], ["right", 7, 10], ["left", -7, -10], ["left", -7, 10]]; // of a place, where its name may stand, and how far from it
const LETTERS = 12; // pixels of a graph's letters
const NEAR = 1.3; // how far a small graph is enlarged
const LINES = 6; // that colours tell apart
const KINDS = ["ink", "accent", "bad", "good", "code-word", "code-name"]; // colours of a graph's links, by what they state
const STROKES = ["solid", "dashed", "dotted"];
const DRAWN = { map: drawMap, timeline: drawTimeline, chart: drawChart, graph: drawGraph, images: showImages };
const SERVICE = { map: "map", timeline: "timeline", graph: "graph", imagegrid: "images", table: "table", tree: "graph" };
const YEARS = /(year|jahr|ann[eé]e|a[nñ]i?o|年)$/i;

/** Of each column what its cells are: "point", "picture", "date", "year", "number", "name", or "" where that is not clear. */
export function kindsOf(columns, rows) {
  return columns.map((column, place) => {
    const bound = rows.map((row) => row[place]).filter(Boolean);
    const of = (kind) => bound.filter((cell) => cell.kind === kind).length;
    if (of("point")) return "point";
    if (bound.some(isPicture)) return "picture";
    if (bound.length && of("number") === bound.length) return YEARS.test(column) && bound.every((cell) => /^-?\d+$/.test(cell.text)) ? "year" : "number";
    if (of("date") && 2 * of("date") >= bound.length) return "date";
    return bound.length && !of("number") ? "name" : "";
  });
}

/** Whether a cell is a thing, or one that is not known. */
const linkable = (cell) => Boolean(cell?.id || cell?.kind === "unknown");

/** The places of the columns that have things, and of those whose things are properties. */
function thingsOf(columns, rows) {
  const all = columns.flatMap((_, place) => (rows.some((row) => linkable(row[place])) ? [place] : []));
  const states = (place) => all.includes(place) && rows.every((row) => !row[place] || /^P\d+$/.test(row[place].id));
  const relations = columns.flatMap((name, place) => (/^(predicate|property|relation)$/.test(name) || states(place) ? [place] : []));
  return { entities: all.filter((place) => !relations.includes(place)), relations };
}

/** The views that a `result` with these first rows allows, the table first; a graph where there are links between things, of a list of things alone those of their statements. */
export function viewsOf(kinds, { rows: total, columns, ranking }, rows) {
  const has = (...some) => kinds.some((kind) => some.includes(kind));
  const { entities } = thingsOf(columns, rows);
  const linked = entities.length > 1 || (entities.length === 1 && total > 1 && (ranking || columns.length === 1));
  return ["table", has("point") && "map", total > 1 && has("date") && has("name") && "timeline",
    total > 1 && !ranking && has("number") && has("name", "date", "year") && "chart", linked && "graph", has("picture") && "images"].filter(Boolean);
}

/** The view that a query asks for by a comment, as at the Wikidata Query Service; "" where it asks for none. */
export function asked(query) {
  const name = /^\s*#\s*defaultView:\s*(\w+)/im.exec(query ?? "")?.[1].toLowerCase() ?? "";
  return SERVICE[name] ?? (name.endsWith("chart") ? "chart" : "");
}

/** Draw one view of a result into a place. */
export async function draw(view, place, { base, result, kinds, numbers, labelled }) {
  place.replaceChildren(h("p", { class: "soft" }, t("page.loading")));
  try {
    const wanted = Math.min(result.rows, MOST);
    const pages = await Promise.all(Array.from({ length: Math.ceil(wanted / PART) }, (_, at) => call(`${base}/rows?${new URLSearchParams({ start: at * PART, count: Math.min(PART, wanted - at * PART) })}`)));
    const data = { base, kinds, numbers, labelled, columns: result.columns, rows: pages.flatMap((page) => page.rows), total: result.rows };
    const box = h("div", { class: `drawn ${view}-box` });
    const caption = h("figcaption");
    place.replaceChildren(h("figure", { class: view }, caption, box));
    const told = await DRAWN[view](data, box);
    caption.textContent = [told, data.total > MOST && t("chart.some", { n: MOST, total: data.total })].filter(Boolean).join(" · ");
  } catch (error) {
    place.replaceChildren(h("p", { class: "problem" }, error.message));
  }
}

function named(row, kinds) {
  return row.find((cell, place) => cell && kinds[place] === "name") ?? row.find((cell, place) => cell && !["point", "picture"].includes(kinds[place])) ?? { text: "" };
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

async function drawMap({ rows, kinds }, box) {
  const [{ default: L }, rings] = await Promise.all([import("./vendor/leaflet.js"), fetch("/static/vendor/land.json").then((response) => response.json()), styled()]);
  const at = kinds.indexOf("point");
  const map = L.map(box, { attributionControl: false, zoomSnap: 0.25, minZoom: 1, maxZoom: 14, maxBounds: [[-88, -220], [88, 220]] });
  L.polygon(rings.flatMap(outlines), { className: "land", interactive: false, stroke: false, renderer: L.svg({ padding: 1 }) }).addTo(map);
  const marks = L.markerClusterGroup({ showCoverageOnHover: false, maxClusterRadius: rows.length > FEW ? 40 : 28,
    iconCreateFunction: (cluster) => L.divIcon({ className: "cluster", html: String(cluster.getChildCount()), iconSize: [32, 32] }) });
  for (const row of rows) {
    const point = row[at]?.kind === "point" && pointOf(row[at]);
    if (!point) continue;
    const name = named(row, kinds);
    const told = h("dl", { class: "popup" }, row.flatMap((cell, place) => cell && place !== at ? [h("dd", {}, cell.href ? link(cell.text, cell.href) : cell.text)] : []), h("dd", { class: "soft" }, located(row[at])));
    marks.addLayer(L.marker(point, { icon: L.divIcon({ className: "pin", iconSize: [16, 16] }), title: name.text, alt: name.text }).bindPopup(told).bindTooltip(h("span", { dir: "auto" }, name.text), { permanent: true, className: "name" }));
  }
  map.addLayer(marks);
  const uncrowded = () => uncrowd(box, marks);
  marks.on("animationend", uncrowded);
  map.on("zoomend moveend", uncrowded);
  map.fitBounds(marks.getBounds().pad(0.1), { maxZoom: 6, animate: false });
  uncrowded();
  return t("map.label", { n: marks.getLayers().length });
}

const meet = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

/** Show the names of places at the side that has room; those without come nearer by. */
function uncrowd(box, marks) {
  const taken = [...box.querySelectorAll(".pin, .cluster")].map((one) => one.getBoundingClientRect());
  for (const name of marks.getLayers().map((mark) => mark.getTooltip()).filter((one) => one.getElement()?.isConnected)) {
    const room = SIDES.some(([direction, ...offset]) => {
      Object.assign(name.options, { direction, offset });
      name.update();
      const place = name.getElement().getBoundingClientRect();
      return !taken.some((one) => meet(one, place)) && taken.push(place);
    });
    name.getElement().classList.toggle("crowded", !room);
  }
}

/** A ring of tenths of degrees as latitudes and longitudes; one across the date line at both of its sides. */
function outlines(ring) {
  let turn = 0;
  const points = Array.from({ length: ring.length / 2 }, (_, place) => {
    const jump = place && ring[2 * place] - ring[2 * place - 2];
    if (Math.abs(jump) > 1800) turn -= Math.sign(jump) * 360;
    return [ring[2 * place + 1] / 10, ring[2 * place] / 10 + turn];
  });
  const across = [-360, 360].filter((by) => points.some(([, lon]) => Math.abs(lon) > 180 && lon * by < 0));
  return [0, ...across].map((by) => [points.map(([lat, lon]) => [lat, lon + by])]);
}

function styled() {
  if (document.getElementById("leaflet-style")) return undefined;
  return new Promise((done) => document.head.append(h("link", { id: "leaflet-style", rel: "stylesheet", href: "/static/vendor/leaflet.css", onload: done, onerror: done })));
}

const quiet = Object.fromEntries(["level", "error", "warn", "info", "debug"].map((name) => [name, () => quiet])); // a logger

/** A drawing by Vega-Lite, whose expressions are interpreted: the page's policy lets no text become code. */
async function plot(box, spec, label) {
  const { compile, expressionInterpreter, parse, View } = await import("./vendor/vega.js");
  const [ink, soft, line, accent] = ["ink", "soft", "line", "accent"].map(colour);
  const config = { background: null, font: "system-ui, sans-serif", view: { stroke: null }, mark: { color: accent }, rule: { color: accent },
    axis: { labelColor: ink, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, labelLimit: Math.max(150, box.clientWidth / 3) },
    legend: { labelColor: ink, titleColor: soft, orient: "bottom", columns: 2 } };
  const sized = { width: Math.max(280, box.clientWidth - 8), autosize: { type: "fit-x", contains: "padding" }, ...spec };
  const view = new View(parse(compile({ $schema: "", description: label, config, ...sized }, { logger: quiet }).spec, null, { ast: true }), { expr: expressionInterpreter, renderer: "svg", container: box });
  await view.runAsync();
  Object.entries({ tabindex: 0, role: "group", "aria-label": label }).forEach(([name, value]) => box.setAttribute(name, value));
  return label;
}

/** Years with the month and the day as a fraction; that before 1 is 0. */
function year(cell) {
  const [, whole, month = 1, day = 1] = /^([+-]?\d+)(?:-(\d\d))?(?:-(\d\d))?/.exec(cell?.kind === "date" || cell?.kind === "number" ? cell.text : "") ?? [];
  return whole === undefined ? undefined : Number(whole) + (month - 1) / 12 + (day - 1) / 365;
}

function timeAxis(title) {
  const before = JSON.stringify(t("timeline.bc", { year: "#" })).split("#");
  return { title, tickMinStep: 1, labelExpr: `datum.value > 0 ? format(datum.value, 'd') : ${before[0]}" + format(1 - datum.value, 'd') + "${before[1]}`, tickCount: 6 };
}

function drawTimeline({ columns, rows, kinds }, box) {
  const dates = kinds.flatMap((kind, place) => (kind === "date" ? [place] : []));
  const values = rows.flatMap((row) => {
    const known = dates.map((place) => row[place]).filter((cell) => year(cell) !== undefined);
    const told = [...new Set(known.map((cell) => dated(cell.text, false, cell.precision)))].join(" – ");
    return known.length ? [{ name: named(row, kinds).text, from: year(known[0]), to: year(known.at(-1)), told }] : [];
  }).sort((one, other) => one.from - other.from);
  const x = { field: "from", type: "quantitative", scale: { zero: false, nice: true }, axis: { ...timeAxis(null), orient: "top" } };
  const y = { field: "name", type: "nominal", sort: null, axis: { title: null, grid: true } };
  const tooltip = { field: "told", type: "nominal" };
  const layer = [{ mark: { type: "rule", strokeWidth: 6, strokeCap: "round", opacity: 0.6 }, encoding: { x2: { field: "to" } } }, { mark: { type: "point", filled: true, size: 70 } }];
  return plot(box, { data: { values }, height: { step: 20 }, encoding: { x, y, tooltip }, layer: dates.length > 1 ? layer : layer.slice(1) }, t("timeline.label", { n: values.length, columns }));
}

/** Bars of what has a name once; a line where one name, or none, has several values in time. */
function drawChart({ columns, rows, kinds }, box) {
  const [measured, timed, name] = [kinds.indexOf("number"), kinds.findIndex((kind) => kind === "date" || kind === "year"), kinds.indexOf("name")];
  const values = rows.flatMap((row) => row[measured] && (name < 0 || row[name]) && row[name]?.kind !== "unknown" ? [{ name: row[name]?.text ?? "", x: year(row[timed]), y: Number(row[measured].text) }] : []);
  const names = new Set(values.map((one) => one.name));
  const lines = timed >= 0 && (name < 0 || names.size < values.length);
  const whole = values.every((one) => Number.isInteger(one.y)) && { tickMinStep: 1 };
  const axis = { title: columns[measured], tickCount: 8, ...whole, labelExpr: "replace(format(datum.value, abs(datum.value) < 1 ? '~g' : '~s'), 'G', 'B')" };
  const y = { field: "y", type: "quantitative", axis };
  const label = t("chart.label", { x: columns[lines ? timed : name], y: columns[measured], n: lines ? values.length : names.size });
  if (lines) {
    const color = names.size > 1 && names.size <= LINES ? { color: { field: "name", type: "nominal", title: null } } : {};
    return plot(box, { data: { values }, height: 300, mark: names.size <= LINES ? { type: "line", point: true } : "point",
      encoding: { x: { field: "x", type: "quantitative", scale: { zero: false }, axis: timeAxis(columns[timed]) }, y: { ...y, scale: { zero: false } }, ...color, tooltip: { field: "name" } } }, label);
  }
  return plot(box, { data: { values }, height: { step: 22 }, mark: { type: "bar", tooltip: true },
    encoding: { y: { field: "name", type: "nominal", sort: null, axis: { title: null } }, x: { ...y, aggregate: "mean", axis: { ...axis, orient: "top" } } } },
  [label, names.size < values.length && t("chart.means"), rows.some((row) => row[name]?.kind === "unknown") && t("chart.unknown")].filter(Boolean).join(" · "));
}

/** Links between the entities of two columns; of one column those of the statements behind its first rows. What is no thing is left out. */
async function drawGraph({ base, columns, rows, numbers, labelled }, box) {
  const { entities, relations: [relation] } = thingsOf(columns, rows);
  const listed = entities.length < 2;
  const between = (row, { from, to, text }) => (linkable(row[from]) && linkable(row[to]) ? [{ from: row[from], to: row[to], text: row[relation]?.text ?? text }] : []);
  const stated = relation === undefined ? statedOf(columns, entities, labelled) : [{ from: entities[0], to: entities[1] }];
  const found = listed ? await evidenced(base, numbers.slice(0, STATED)) : rows.flatMap((row) => stated.flatMap((one) => between(row, one)));
  const links = [...new Map(found.map((one, place) => [one.from.id && one.to.id ? `${one.from.id} ${one.to.id} ${one.text}` : place, one])).values()];
  if (!links.length) {
    box.remove();
    return t("graph.none");
  }
  const nodes = new Map();
  const key = (cell) => {
    const unknown = cell.kind === "unknown"; // each another one
    const id = unknown ? `unknown ${nodes.size}` : cell.id;
    nodes.set(id, { data: { id, text: unknown ? t("cell.unknown") : cell.text, href: cell.href ?? "", kind: unknown ? "unknown" : "thing" } });
    return id;
  };
  const edges = links.map((one) => ({ data: { source: key(one.from), target: key(one.to), text: one.text } }));
  if (!document.getElementById("__________cytoscape_stylesheet")) document.head.append(h("meta", { id: "__________cytoscape_stylesheet" })); // or it would write a style that the policy refuses
  const { default: cytoscape } = await import("./vendor/cytoscape.js");
  const [ink, soft, edge, sea, accent] = ["ink", "soft", "edge", "sea", "accent"].map(colour);
  const count = (name) => links.filter((one) => one.text === name).length;
  const names = [...new Set(links.map((one) => one.text))].sort((one, other) => count(other) - count(one)); // one alone is said above the graph
  const kinds = names.length > 1 ? names.slice(0, KINDS.length) : [];
  const text = { color: ink, "text-max-width": 150, "text-wrap": "wrap" };
  const graph = cytoscape({ container: box, elements: [...nodes.values(), ...edges], minZoom: 0.05, maxZoom: 3,
    style: [{ selector: "node", style: { ...text, label: "data(text)", width: 16, height: 16, "background-color": accent, "text-valign": "bottom", "text-margin-y": 3, "text-background-color": sea, "text-background-opacity": 0.8, "text-background-padding": 1 } },
      { selector: "node[kind = 'unknown']", style: { shape: "round-rectangle", "background-color": soft } },
      { selector: ".above", style: { "text-valign": "top", "text-margin-y": -3 } },
      { selector: ".crowded", style: { "text-opacity": 0, "text-background-opacity": 0 } },
      { selector: "edge", style: { ...text, label: names.length > 1 ? "data(text)" : "", color: soft, width: 1.5, "line-color": edge, "target-arrow-color": edge, "target-arrow-shape": "triangle", "curve-style": "bezier", "text-rotation": "autorotate", "text-background-color": sea, "text-background-opacity": 1, "text-background-padding": 2 } },
      ...kinds.map((name, place) => ({ selector: `edge[text = ${JSON.stringify(name)}]`, style: { "line-color": colour(KINDS[place]), "target-arrow-color": colour(KINDS[place]), "line-style": STROKES[place % STROKES.length] } }))],
    layout: { name: "fcose", animate: false, randomize: true, nodeSeparation: 60, idealEdgeLength: edges.length > 60 ? 60 : 90, nodeDimensionsIncludeLabels: true } });
  const { w, h: high } = graph.elements().boundingBox();
  if (w > high === box.clientWidth < box.clientHeight) { // as high or wide as the place
    graph.nodes().positions((node) => ({ x: node.position("y"), y: node.position("x") }));
  }
  const wider = box.clientWidth / box.clientHeight / (graph.elements().boundingBox().w / graph.elements().boundingBox().h);
  graph.nodes().positions((node) => ({ x: node.position("x") * Math.min(2, Math.max(1, wider)), y: node.position("y") * Math.min(2, Math.max(1, 1 / wider)) })); // names need the room
  const size = () => graph.style().selector("node, edge").style("font-size", Math.min(40, Math.max(LETTERS, LETTERS / graph.zoom()))).selector("edge").style({ width: 1.5 / Math.min(1, graph.zoom()), "arrow-scale": 0.7 / Math.min(1, graph.zoom()) }).update(); // as large on the screen however far away
  graph.fit();
  size();
  graph.fit(undefined, 12);
  if (graph.zoom() > NEAR) graph.zoom(NEAR).center();
  const ordered = graph.nodes().sort((one, other) => other.degree() - one.degree());
  const boxed = (one, options) => {
    const { x1: left, x2: right, y1: top, y2: bottom } = one.boundingBox(options);
    return { one, left, right, top, bottom };
  };
  const uncrowded = () => { // the names that have room below or above, those of many links first, then those of the links
    const taken = graph.nodes().map((node) => boxed(node, { includeLabels: false }));
    for (const one of names.length > 1 ? [...ordered, ...graph.edges()] : ordered) {
      const room = (above) => {
        if (one.isNode()) one.toggleClass("above", above);
        const own = boxed(one, { includeNodes: false, includeEdges: false });
        return !taken.some((other) => other.one !== one && meet(other, own)) && taken.push(own);
      };
      one.toggleClass("crowded", !(room(false) || (one.isNode() && room(true))));
    }
  };
  let waiting = 0;
  const sized = () => {
    size();
    clearTimeout(waiting);
    waiting = setTimeout(uncrowded, 50);
  };
  sized();
  graph.on("zoom", sized);
  const zoom = (by) => graph.zoom({ level: graph.zoom() * by, renderedPosition: { x: box.clientWidth / 2, y: box.clientHeight / 2 } });
  const keys = { "+": () => zoom(1.25), "-": () => zoom(0.8), 0: () => graph.fit(), ArrowLeft: () => graph.panBy({ x: 40, y: 0 }), ArrowRight: () => graph.panBy({ x: -40, y: 0 }),
    ArrowUp: () => graph.panBy({ x: 0, y: 40 }), ArrowDown: () => graph.panBy({ x: 0, y: -40 }) };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const button = (key, text, name) => h("button", { type: "button", title: t(name), "aria-label": t(name), onclick: keys[key] }, text);
  box.before(h("p", { class: "tools zoom" }, button("+", "+", "graph.nearer"), button("-", "−", "graph.farther"), button("0", t("graph.whole"), "graph.whole")));
  box.before(h("p", { class: "keys" }, kinds.map((name, place) => h("span", { class: `${KINDS[place]} ${STROKES[place % STROKES.length]}` }, name)), names.length > KINDS.length && h("span", {}, "…")));
  graph.on("tap", "node[href != '']", ({ target }) => window.open(target.data("href"), "_blank", "noopener"));
  const label = [t("graph.label", { n: edges.length }), names.length === 1 && names[0], listed && numbers.length > STATED && t("graph.rows", { n: STATED })].filter(Boolean).join(" · ");
  Object.entries({ tabindex: 0, role: "group", "aria-label": `${label}: ${[...nodes.values()].slice(0, 30).map((node) => node.data.text).join(", ")}` }).forEach(([name, value]) => box.setAttribute(name, value));
  return label;
}

/** What a query states between columns of things, by names behind comments on its ids; of a column of which it states nothing, that it is in the row of the first. */
function statedOf(columns, entities, labelled) {
  const names = new Map([...labelled.matchAll(/^# (P\d+): (.*)$/gm)].map(([, id, name]) => [id, name]));
  const called = (path) => path.replace(/wdt:(P\d+)/g, (_, id) => names.get(id) ?? id).replace(/[|]/g, " / ");
  const found = labelled.split(/[{}]|\.\s/).flatMap((part) => [...part.matchAll(/((?:wdt:P\d+[|/])*wdt:P\d+)\s+\?([\p{L}\p{N}_]+)/gu)].map(([, path, object]) =>
    ({ from: columns.indexOf(/^\s*\?([\p{L}\p{N}_]+)/u.exec(part)?.[1]), to: columns.indexOf(object), text: called(path) }))).filter(({ from, to }) => entities.includes(from) && entities.includes(to));
  const rest = entities.slice(1).filter((place) => !found.some(({ from, to }) => [from, to].includes(place)));
  return [...found, ...rest.map((place) => ({ from: entities[0], to: place, text: columns[place] }))];
}

async function evidenced(base, rows) {
  const found = await call(`${base}/evidence?${new URLSearchParams(rows.map((row) => ["row", row]))}`);
  if (found.failed) throw new Error(t("evidence.failed", { why: found.failed }));
  return found.rows.flat().flatMap(({ subject, property, value }) => linkable(subject) && linkable(value) && property?.text ? [{ from: subject, to: value, text: property.text }] : []);
}

/** The files by their names: the page fetches nothing from elsewhere. */
function showImages({ rows, kinds }, box) {
  const at = kinds.indexOf("picture");
  const cards = rows.filter((row) => isPicture(row[at])).map((row) => h("li", {}, h("strong", { dir: "auto" }, named(row, kinds).text), link(fileName(row[at].href), row[at].href)));
  box.append(h("ul", { class: "cards" }, cards), h("p", { class: "soft" }, t("images.about")));
  return t("images.label", { n: cards.length });
}
