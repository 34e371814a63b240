// What this is: a dialogue that a button opens.

const about = document.getElementById("about");
document.getElementById("about-open").addEventListener("click", () => about.showModal());
