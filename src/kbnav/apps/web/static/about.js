// What this is, and the keys: a dialogue that a button opens, and a key.

const about = document.getElementById("about");
document.getElementById("about-open").addEventListener("click", () => about.showModal());
document.addEventListener("keydown", ({ key, target }) => key === "?" && !target.closest("input, textarea, select") && !about.open && about.showModal());
