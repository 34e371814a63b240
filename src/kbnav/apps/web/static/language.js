// The reader's choice of a language; kept for a year.

const select = document.getElementById("language");
select?.addEventListener("change", () => {
  document.cookie = `kbnav_language=${select.value}; Path=/; Max-Age=31536000; SameSite=Lax`;
  location.reload();
});
