// Calls of the REST API.

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
    throw new Error("The server cannot be reached.");
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
    throw new Error(reason || `The server answered ${response.status}.`);
  }
  return text ? JSON.parse(text) : null;
}

/** Listen to a run behind event `after` until its end; connections that are lost are made again. */
export function listen(run, after, heard) {
  let last = after;
  let source = null;
  let closed = false;
  const open = () => {
    if (closed) return;
    source = new EventSource(`/api/runs/${encodeURIComponent(run)}/events?after=${last}`);
    source.onmessage = (message) => {
      const number = Number(message.lastEventId);
      if (number <= last) return;
      last = number;
      const event = JSON.parse(message.data);
      if (event.kind === "end") close();
      heard(event);
    };
    source.onerror = () => {
      heard({ kind: "lost" });
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 1000);
    };
    source.onopen = () => heard({ kind: "connected" });
  };
  const close = () => {
    closed = true;
    source?.close();
  };
  open();
  return close;
}
