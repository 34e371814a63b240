"""AGR: analyse a query, generate documents, generate again from what they find, refine (KAR, section 5.2, Table 7)."""

from __future__ import annotations

from kbnav.prompts import render
from kbnav.retrieval.expand.expansion import join, write_documents
from kbnav.retrieval.expand.feedback import WithFeedback
from kbnav.retrieval.expand.replies import document
from kbnav.runs.trace import Trace


class AGR(WithFeedback):
    """Five calls of a model, two of which sample: extract, analyse, generate, generate again, refine.

    Each of ``samples`` drafts finds ``initial`` documents, which the second drafts are written from.
    """

    name = "agr"

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``Expander``.

        With one sample there is nothing to weigh a draft against, and it is not refined. Where nothing can be made of
        the refined document, the expansion is the drafts it was to be made from.
        """
        keywords = self._ask("extract", query, trace)
        analysis = self._ask("analyse", query, trace, keywords=keywords or query) or query
        drafts = self._write("generate", query, trace, analysis=analysis)
        found = self._found(query, drafts, trace)
        drafts = self._write("again", query, trace, analysis=analysis, documents=found) or drafts
        if not drafts or self._samples == 1:
            return drafts
        refined = self._ask("refine", query, trace, analysis=analysis, documents=_lines(drafts))
        return [refined] if refined else drafts

    def _ask(self, step: str, query: str, trace: Trace, **values: object) -> str:
        prompt = render(f"agr/{step}.md", query=query, **values)
        return document(self._calls.ask(prompt, trace, purpose=step, needed=False))

    def _write(self, step: str, query: str, trace: Trace, **values: object) -> list[str]:
        prompt = render(f"agr/{step}.md", query=query, structures=self._structures, **values)
        return write_documents(
            self._calls, prompt, trace, purpose=step, samples=self._samples, temperature=self._temperature
        )

    def _found(self, query: str, drafts: list[str], trace: Trace) -> list[str]:
        """The documents that the query finds with each draft, each once; with the query alone where there is none."""
        return self._first(list(dict.fromkeys(join(query, [draft]) for draft in drafts)) or [query], trace)


def _lines(drafts: list[str]) -> list[str]:
    """Drafts in a line each, as documents are shown; equal ones once."""
    return list(dict.fromkeys(" ".join(draft.split()) for draft in drafts))
