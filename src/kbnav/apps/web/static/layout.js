// A query that was written on one line, laid out.

const TOKEN = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|<[^<>\s]*>|[{}()[\];,]|[^\s{}()[\];,"'<.]+(?:\.[^\s{}()[\];,"'<.]+)*|[.<]/g;
const OWN_LINE = /^(filter|bind|optional|minus|service|values|order|group|having|limit|offset)$/i;
const HEAD = /^(select|ask|construct|describe|prefix|base)$/i;

/** A query with a condition on each line and its groups indented; one of several lines, or with a comment, as it is. */
export function laidOut(query) {
  const tokens = [...query.trim().matchAll(TOKEN)];
  if (query.includes("\n") || tokens.some(([token]) => token.startsWith("#"))) return query;
  const lines = [""];
  const groups = []; // whether what they hold is a line each
  let [within, call, end] = [0, false, 0]; // brackets; those of a filter; where the last token ended
  const line = (more = 0) => {
    if (lines.at(-1).trim()) lines.push("");
    lines[lines.length - 1] = "  ".repeat(groups.length + more);
  };
  tokens.forEach(({ 0: token, index }, place) => {
    const next = tokens[place + 1]?.[0] ?? "";
    const flat = within || groups.at(-1) === false;
    if (token === "}" && groups.pop() && !flat) line();
    if (!flat && (OWN_LINE.test(token) || (HEAD.test(token) && place))) line();
    if (index > end && lines.at(-1).trim()) lines[lines.length - 1] += " ";
    lines[lines.length - 1] += token;
    end = index + token.length;
    call = token !== "{" && (call || /^(filter|bind)$/i.test(token));
    if ("([".includes(token)) within++;
    if (")]".includes(token)) within--;
    if (token === "{") groups.push(!flat && !/\bvalues\s*(?:[?$]\w+|\([^()]*\))\s*\{$/i.test(lines.at(-1)));
    const over = token === ")" && call && !within;
    if (over) call = false;
    if (within || groups.at(-1) === false) return;
    if (token === "{" || token === "." || (over && next !== ".") || (token === "}" && !/^(union|\.|)$/i.test(next))) line();
    if (token === ";") line(1);
  });
  return lines.map((one) => one.trimEnd()).join("\n");
}
