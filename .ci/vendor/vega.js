// What the page needs of Vega for its charts and timelines; `make vendor` bundles it.

export { parse, View, Warn } from "vega";
export { expressionInterpreter } from "vega-interpreter";
export { compile } from "vega-lite";
