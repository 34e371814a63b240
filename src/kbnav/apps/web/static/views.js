// Pictures of a result: a map, a timeline, a chart, a graph, its images. Each is drawn by a library that is loaded when it is first shown.

import { columnName, dated, fileName, isPicture, pointOf, showCells } from "./cells.js";
import { call } from "./client.js";
import { h, link } from "./dom.js";
import { t } from "./text.js";

const MOST = 2000; // rows of a picture
const PART = 500; // rows that are fetched at once
const STATED = 20; // rows whose statements are drawn
const OUTLYING = 0.05; // of places, which may lie outside the map at first
const APART = 3; // times as far from the middle as the others
const CROWD = 5; // places of which there may be outlying ones
const FEW = 60; // places that need no clusters but where they lie on each other
const SIDES = [["right", 9, 0], ["left", -9, 0], ["top", 0, -9], ["bottom", 0, 9], ["right", 7, -10], ["right", 7, 10], ["left", -7, -10], ["left", -7, 10]]; // of a place, where its name may stand, and how far from it
const LETTERS = 12; // pixels of a graph's letters
const DOT = 14; // pixels of a graph's things
const MANY = 12; // things of a graph that want a high box
const HUB = 6; // links of a thing whose name may cover others
const GAP = 8; // pixels between them
const FULL = 0.7; // of a box, up to which names are moved apart
const NEAR = 1.3; // how far a small graph is enlarged
const LINES = 6; // that colours tell apart
const KINDS = ["ink", "code-word", "code-name", "good", "bad", "accent"]; // colours of a graph's links, by what they state
const SHAPES = [["ellipse", "accent", "●"], ["rectangle", "bad", "■"], ["diamond", "good", "◆"], ["triangle", "code-word", "▲"], ["hexagon", "code-name", "⬢"]]; // of a graph's things, by their column
const NAMED = ["", "above", "after", "before"]; // where the name of a thing may stand: below it where nothing is said
const STROKES = ["solid", "dashed", "dotted"];
const DRAWN = { map: drawMap, timeline: drawTimeline, chart: drawChart, graph: drawGraph, images: showImages };
const LASTING = ["timeline", "chart", "graph"]; // views that keep the colours they were drawn in
const SERVICE = { map: "map", timeline: "timeline", graph: "graph", imagegrid: "images", table: "table", barchart: "chart", linechart: "chart" };
const NEAREST = { tree: "graph", dimensions: "graph", treemap: "chart" }; // of views that only the service has; else a chart
const WORDS = {
  map: /\b(map|mapa|carte)s?\b|karten?\b|地图/i,
  timeline: /\btimeline|zeit(leiste|strahl)|\bchronologie\b|\bfrise\b|\bcronolog[ií]a\b|línea de tiempo|时间[线轴]/i,
  graph: /\b(graph|graphe|grafo)s?\b|关系图/i,
  chart: /\b(chart|graph|diagram)s?\b|diagramm|\bgr[áa]fic[oa]\b|图表/i,
  images: /\b(picture|photo|image|imagen|imágenes|foto)s?\b|\bbild(er)?\b|图片|照片/i,
};
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

/** The views that a question names, in any of the page's languages; by a graph many mean a chart. */
export const named = (question) => Object.keys(WORDS).filter((view) => WORDS[view].test(question));

/** The view that a query asks for by a comment, as at the Wikidata Query Service: its `name` there, the `same` here where there is one, and the `nearest`. */
export function asked(query) {
  const name = /^\s*#\s*defaultView:\s*(\w+)/im.exec(query ?? "")?.[1] ?? "";
  const same = SERVICE[name.toLowerCase()] ?? "";
  return { name, same, nearest: same || (NEAREST[name.toLowerCase()] ?? (/chart$/i.test(name) ? "chart" : "")) };
}

const styles = styled("/static/views.css"); // of what comes with a result: views, cards, evidence

