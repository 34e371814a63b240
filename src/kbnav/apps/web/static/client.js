// Calls of the REST API.

import { t } from "./text.js";

/** What the server says to a request; throws an Error with its reason. */
export async function call(path, method = "GET", body = undefined) {
  const options = { method, headers: { Accept: "application/json" } };
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
    let reason = "";
    try {
      reason = JSON.parse(text).detail;
    } catch {
      reason = text.slice(0, 200);
    }
    throw new Error(reason || t("connection.status", { status: String(response.status) }));
  }
  return text ? JSON.parse(text) : null;
}

const GONE = [401, 403, 404, 410]; // others, such as 408 and 429, pass

/** The status of a stream, of which nothing is read; 0 where the server is away. */
async function probe(path) {
  const hangUp = new AbortController();
  const status = await fetch(path, { signal: hangUp.signal }).then((response) => response.status, () => 0);
  hangUp.abort();
  return status;
}

/** A name that nobody guesses. */
export function freshName() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Listen to a run behind event `after` until its end; connections that are lost are made again while the run is there. */
export function listen(run, after, heard) {
  const path = `/api/runs/${encodeURIComponent(run)}/events?after=`;
  let last = after;
  let wait = 1000;
  let source = null;
  let closed = false;
  const open = () => {
    if (closed) return;
    source = new EventSource(`${path}${last}`);
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (event.kind === "waiting") return heard(event); // it has no number
      const number = Number(message.lastEventId);
      if (number <= last) return;
      last = number;
      if (event.kind === "end") close();
      heard(event);
    };
    source.onerror = async () => {
      heard({ kind: "lost" });
      if (source.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
      const status = await probe(`${path}${last}`);
      if (closed) return;
      if (GONE.includes(status)) {
        close();
        if (status === 401) location.assign("/login");
        else heard({ kind: "gone" });
      } else {
        setTimeout(open, wait);
        wait = Math.min(2 * wait, 30_000);
      }
    };
    source.onopen = () => {
      wait = 1000;
      heard({ kind: "connected" });
    };
  };
  const close = () => {
    closed = true;
    source?.close();
  };
  open();
  return close;
}
