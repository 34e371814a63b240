// What the page says in the reader's language, which the server has put into it.

export const language = document.documentElement.lang;
const texts = JSON.parse(document.getElementById("texts").textContent);
const plural = new Intl.PluralRules(language);
const numbers = new Intl.NumberFormat(language);

export const has = (key) => key in texts;

/** A text by its key, with `{names}` replaced by values; `n` chooses its plural form. */
export function t(key, values = {}) {
  const text = texts[key];
  if (text === undefined) throw new Error(`no text ${key}`);
  const form = typeof text === "string" ? text : text[plural.select(values.n)] ?? text.other;
  return form.replace(/\{(\w+)\}/g, (_, name) => typeof values[name] === "number" ? numbers.format(values[name]) : values[name]);
}

/** A number as the reader's language writes it. */
export function number(value, options = undefined) {
  return value.toLocaleString(language, options);
}
