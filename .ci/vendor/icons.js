// The page's icons: Wikimedia's, which editors know; `make vendor` bundles those that are used.

export {
  cdxIconAdd as add, cdxIconAlert as alert, cdxIconClose as close, cdxIconCode as code, cdxIconCopy as copy, cdxIconDownload as download,
  cdxIconEllipsis as more, cdxIconHistory as history, cdxIconLightbulb as examples, cdxIconShare as share,
} from "@wikimedia/codex-icons";