/** Draw one view of a result into a place. */
export async function draw(view, place, shown) {
  const { base, result, kinds, numbers, labelled } = shown;
  place.replaceChildren(h("p", { class: "soft" }, t("page.loading")));
  try {
    await styles;
    const wanted = Math.min(result.rows, MOST);
    const pages = await Promise.all(Array.from({ length: Math.ceil(wanted / PART) }, (_, at) => call(`${base}/rows?${new URLSearchParams({ start: at * PART, count: Math.min(PART, wanted - at * PART) })}`)));
    const data = { base, kinds, numbers, labelled, columns: result.columns, rows: pages.flatMap((page) => page.rows), total: result.rows };
    const box = h("div", { class: `drawn ${view}-box` });
    const caption = h("figcaption");
    place.replaceChildren(h("figure", { class: view }, caption, box));
    letScroll(box);
    const again = () => box.isConnected && !place.hidden && draw(view, place, shown);
    if (LASTING.includes(view)) document.addEventListener("theme", again, { once: true });
    const told = await DRAWN[view](data, box);
    caption.textContent = [told, data.total > MOST && t("chart.some", { n: MOST, total: data.total })].filter(Boolean).join(" · ");
  } catch (error) {
    place.replaceChildren(h("p", { class: "problem" }, error.message));
  }
}

/** The wheel scrolls the page over a box, and is the picture's own only with Ctrl or after a press into it. */
function letScroll(box) {
  let pressed = false;
  box.addEventListener("pointerdown", () => { pressed = true; }, true);
  box.addEventListener("pointerleave", () => { pressed = false; });
  box.addEventListener("wheel", (event) => event.ctrlKey || pressed || event.stopImmediatePropagation(), { capture: true, passive: true });
}

function nameOf(row, kinds) {
  return row.find((cell, place) => cell && kinds[place] === "name") ?? row.find((cell, place) => cell && !["point", "picture"].includes(kinds[place])) ?? { text: "" };
}

