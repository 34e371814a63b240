// What the reader must see wherever they are: a server that is away, and what could not be done.

import { h } from "./dom.js";
import { t } from "./text.js";

const place = document.getElementById("notices");
let lost = null;
let timer = 0;

/** Say that something went wrong, until the reader has read it or does something else. */
export function complain(text) {
  clearComplaint();
  place?.append(h("p", { class: "problem complaint", role: "alert" }, h("span", {}, text),
    h("button", { type: "button", class: "close", "aria-label": t("notice.close"), onclick: clearComplaint }, "×")));
}

export function clearComplaint() {
  place?.querySelector(".complaint")?.remove();
}

/** Say that the server is away: how often it was tried, and when it is tried again; `event` is that of `listen`. */
export function showLost(event) {
  if (!lost) {
    lost = h("p", { class: "problem banner", role: "alert" }, h("strong", {}, t("connection.lost")), " ", h("span", { class: "tries", "aria-live": "off" }), " ",
      h("button", { type: "button", onclick: () => lost.again() }, t("connection.now")));
    document.body.prepend(lost);
  }
  lost.again = event.again;
  const until = Date.now() + event.wait;
  const tick = () => {
    const seconds = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    lost.querySelector(".tries").textContent = `${t("connection.tries", { n: event.tries })} ${t("connection.next", { n: seconds })}`;
  };
  clearInterval(timer);
  timer = setInterval(tick, 500);
  tick();
}

/** The server is there again. */
export function hideLost() {
  clearInterval(timer);
  lost?.remove();
  lost = null;
}
