"""RAR: a document that would answer the query, written with the first retrieval in view (KAR, section 5.2, Table 6)."""

from __future__ import annotations

from kbnav.prompts import render
from kbnav.retrieval.expand.expansion import write_documents
from kbnav.retrieval.expand.feedback import WithFeedback
from kbnav.runs.trace import Trace


class RAR(WithFeedback):
    """Samples documents; the model sees those that the query alone finds first."""

    name = "rar"

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``Expander``."""
        documents = self._first([query], trace)
        prompt = render("rar/document.md", structures=self._structures, documents=documents, query=query)
        return write_documents(self._calls, prompt, trace, samples=self._samples, temperature=self._temperature)
