// What a run waits for, and for how many seconds it has.

import { h } from "./dom.js";
import { t } from "./text.js";

/** A line with a turning wheel; `thinking` is said between the steps, the server's clock is `ahead` by so many seconds. */
export class Awaited {
  constructor(thinking, ahead) {
    this.thinking = thinking;
    this.ahead = ahead;
    this.what = h("span");
    this.time = h("span", { class: "time", "aria-hidden": "true" });
    this.element = h("p", { class: "awaited", hidden: true }, h("span", { class: "wheel", "aria-hidden": "true" }), this.what, " ", this.time);
  }

  /** From now on, or from `at` on by the server's clock, something else is waited for. */
  begin(what, at = undefined) {
    this.what.textContent = what;
    this.since = at === undefined ? Date.now() / 1000 : at - this.ahead;
    this.element.hidden = false;
    this.timer ??= setInterval(() => this.tick(), 1000);
    this.tick();
  }

  /** The same, for whoever chooses the next step. */
  think(at = undefined) {
    this.begin(this.thinking, at);
  }

  /** The same wait goes on, and more is known of it. */
  tell(what) {
    this.what.textContent = what;
  }

  tick() {
    const seconds = Math.max(0, Math.floor(Date.now() / 1000 - this.since));
    this.time.textContent = seconds ? t("run.seconds", { n: seconds }) : "";
  }

  end() {
    clearInterval(this.timer);
    this.element.hidden = true;
  }
}
