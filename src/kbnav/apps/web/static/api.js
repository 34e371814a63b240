// The API's own description, as a page.

import { call } from "./client.js";
import { h } from "./dom.js";
import { t } from "./text.js";

const place = document.getElementById("operations");
try {
  const described = await call("/openapi.json");
  const sections = Object.entries(described.paths).map(([path, methods]) => Object.entries(methods).map(([method, operation]) => section(described, path, method, operation)));
  place.replaceChildren(...sections.flat(), h("h3", {}, t("api.records")), ...Object.entries(described.components.schemas).map(([name, schema]) => record(name, schema)));
} catch (error) {
  place.replaceChildren(h("p", { class: "problem" }, error.message));
}

function section(described, path, method, operation) {
  const parameters = (operation.parameters || []).map((one) => h("li", {}, h("code", {}, one.name), ` ${t("api.parameter", { place: one.in })}${one.required ? "" : `, ${t("api.optional")}`}${one.description ? `: ${one.description}` : ""}`));
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const answers = Object.entries(operation.responses).map(([status, one]) => h("li", {}, h("code", {}, status), ` ${one.description}`));
  return h("details", { class: "operation" },
    h("summary", {}, h("code", {}, method.toUpperCase()), " ", h("code", {}, path), " ", operation.summary),
    h("p", {}, operation.description || ""),
    parameters.length > 0 && [h("h4", {}, t("api.parameters")), h("ul", {}, parameters)],
    body && [h("h4", {}, t("api.body")), h("p", {}, named(body))],
    h("h4", {}, t("api.answers")), h("ul", {}, answers));
}

function record(name, schema) {
  const fields = Object.entries(schema.properties || {}).map(([field, one]) => h("li", {}, h("code", {}, field), ` ${named(one)}`));
  return h("details", { class: "operation", id: `record-${name}` }, h("summary", {}, h("code", {}, name)), h("p", {}, schema.description || ""), h("ul", {}, fields));
}

function named(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(named).reduce(either);
  if (schema.enum || schema.const !== undefined) return (schema.enum || [schema.const]).map((value) => JSON.stringify(value)).reduce(either);
  return schema.type === "array" ? t("api.array", { items: named(schema.items || {}) }) : schema.type || t("api.anything");
}

function either(one, other) {
  return t("api.or", { one, other });
}
