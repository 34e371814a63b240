"""Replies as wikitext: what is in them, and that nothing in them can act."""

import html
import re
import unicodedata
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.bot.wikitext import Style, edit_summary, escape, reply_text
from kbnav.knowledge.evidence import Evidence, Provenance
from kbnav.runs.trajectory import Call, Outcome, Run, Step

WD = "http://www.wikidata.org/entity/"
TABLE = AnswerTable(
    ("element",),
    tuple((Term("uri", f"{WD}Q{number}"),) for number in range(1, 13)),
    labels={"Q1": "radium", "Q2": "<b>|{{x}}"},
)
RUN = Run(
    "run-1",
    "Which?",
    "spinach",
    "m",
    "en",
    (Step(1, Call("execute_query", {}, "Look [[here]]")),),
    (),
    Outcome("answered", "finish", "SELECT ?x {\n ?x ?y '~~~~' }", TABLE, text="polonium, [[Category:X]]"),
)


def test_a_reply_holds_answer_ten_rows_query_link_steps_and_signature():
    text = reply_text(RUN, Style("[[{id}]]", "https://q.example/#"), marker="kbnav:00")
    lines = text.splitlines()
    assert lines[0] == "<!-- kbnav:00 -->polonium, &#91;&#91;Category&#58;X&#93;&#93;"
    assert lines[1].startswith('<table class="wikitable"><tr><th>element</th></tr><tr><td>[[Q1]] radium</td></tr>')
    assert "<td>[[Q2]] &#60;b&#62;&#124;&#123;&#123;x&#125;&#125;</td>" in lines[1]
    assert lines[1].count("<tr>") == 11
    assert "''12 rows, the first 10 shown''" in lines
    assert "[https://q.example/#SELECT%20%3Fx%20%7B%0A%20%3Fx%20%3Fy%20%27%7E%7E%7E%7E%27%20%7D run it]" in text
    assert "<li>Look &#91;&#91;here&#93;&#93; (execute&#95;query)</li>" in lines[-2]
    assert lines[-1] == "~~~~"


def test_the_statements_behind_the_rows_are_footnotes():
    told = Evidence(Term("uri", f"{WD}Q9"), "P61", Term("uri", f"{WD}Q1"), f"{WD}statement/Q9-1")
    found = Provenance(((told,), ()), cut=True, labels={"P61": "found [[by]]"})
    text = reply_text(RUN, Style("[[{id}]]"), marker="m", evidence=found)
    assert "<td>[[Q1]] radium<sup>1</sup></td>" in text
    assert "<td>[[Q3]]</td>" in text
    assert "<li>Q9 — found &#91;&#91;by&#93;&#93; — Q1&#59; no reference is stated</li>" in text
    assert "<li>nothing was found that is stated of it</li>" in text
    assert "<p>There is more, which was not looked at.</p>" in text
    yes = replace(RUN, outcome=Outcome("answered", "finish", "ASK {}", AnswerTable(boolean=True), text="Yes."))
    assert "-->Yes.<sup>1</sup>" in reply_text(yes, Style(), marker="m", evidence=Provenance(((told,),)))
    failed = reply_text(RUN, Style(), marker="m", evidence=Provenance(failed="down"))
    assert failed == reply_text(RUN, Style(), marker="m")


@given(st.text())
def test_escaped_text_reads_the_same_and_has_no_mark_that_mediawiki_knows(text):
    safe = escape(text)
    for form in ("NFC", "NFKC"):  # the first is what MediaWiki saves
        assert re.fullmatch(r"(?:[A-Za-z0-9 .,?()%+$]|[^\x00-\x7f]|&#\d+;)*", unicodedata.normalize(form, safe))
    assert not re.search(r"RFC|PMID|ISBN", safe)
    assert not safe.startswith(" ")
    seen = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cs", "Co", "Cn"))
    assert html.unescape(safe).split() == re.sub(r"[\u202a-\u202e\u2066-\u2069]", "", seen).split()


@given(st.text(), st.text())
def test_a_summary_links_to_nothing_but_the_task(section, task):
    summary = edit_summary(section, task)
    assert summary.count("[[") == 1
    assert summary.count("/*") == summary.count("*/") <= 1
    assert "{" not in summary
    assert "\n" not in summary
