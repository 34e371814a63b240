// Calls of the REST API.

import { t } from "./text.js";

/** What the server says to a request; throws an Error with its reason. */
export async function call(path, method = "GET", body = undefined, more = {}) {
  const options = { method, headers: { Accept: "application/json" }, ...more };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(t("connection.unreachable"));
  }
  if (response.status === 401) location.assign("/login");
  const text = await response.text();
  if (!response.ok) {
    let problem = {};
    try {
      problem = JSON.parse(text);
    } catch {
      problem.detail = text.slice(0, 200);
    }
    const { detail, line, column } = problem;
    throw Object.assign(new Error(detail || t("connection.status", { status: String(response.status) })), { line, column });
  }
  return text ? JSON.parse(text) : null;
}

const GONE = [401, 403, 404, 410]; // others, such as 408 and 429, pass
const NUMBERLESS = ["waiting", "draft"];
const FIRST_WAIT = 500; // milliseconds
const LONGEST_WAIT = 30_000;

/** The status of a stream, of which nothing is read; 0 where the server is away, or silent for a second. */
async function probe(path) {
  const hangUp = new AbortController();
  setTimeout(() => hangUp.abort(), 1000);
  const status = await fetch(path, { signal: hangUp.signal }).then((response) => response.status, () => 0);
  hangUp.abort();
  return status;
}

/** A name that nobody guesses. */
export function freshName() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Listen to a run behind event `after` until its end. A connection that is lost is made again while the run is there:
 * `lost` says how often it was tried, after how many milliseconds it is tried next, and gives `again`, which does not wait.
 */
export function listen(run, after, heard) {
  const path = `/api/runs/${encodeURIComponent(run)}/events?after=`;
  let last = after;
  let tries = 0;
  let source = null;
  let timer = 0;
  let closed = false;
  const open = () => {
    clearTimeout(timer);
    source?.close();
    if (closed) return;
    source = new EventSource(`${path}${last}`);
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (NUMBERLESS.includes(event.kind)) return heard(event);
      const number = Number(message.lastEventId);
      if (number <= last) return;
      last = number;
      if (event.kind === "end") close();
      heard(event);
    };
    source.onopen = () => {
      tries = 0;
      heard({ kind: "connected" });
    };
    source.onerror = failed;
  };
  const failed = async () => {
    source.close(); // or the browser would try by itself, and nobody could say how often
    const status = await probe(`${path}${last}`);
    if (closed) return;
    if (GONE.includes(status)) {
      close();
      if (status === 401) location.assign("/login");
      else heard({ kind: "gone" });
      return;
    }
    const wait = Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT);
    tries++;
    heard({ kind: "lost", tries, wait, again: open });
    clearTimeout(timer);
    timer = setTimeout(open, wait);
  };
  const close = () => {
    closed = true;
    clearTimeout(timer);
    source?.close();
  };
  open();
  return close;
}
