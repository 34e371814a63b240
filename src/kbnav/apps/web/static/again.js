// The same question once more: as it is, changed, or of another system or model beside it, in the same session.

import { h } from "./dom.js";
import { t } from "./text.js";

/** A system by its name and what it does. */
export const described = (system, base) => [system, base.about.find((one) => one.name === system)?.about].filter(Boolean).join(": ");

/** Buttons below an answer; the page hears of a press by the events `again` and `edit`. */
export function againButtons(run, offered) {
  const tell = (kind, detail) => document.dispatchEvent(new CustomEvent(kind, { detail: { question: run.question, ...detail } }));
  const base = offered.kbs.find((one) => one.key === run.kb);
  const lacks = ({ system, model }) => { // what it needs, or is better with, and does not have here
    const { needs, uses } = base.about.find((one) => one.name === system);
    return needs.includes("training") || (model === "offline" && system !== base.systems[0] && [...needs, ...uses].includes("model"));
  };
  const others = (base?.systems ?? []).flatMap((system) => offered.models.map((model) => ({ system, model })))
    .filter((one) => (one.system !== run.system || one.model !== run.model) && !lacks(one));
  const select = h("select", { class: "other", "aria-label": t("again.other"), title: t("again.about"), onchange: () => {
    const chosen = others[select.selectedIndex - 1];
    select.selectedIndex = 0;
    if (chosen) tell("again", chosen);
  } }, h("option", {}, t("again.other")), others.map((one) => h("option", {}, [described(one.system, base), offered.models.length > 1 && one.model].filter(Boolean).join(" · "))));
  return [h("button", { type: "button", onclick: () => tell("again", { system: run.system, model: run.model }) }, t("again.ask")),
    h("button", { type: "button", onclick: () => tell("edit") }, t("again.edit")), others.length > 0 && select];
}
