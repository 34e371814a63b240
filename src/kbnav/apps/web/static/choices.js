// The reader's choices of a language and of light or dark; kept for a year.

const themed = () => document.dispatchEvent(new Event("theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
for (const select of document.querySelectorAll("#language, #theme")) select.addEventListener("change", () => {
  document.cookie = `kbnav_${select.id}=${select.value}; Path=/; Max-Age=31536000; SameSite=Lax`;
  if (select.id === "language") return location.reload();
  document.documentElement.dataset.theme = select.value;
  return themed();
});
