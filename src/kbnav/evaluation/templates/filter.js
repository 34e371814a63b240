"use strict";
const text = document.getElementById("text");
const kind = document.getElementById("kind");
const count = document.getElementById("count");
const questions = Array.from(document.querySelectorAll("details.question"), (element) => ({
  element,
  words: element.querySelector("summary").textContent.toLowerCase(),
  kinds: element.dataset.kinds.split("|"),
}));

function show() {
  const wanted = text.value.trim().toLowerCase();
  let shown = 0;
  for (const { element, words, kinds } of questions) {
    element.hidden = !words.includes(wanted) || (kind.value !== "" && !kinds.includes(kind.value));
    shown += element.hidden ? 0 : 1;
  }
  count.textContent = shown === questions.length ? `${shown} questions` : `${shown} of ${questions.length} questions`;
}

text.addEventListener("input", show);
kind.addEventListener("change", show);
show();
