// Which kind of nothing an answer is, where it is no, 0 or empty.

import { h } from "./dom.js";
import { icon } from "./menu.js";
import { withVariables } from "./readings.js";
import { language, t } from "./text.js";

/** The kind in words; why, and what has matches instead, closed where the reader has not `written` that query or does not read its language; nothing where there is an answer; after a plain no, `brief`, why alone; in `words` what was looked for. */
export function absent(absence, { brief = false, written = false, words = "" } = {}) {
  if (!absence) return "";
  const plain = language === "en" && (written || !absence.text.includes("`"));
  if (brief && plain && absence.kind === "not stated" && absence.text) return h("p", { class: "note absent", dir: "auto" }, absence.text);
  const head = h("p", {}, h("strong", {}, t(`absent.${absence.kind.replaceAll(" ", "_")}`)));
  const why = [absence.text && h("p", { lang: "en" }, absence.text), absence.instead && h("p", { dir: "auto" }, t("absent.instead"), " ", h("code", {}, absence.instead))];
  return h("div", { class: "message absent", role: "note" }, icon("alert"), h("div", {}, head, words && h("p", { dir: "auto" }, withVariables(t("absent.looked", { words }))),
    (plain && (written || !absence.instead)) || !why.some(Boolean) ? why : h("details", {}, h("summary", {}, t("absent.details")), why)));
}
