// A button that copies a text.

import { h } from "./dom.js";
import { icon } from "./menu.js";
import { t } from "./text.js";

/** Copies what `text` gives when it is pressed, and says so for a moment. */
export function copyButton(label, text) {
  const told = h("span", {}, label);
  const button = h("button", { type: "button", class: "copy" }, icon("copy"), told);
  button.addEventListener("click", async () => {
    const done = await copied(await text());
    told.textContent = t(done ? "copy.done" : "copy.failed");
    setTimeout(() => (told.textContent = label), 1500);
  });
  return button;
}

/** Browsers have a clipboard for pages that came by HTTPS or from this machine; elsewhere a selection is copied. */
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const field = h("textarea", { class: "hidden", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
