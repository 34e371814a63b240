// Questions that are asked one after another, each when the one before it is answered; kept over a reload.

import { h } from "./dom.js";
import { t } from "./text.js";

const place = document.getElementById("queue");
let session = "";
let waiting = [];

/** Those of a session. */
export function openQueue(id) {
  session = id;
  try {
    waiting = JSON.parse(sessionStorage.getItem(`queue ${id}`)) ?? [];
  } catch {
    waiting = [];
  }
  show();
}

export function enqueue(question) {
  waiting.push(question);
  keep();
}

/** The next one, which then waits no more; nothing where none does. */
export function next() {
  const question = waiting.shift();
  keep();
  return question;
}

function keep() {
  if (session && waiting.length) sessionStorage.setItem(`queue ${session}`, JSON.stringify(waiting));
  else sessionStorage.removeItem(`queue ${session}`);
  show();
}

function show() {
  place?.replaceChildren(...waiting.map((question, index) => h("li", {}, h("span", { class: "soft" }, t("queue.next")), h("span", { dir: "auto" }, question),
    h("button", { type: "button", class: "close", "aria-label": t("queue.remove", { question }), onclick: () => { waiting.splice(index, 1); keep(); } }, "×"))));
}