/** A colour of the style sheet as it is now, in light or dark. */
function colour(name) {
  const probe = h("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

async function drawMap({ columns, rows, kinds }, box) {
  const [{ default: L }, { land, borders }] = await Promise.all([import("./vendor/leaflet.js"), fetch("/static/vendor/land.json").then((response) => response.json()), styled("/static/vendor/leaflet.css")]);
  const at = kinds.indexOf("point");
  const map = L.map(box, { attributionControl: false, zoomSnap: 0.25, minZoom: 1, maxZoom: 14, maxBounds: [[-88, -220], [88, 220]] });
  map.zoomControl.setPosition("bottomright"); // clear of what opens above a place
  const ground = { interactive: false, renderer: L.svg({ padding: 1 }) };
  L.polygon(land.flatMap(outlines), { className: "land", stroke: false, ...ground }).addTo(map);
  L.polyline(borders.flatMap(outlines), { className: "borders", weight: 1, ...ground }).addTo(map);
  const marks = L.markerClusterGroup({ showCoverageOnHover: false, maxClusterRadius: rows.length > FEW ? 40 : 28,
    iconCreateFunction: (cluster) => L.divIcon({ className: "cluster", html: String(cluster.getChildCount()), iconSize: [32, 32] }) });
  const cells = showCells(rows);
  for (const [number, row] of rows.entries()) {
    const point = row[at]?.kind === "point" && pointOf(row[at]);
    if (!point) continue;
    const name = nameOf(row, kinds);
    const title = cells[number][row.indexOf(name)]?.firstChild.textContent ?? "";
    const told = h("dl", { class: "popup" }, row.flatMap((cell, place) => cell ? [cell !== name && h("dt", {}, columnName(columns[place])), h("dd", { class: cell === name && "head" }, [...cells[number][place].childNodes])] : []));
    marks.addLayer(L.marker(point, { icon: L.divIcon({ className: "pin", iconSize: [16, 16] }), title, alt: title }).bindPopup(told).bindTooltip(h("span", { dir: "auto" }, title), { permanent: true, className: "name" }));
  }
  map.addLayer(marks);
  const uncrowded = () => uncrowd(box, marks);
  marks.on("animationend", uncrowded);
  map.on("zoomend moveend", uncrowded);
  const points = marks.getLayers().map((mark) => mark.getLatLng());
  const fit = (some) => map.fitBounds(L.latLngBounds(some).pad(0.1), { maxZoom: 6, animate: false });
  const near = bulk(points);
  fit(near);
  const outside = near === points ? 0 : points.filter((one) => !map.getBounds().contains(one)).length;
  const all = () => {
    fit(points);
    whole.remove();
    box.focus();
  };
  const whole = h("p", { class: "tools zoom" }, h("button", { type: "button", onclick: all }, t("map.far", { n: outside })));
  if (outside) box.before(whole);
  uncrowded();
  const drawn = marks.getLayers().map((mark) => `${mark.options.title} ${mark.getLatLng()}`);
  return [t("map.label", { n: new Set(drawn).size }), leftOut(rows, drawn, t("view.place"))].filter(Boolean).join(" · ");
}

/** Places without the few that lie so far off that the others would be small; all where there are few, or that changes little. */
function bulk(points) {
  const middle = (axis) => points.map((one) => one[axis]).sort((one, other) => one - other)[points.length >> 1];
  const [lat, lng] = [middle("lat"), middle("lng")];
  const off = (one) => Math.hypot(one.lat - lat, (one.lng - lng) * Math.cos((lat * Math.PI) / 180));
  const sorted = [...points].sort((one, other) => off(one) - off(other));
  const most = sorted.slice(0, -Math.max(1, Math.floor(points.length * OUTLYING)));
  return most.length >= CROWD && off(sorted.at(-1)) > APART * off(most.at(-1)) ? most : points;
}

/** How many rows lack `what` is drawn. */
const leftOut = (rows, drawn, what) => rows.length > drawn.length && t("view.left_out", { n: rows.length - drawn.length, what });

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

/** A ring or a line of tenths of degrees as latitudes and longitudes; one across the date line at both of its sides. */
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

/** Load a style sheet once. */
function styled(href) {
  if (document.querySelector(`link[href="${href}"]`)) return undefined;
  return new Promise((done) => document.head.append(h("link", { rel: "stylesheet", href, onload: done, onerror: done })));
}

const quiet = Object.fromEntries(["level", "error", "warn", "info", "debug"].map((name) => [name, () => quiet])); // a logger

/** A drawing by Vega-Lite, whose expressions are interpreted: the page's policy lets no text become code. */
async function plot(box, spec, label) {
  const { compile, expressionInterpreter, parse, View } = await import("./vendor/vega.js");
  const [ink, soft, line, accent] = ["ink", "soft", "line", "accent"].map(colour);
  const config = { background: null, font: "system-ui, sans-serif", view: { stroke: null }, mark: { color: accent }, rule: { color: accent },
    axis: { labelColor: ink, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, labelLimit: Math.max(150, box.clientWidth / 3) },
    legend: { labelColor: ink, titleColor: soft, orient: "bottom", columns: 2 } };
  const wide = () => Math.max(280, box.clientWidth - 8);
  const sized = { width: wide(), autosize: { type: "fit-x", contains: "padding" }, ...spec };
  const view = new View(parse(compile({ $schema: "", description: label, config, ...sized }, { logger: quiet }).spec, null, { ast: true }), { expr: expressionInterpreter, renderer: "svg", container: box, tooltip: (_, event, __, told) => point(box, event, told && Object.values(told).join(": ")) });
  await view.runAsync();
  new ResizeObserver(() => box.clientWidth && view.width(wide()).runAsync()).observe(box);
  Object.entries({ tabindex: 0, role: "group", "aria-label": label }).forEach(([name, value]) => box.setAttribute(name, value));
  return label;
}

/** Words at the pointer, which go with their drawing; without words, those there were go. */
function point(box, { clientX, clientY }, words) {
  document.querySelector(".pointed")?.remove();
  if (!words) return;
  const told = h("div", { class: "pointed" }, words);
  box.append(told);
  Object.assign(told.style, { left: `${Math.min(clientX + 12, innerWidth - told.offsetWidth - 8)}px`, top: `${clientY + 16}px` });
}

/** Years with the month and the day as a fraction; that before 1 is -1, or round ones before Christ would have no mark. */
function year(cell) {
  const [, whole, month = 1, day = 1] = /^([+-]?\d+)(?:-(\d\d))?(?:-(\d\d))?/.exec(cell?.kind === "date" || cell?.kind === "number" ? cell.text : "") ?? [];
  return whole === undefined ? undefined : Number(whole) - (whole <= 0) + (month - 1) / 12 + (day - 1) / 365;
}

function timeAxis(title) {
  const before = JSON.stringify(t("timeline.bc", { year: "#" })).split("#");
  return { title, tickMinStep: 1, labelExpr: `datum.value > 0 ? format(datum.value, 'd') : ${before[0]}" + format(max(1, -datum.value), 'd') + "${before[1]}`, tickCount: 6 };
}

function drawTimeline({ columns, rows, kinds }, box) {
  const dates = kinds.flatMap((kind, place) => (kind === "date" ? [place] : []));
  const values = rows.flatMap((row) => {
    const known = dates.map((place) => row[place]).filter((cell) => year(cell) !== undefined);
    const told = [...new Set(known.map((cell) => dated(cell.text, false, cell.precision)))].join(" – ");
    return known.length ? [{ name: nameOf(row, kinds).text, from: year(known[0]), to: year(known.at(-1)), told }] : [];
  }).sort((one, other) => one.from - other.from);
  const x = { field: "from", type: "quantitative", scale: { zero: false, nice: true }, axis: { ...timeAxis(null), orient: "top" } };
  const y = { field: "name", type: "nominal", sort: null, axis: { title: null, grid: true } };
  const tooltip = [{ field: "name" }, { field: "told", type: "nominal" }];
  const layer = [{ mark: { type: "rule", strokeWidth: 6, strokeCap: "round", opacity: 0.6 }, encoding: { x2: { field: "to" } } }, { mark: { type: "point", filled: true, size: 70 } }];
  return plot(box, { data: { values }, height: { step: 20 }, encoding: { x, y, tooltip }, layer: dates.length > 1 ? layer : layer.slice(1) }, [t("timeline.label", { n: values.length }), leftOut(rows, values, t("view.date"))].filter(Boolean).join(" · "));
}

/** Bars of what has a name once; a line where one name, or none, has several values in time. */
function drawChart({ columns, rows, kinds }, box) {
  const [measured, timed, name] = [kinds.indexOf("number"), kinds.findIndex((kind) => kind === "date" || kind === "year"), kinds.indexOf("name")];
  const values = rows.flatMap((row) => row[measured] && (name < 0 || row[name]) && row[name]?.kind !== "unknown" ? [{ name: row[name]?.text ?? "", x: year(row[timed]), y: Number(row[measured].text) }] : []);
  const names = new Set(values.map((one) => one.name));
  const lines = timed >= 0 && (name < 0 || names.size < values.length);
  const whole = values.every((one) => Number.isInteger(one.y)) && { tickMinStep: 1 };
  const axis = { title: columns[measured], tickCount: Math.min(8, Math.round(box.clientWidth / 60)), ...whole, labelExpr: "replace(format(datum.value, abs(datum.value) < 1 ? '~g' : '~s'), 'G', 'B')" };
  const y = { field: "y", type: "quantitative", axis };
  const label = t("chart.label", { x: columns[lines ? timed : name], y: columns[measured], n: lines ? values.length : names.size });
  const tooltip = [{ field: "name" }, { field: "y", type: "quantitative", format: ",", ...(!lines && { aggregate: "mean" }) }];
  if (lines) {
    const color = names.size > 1 && names.size <= LINES ? { color: { field: "name", type: "nominal", title: null } } : {};
    return plot(box, { data: { values }, height: 300, mark: names.size <= LINES ? { type: "line", point: true } : "point",
      encoding: { x: { field: "x", type: "quantitative", scale: { zero: false }, axis: timeAxis(columns[timed]) }, y: { ...y, scale: { zero: false } }, ...color, tooltip } }, label);
  }
  return plot(box, { data: { values }, height: { step: 22 }, mark: "bar",
    encoding: { y: { field: "name", type: "nominal", sort: null, axis: { title: null } }, x: { ...y, aggregate: "mean", axis: { ...axis, orient: "top" } }, tooltip } },
  [label, names.size < values.length && t("chart.means"), leftOut(rows, values, t(rows.some((row) => !row[measured]) ? "view.number" : "view.name"))].filter(Boolean).join(" · "));
}

/** Links between the entities of two columns; of one column those of the statements behind its first rows. What is no thing is left out. */
async function drawGraph({ base, columns, rows, numbers, labelled }, box) {
  const { entities, relations: [relation] } = thingsOf(columns, rows);
  const listed = entities.length < 2;
  const between = (row, { from, to, text }) => (linkable(row[from]) && linkable(row[to]) ? [{ from: row[from], to: row[to], text: row[relation]?.text ?? text, groups: [columns[from], columns[to]] }] : []);
  const stated = relation === undefined ? statedOf(columns, entities, labelled) : [{ from: entities[0], to: entities[1] }];
  const found = listed ? await evidenced(base, numbers.slice(0, STATED)) : rows.flatMap((row) => stated.flatMap((one) => between(row, one)));
  const links = [...new Map(found.map((one, place) => [one.from.id && one.to.id ? `${one.from.id} ${one.to.id} ${one.text}` : place, one])).values()];
  if (!links.length) {
    box.remove();
    return t("graph.none");
  }
  const own = new Set(listed ? rows.map((row) => row[entities[0]]?.id) : []);
  const nodes = new Map();
  const key = (cell, group) => {
    const unknown = cell.kind === "unknown"; // each another one
    const id = unknown ? `unknown ${nodes.size}` : cell.id;
    if (!nodes.has(id)) nodes.set(id, { data: { id, text: unknown ? t("cell.unknown") : cell.text, href: cell.href ?? "", group: unknown ? "" : own.has(id) ? columns[entities[0]] : group } });
    return id;
  };
  const edges = links.map(({ from, to, text, groups: [of, by] = ["", text] }) => ({ data: { source: key(from, of), target: key(to, by), text } }));
  const count = (name) => links.filter((one) => one.text === name).length;
  const names = [...new Set(links.map((one) => one.text))].sort((one, other) => count(other) - count(one)); // one alone is said above the graph
  const kinds = names.length > 1 ? names.slice(0, KINDS.length) : [];
  const groups = [...new Set([...nodes.values()].map((node) => node.data.group))].filter(Boolean).slice(0, SHAPES.length);
  const { default: cytoscape } = await loadedCytoscape();
  const [ink, soft, edge, sea] = ["ink", "soft", "edge", "sea"].map(colour);
  const text = { color: ink, "text-wrap": "wrap", "text-background-color": sea };
  const equals = (kind, name) => `${kind} = ${JSON.stringify(name)}`;
  box.classList.toggle("many", nodes.size > MANY);
  const graph = cytoscape({ container: box, elements: [...nodes.values(), ...edges], minZoom: 0.5, maxZoom: 20,
    style: [{ selector: "node", style: { ...text, label: "data(text)", "background-color": soft, shape: "round-rectangle", "text-valign": "bottom", "text-margin-y": 3, "text-background-opacity": 0.8, "text-background-padding": 1 } },
      ...groups.map((name, place) => ({ selector: `node[${equals("group", name)}]`, style: { shape: SHAPES[place][0], "background-color": colour(SHAPES[place][1]) } })),
      { selector: ".above", style: { "text-valign": "top", "text-margin-y": -3 } },
      { selector: ".after", style: { "text-valign": "center", "text-halign": "right", "text-margin-x": 3, "text-margin-y": 0 } },
      { selector: ".before", style: { "text-valign": "center", "text-halign": "left", "text-margin-x": -3, "text-margin-y": 0 } },
      { selector: ".crowded", style: { "text-opacity": 0, "text-background-opacity": 0 } },
      { selector: "edge", style: { ...text, label: names.length > 1 ? "data(text)" : "", color: soft, "line-color": edge, "target-arrow-color": edge, "target-arrow-shape": "triangle", "curve-style": "bezier", "text-rotation": "autorotate", "text-background-opacity": 1, "text-background-padding": 2 } },
      ...kinds.map((name, place) => ({ selector: `edge[${equals("text", name)}]`, style: { "line-color": colour(KINDS[place]), "target-arrow-color": colour(KINDS[place]), "line-style": STROKES[place % STROKES.length] } }))],
    layout: { name: "circle" } });
  graph.layout({ name: "fcose", animate: false, randomize: false, // from a circle, so that it is the same each time
    nodeSeparation: 60, idealEdgeLength: edges.length > 60 ? 60 : 90, nodeDimensionsIncludeLabels: true }).run();
  const hidden = h("span", { class: "soft", hidden: true }, t("graph.crowded"));
  const fit = fitted(graph, box, names.length > 1, hidden);
  const zoom = (by) => graph.zoom({ level: graph.zoom() * by, renderedPosition: { x: box.clientWidth / 2, y: box.clientHeight / 2 } });
  const keys = { "+": () => zoom(1.25), "-": () => zoom(0.8), 0: fit, ArrowLeft: () => graph.panBy({ x: 40, y: 0 }), ArrowRight: () => graph.panBy({ x: -40, y: 0 }),
    ArrowUp: () => graph.panBy({ x: 0, y: 40 }), ArrowDown: () => graph.panBy({ x: 0, y: -40 }) };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const button = (key, text, name) => h("button", { type: "button", title: t(name), "aria-label": t(name), onclick: keys[key] }, text);
  box.before(h("p", { class: "tools zoom" }, button("+", "+", "graph.nearer"), button("-", "−", "graph.farther"), button("0", t("graph.whole"), "graph.whole")));
  box.before(h("p", { class: "keys" }, h("span", { class: "soft" }, t("graph.things")), groups.filter((name) => !kinds.includes(name)).map((name) => h("span", {}, shape(SHAPES[groups.indexOf(name)]), " ", columnName(name))),
    kinds.length > 0 && h("span", { class: "soft" }, t("graph.links")), kinds.map((name, place) => h("span", { class: `link ${KINDS[place]} ${STROKES[place % STROKES.length]}` }, name, listed && groups.includes(name) && [" ", shape(SHAPES[groups.indexOf(name)])])), names.length > KINDS.length && "…", hidden));
  graph.on("mouseover", "node, edge", ({ target, originalEvent }) => {
    target.removeClass("crowded");
    point(box, originalEvent, (target.isEdge() ? [target.source(), target, target.target()] : [target]).map((one) => one.data("text")).join(" → "));
  });
  graph.on("mouseout", ({ originalEvent }) => point(box, originalEvent));
  graph.on("tap", "node", ({ target }) => { // a finger is first told whose page it would open
    if (target.hasClass("crowded")) target.removeClass("crowded");
    else if (target.data("href")) window.open(target.data("href"), "_blank", "noopener");
  });
  const label = [t("graph.label", { n: edges.length }), names.length === 1 && names[0], listed && numbers.length > STATED && t("graph.rows", { n: STATED })].filter(Boolean).join(" · ");
  Object.entries({ tabindex: 0, role: "group", "aria-label": `${label}: ${[...nodes.values()].slice(0, 30).map((node) => node.data.text).join(", ")}` }).forEach(([name, value]) => box.setAttribute(name, value));
  return label;
}

const shape = ([, name, sign]) => h("span", { class: `shape ${name}`, "aria-hidden": "true" }, sign);

function loadedCytoscape() {
  if (!document.getElementById("__________cytoscape_stylesheet")) document.head.append(h("meta", { id: "__________cytoscape_stylesheet" })); // or it would write a style that the policy refuses
  return import("./vendor/cytoscape.js");
}

/** Fit a graph into its box, again whenever that changes and by what is returned; with the names of what has room, of its links too where they are `told`; `hidden` is shown where a thing's has none. */
function fitted(graph, box, told, hidden) {
  const first = new Map(graph.nodes().map((one) => [one, { ...one.position() }])); // as it was laid out
  const dot = DOT * Math.min(1, Math.sqrt(60 / first.size));
  const widest = () => Math.min(150, box.clientWidth / 4); // of names
  const size = () => { // as large on the screen however far away
    const far = 1 / graph.zoom();
    graph.style().selector("node, edge").style({ "font-size": LETTERS * far, "text-max-width": widest() * far })
      .selector("node").style({ width: dot * far, height: dot * far }).selector("edge").style({ width: 1.5 * far, "arrow-scale": 0.7 * far }).update();
  };
  const boxed = (one, options) => {
    const { x1: left, x2: right, y1: top, y2: bottom } = one.boundingBox(options);
    return { one, left, right, top, bottom };
  };
  const place = () => { // across the box, turned where that is higher than wide and the graph is not
    const along = (axis) => [...first.values()].map((at) => at[axis]);
    const [start, length] = ["x", "y"].reduce(([low, long], axis) => [{ ...low, [axis]: Math.min(...along(axis)) }, { ...long, [axis]: Math.max(1, Math.max(...along(axis)) - Math.min(...along(axis))) }], [{}, {}]);
    const room = { x: box.clientWidth - widest(), y: box.clientHeight - 5 * LETTERS };
    const from = length.x > length.y === room.x > room.y ? { x: "x", y: "y" } : { x: "y", y: "x" };
    const put = (at, axis) => (at[from[axis]] - start[from[axis]] - length[from[axis]] / 2) * Math.min(NEAR, room[axis] / length[from[axis]]) + room[axis] / 2;
    for (const [one, at] of first) one.position({ x: put(at, "x") + widest() / 2, y: put(at, "y") + 2 * LETTERS });
  };
  const spread = () => { // things whose names lie on each other move apart
    const places = graph.nodes().removeClass("above after before").map((one) => {
      const { left, right, top, bottom } = boxed(one);
      const [x, y] = [(left + right) / 2, (top + bottom) / 2];
      return { one, x, y, w: right - left + GAP, h: bottom - top + GAP, dx: one.position("x") - x, dy: one.position("y") - y };
    });
    const within = (value, size, room) => Math.min(room - size / 2, Math.max(size / 2, value));
    const full = places.reduce((sum, one) => sum + one.w * one.h, 0) > FULL * box.clientWidth * box.clientHeight;
    for (let turn = 0; turn < 200 && !full; turn++) {
      for (const [at, a] of places.entries()) for (const b of places.slice(at + 1)) {
        const [over, under] = [(a.w + b.w) / 2 - Math.abs(a.x - b.x), (a.h + b.h) / 2 - Math.abs(a.y - b.y)];
        if (over <= 0 || under <= 0) continue;
        const [axis, by] = over < under ? ["x", over / 2] : ["y", under / 2];
        const sign = a[axis] < b[axis] ? 1 : -1;
        a[axis] -= sign * by;
        b[axis] += sign * by;
      }
      for (const one of places) Object.assign(one, { x: within(one.x, one.w, box.clientWidth), y: within(one.y, one.h, box.clientHeight) });
    }
    for (const { one, x, y, dx, dy } of places) one.position({ x: x + dx, y: y + dy });
  };
  const ordered = graph.nodes().sort((one, other) => other.degree() - one.degree());
  const uncrowded = () => { // those of many links first, then the links
    const { x1, x2, y1, y2 } = graph.extent();
    const [dots, taken] = [graph.nodes().map((node) => boxed(node, { includeLabels: false })), []];
    const cut = (one, { left, right, top, bottom }) => [[left, right, x1, x2, one.position("x")], [top, bottom, y1, y2, one.position("y")]].some(([low, high, from, to, at]) => at > from && at < to && (low < from || high > to));
    for (const one of told ? [...ordered, ...graph.edges()] : ordered) {
      const room = (side) => {
        if (one.isNode()) one.removeClass("above after before").addClass(side);
        const own = boxed(one, { includeNodes: false, includeEdges: false });
        const others = one.isNode() && one.degree() >= HUB ? taken : [...taken, ...dots];
        return !(one.isNode() && cut(one, own)) && !others.some((other) => other.one !== one && meet(other, own)) && taken.push(own);
      };
      one.toggleClass("crowded", !(one.isNode() ? NAMED : [""]).some(room));
    }
    hidden.hidden = !graph.nodes(".crowded").length;
  };
  let waiting = 0;
  const sized = () => {
    size();
    clearTimeout(waiting);
    waiting = setTimeout(uncrowded, 50);
  };
  const fit = () => {
    graph.viewport({ zoom: 1, pan: { x: 0, y: 0 } });
    place();
    size();
    spread();
    sized();
  };
  graph.on("zoom", sized);
  new ResizeObserver(() => { // begins by the size that it has
    if (!box.clientWidth) return;
    graph.resize();
    fit();
  }).observe(box);
  return fit;
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
  const cards = rows.filter((row) => isPicture(row[at])).map((row) => h("li", {}, h("strong", { dir: "auto" }, nameOf(row, kinds).text), link(fileName(row[at].href), row[at].href)));
  box.append(h("ul", { class: "cards" }, cards), h("p", { class: "soft" }, t("images.about")));
  return t("images.label", { n: cards.length });
}
