// Values that are pictures, as a grid: only from sites that the operator has named, for they load from there.

import { fileName, isPicture } from "./cells.js";
import { h, link } from "./dom.js";
import { t } from "./text.js";

const WIDE = 320; // pixels

/** A figure of the pictures in some rows, each with what else the row says; nothing where there are none. `sites` are origins. */
export function drawPictures(rows, sites = []) {
  const found = rows.flatMap((row) => row.filter((value) => isPicture(value) && sites.includes(origin(value.href))).map((value) => ({ value, row })));
  if (!found.length) return "";
  const label = t("pictures.label", { n: found.length });
  return h("figure", { class: "pictures" }, h("figcaption", {}, label), h("ul", { "aria-label": label }, found.map(({ value, row }) => {
    const name = row.find((other) => other && other !== value && !isPicture(other));
    const file = fileName(value.href);
    return h("li", {}, h("a", { href: value.href, target: "_blank", rel: "noopener noreferrer" },
      h("img", { src: small(value.href), alt: file, loading: "lazy", referrerpolicy: "no-referrer" })),
    name && h("span", { dir: "auto" }, link(name.text, name.href, { "data-entity": name.id })));
  })));
}

/** Commons gives a file in any width. */
function small(href) {
  const address = new URL(href.replace(/^http:/, "https:"));
  if (address.pathname.includes("/Special:FilePath/")) address.searchParams.set("width", WIDE);
  return address.href;
}

function origin(href) {
  try {
    return new URL(href.replace(/^http:/, "https:")).origin;
  } catch {
    return "";
  }
}
