// The outline of the world's land, of Natural Earth at 1:110 million, as rings of longitudes and latitudes in tenths of a degree.
import { readFileSync, writeFileSync } from "node:fs";
import { feature } from "topojson-client";

const topology = JSON.parse(readFileSync(new URL("node_modules/world-atlas/land-110m.json", import.meta.url)));
const rings = feature(topology, topology.objects.land).features.flatMap((one) => one.geometry.coordinates.flat());
const tenths = rings.map((ring) => ring.flatMap(([lon, lat]) => [Math.round(10 * lon), Math.round(10 * lat)]));
writeFileSync(process.argv[2], `${JSON.stringify(tenths)}\n`);
