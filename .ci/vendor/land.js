// The outline of the world's land and the borders of its countries, of Natural Earth at 1:110 million: rings and lines of longitudes and latitudes in tenths of a degree.
import { readFileSync, writeFileSync } from "node:fs";
import { feature, mesh } from "topojson-client";

const topology = JSON.parse(readFileSync(new URL("node_modules/world-atlas/countries-110m.json", import.meta.url)));
const tenths = (line) => line.flatMap(([lon, lat]) => [Math.round(10 * lon), Math.round(10 * lat)]);
const land = feature(topology, topology.objects.land).features.flatMap((one) => one.geometry.coordinates.flat()).map(tenths);
const borders = mesh(topology, topology.objects.countries, (one, other) => one !== other).coordinates.map(tenths);
writeFileSync(process.argv[2], `${JSON.stringify({ land, borders })}\n`);
