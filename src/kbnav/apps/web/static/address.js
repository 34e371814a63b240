// What the page's address keeps behind its hash: a query, of which base, and in which view.

/** What the address has for a key; "" where it has nothing. */
export const kept = (key) => new URLSearchParams(location.hash.slice(1)).get(key) ?? "";

export function keep(key, value) {
  const all = new URLSearchParams(location.hash.slice(1));
  all.set(key, value);
  history.replaceState(history.state, "", `#${all}`);
}
