// What the page needs of CodeMirror; `make vendor` bundles it.

export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
export { sparql } from "@codemirror/legacy-modes/mode/sparql";
export { EditorState, StateEffect, StateField } from "@codemirror/state";
export { Decoration, EditorView, hoverTooltip, keymap } from "@codemirror/view";
export { tags } from "@lezer/highlight";
