// The licence of every package that a bundle has parts of, each text once; `make vendor` writes them.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

const [meta, target] = process.argv.slice(2);
const packages = new Map();
for (const [file, { inputs }] of Object.entries(JSON.parse(readFileSync(meta)).outputs)) {
  for (const input of Object.keys(inputs)) {
    const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
    if (name) packages.set(name, (packages.get(name) ?? new Set()).add(file.split("/").at(-1)));
  }
}
const texts = new Map();
for (const name of [...packages.keys(), "world-atlas"].sort()) {
  const folder = `node_modules/${name}/`;
  const file = existsSync(folder) && readdirSync(folder).find((one) => /^(mit-)?licen[cs]e/i.test(one));
  const { version, license } = JSON.parse(readFileSync(`${folder}package.json`));
  const text = file ? readFileSync(folder + file, "utf8").trim() : `${license} licence, as its package states.`;
  const parts = name === "world-atlas" ? "land.json: Natural Earth, 1:110 million, in the public domain" : [...packages.get(name)].sort().join(", ");
  texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${parts})`]);
}
const sections = [...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`);
writeFileSync(target, `What the chat page has of others, and their licences.\n\n${sections.join(`\n${"-".repeat(80)}\n`)}`);
