"""Nothing that a reader, a model or a knowledge base says is run by a browser, or makes it ask another host."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbnav.answers.tables import AnswerTable, Ranked, Ranking, Term
from kbnav.apps.sharing import shared_page
from kbnav.evaluation.report import html_report, load_report
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.runs.trajectory import Call, Outcome, Run, Step
from tests.apps.web.parts import Explorer, Server, web_settings
from tests.apps.web.test_page import ask, open_steps, share, wait_for_the_end
from tests.evaluation.parts import saved_folder
from tests.knowledge.skb.sources import small_skb

ELSEWHERE = "//127.0.0.2:9/leak"
RUN = "alert(window.hacked=1)"
CORPUS = (
    f"<script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f'"><script>{RUN}</script>',
    f"'><img src=x onerror={RUN}>",
    f"javascript:{RUN}",
    f'<a href="javascript:{RUN}" autofocus onfocus={RUN}>x</a>',
    f'<iframe src="javascript:parent.{RUN}"></iframe>',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror={RUN}>'>",
    f"</textarea><script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"<!--><script>{RUN}</script>-->",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"&lt;script&gt;{RUN}&lt;/script&gt; &#60;script>{RUN}&#60;/script>",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e \\x3cscript>",
    f'{{{{constructor.constructor("{RUN}")()}}}} ${{{RUN}}} <%= {RUN} %>',
    f"\u202e<script>{RUN}</script>\u2028{RUN}\u2029",
    f"data:text/html,<script>{RUN}</script>",
    f"[x](javascript:{RUN}) ![x]({ELSEWHERE})",
    f"<img src={ELSEWHERE}>",
    f"<link rel=stylesheet href={ELSEWHERE}><style>@import '{ELSEWHERE}'</style>",
    f'<meta http-equiv=refresh content="0;url={ELSEWHERE}"><base href={ELSEWHERE}>',
    f'<object data={ELSEWHERE}></object><embed src={ELSEWHERE}><p style="background:url({ELSEWHERE})">',
)
ALL = " ".join(CORPUS)


@contextmanager
def nothing_runs(page, home: str) -> Iterator[None]:
    """Fails where a dialog opens, a script sets ``hacked``, or what does not begin with ``home`` is asked."""
    wrong: list[str] = []
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(home) else None)
    page.add_init_script("Object.defineProperty(window, 'hacked', { set() { alert('hacked'); } })")
    yield
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    assert (
        page.locator("main img, main script, main iframe, main object, main style, [href^='javascript']").count() == 0
    )


def literal(text: str) -> str:
    return json.dumps(text)  # as N-Triples writes it too


def hostile_mirror(folder: Path) -> Path:
    """A mirror whose labels, aliases and descriptions are the corpus: of entities, and of the property too."""
    wd, label = "http://www.wikidata.org", "<http://www.w3.org/2000/01/rdf-schema#label>"
    prop = f"<{wd}/entity/P61>"
    lines = [
        f"<{wd}/entity/Q7186> {label} {literal(ALL)}@en .",
        f"<{wd}/entity/Q7186> <http://schema.org/description> {literal(ALL)}@en .",
        f"{prop} {label} {literal(ALL)}@en .",
        f"{prop} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://wikiba.se/ontology#Property> .",
        f"{prop} <http://wikiba.se/ontology#propertyType> <http://wikiba.se/ontology#WikibaseItem> .",
        f"{prop} <http://wikiba.se/ontology#directClaim> <{wd}/prop/direct/P61> .",
    ]
    for number, text in enumerate(CORPUS, 1):
        lines += [
            f"<{wd}/entity/Q{number}> {label} {literal(text)}@en .",
            f"<{wd}/entity/Q{number}> <http://www.w3.org/2004/02/skos/core#altLabel> {literal(text)}@en .",
            f"<{wd}/entity/Q{number}> <{wd}/prop/direct/P61> <{wd}/entity/Q7186> .",
        ]
    (folder / "hostile.nt").write_text("\n".join(lines) + "\n")
    build_mirror([folder / "hostile.nt"], folder / "hostile")
    return folder / "hostile"


@pytest.mark.slow
def test_question_labels_and_answers_are_text_in_the_page(page, fresh_home, tmp_path):
    query = (
        "SELECT ?element ?by ?text ?code { ?element wdt:P61 ?by ; skos:altLabel ?text "
        "BIND(STRDT(STR(?text), <http://example.org/onerror=alert(1)>) AS ?code) }"
    )
    with (
        Explorer(query, ALL) as model,
        Server(web_settings(fresh_home, str(hostile_mirror(tmp_path)), **model.options())) as server,
        nothing_runs(page, server.url),
    ):
        policy = page.goto(server.url).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        ask(page, ALL)
        wait_for_the_end(page)
        page.wait_for_selector(".rows td")
        open_steps(page)
        shown = page.inner_text(".rows")
        assert all(text.split()[0][:8] in shown for text in CORPUS if text.isprintable())
        assert page.locator(".rows tbody tr").count() == len(CORPUS)
        assert page.locator(".rows tbody td").count() >= 4 * len(CORPUS)  # literals, plain and with a type, too
        page.reload()  # from what is kept
        wait_for_the_end(page)
        address = share(page)
        page.goto(address)
        page.wait_for_selector(".rows td")
        for entity in ("Q7186", "Q1", "Q2"):
            page.goto(f"{server.url}/entry/hostile/{entity}")
            page.wait_for_selector("h2")


def test_names_types_relations_and_documents_of_nodes_are_text_in_the_page(page, fresh_home, tmp_path):
    nodes = [{"id": f"n{n}", "name": text, "type": text, "text": ALL, text: ALL} for n, text in enumerate(CORPUS)]
    nodes.append({"id": f"odd <{RUN}> & '\"", "name": "odd", "type": "thing", "text": ALL})
    edges = [*(("n0", text, f"n{n}") for n, text in enumerate(CORPUS)), (nodes[-1]["id"], "leads", "n0")]
    place = small_skb(tmp_path, nodes, edges, sparql=True).place
    with Server(web_settings(fresh_home, str(place))) as server, nothing_runs(page, server.url):
        for node in ("n0", "n1", "odd%20%3Calert(window.hacked%3D1)%3E%20%26%20'%22"):
            assert page.goto(f"{server.url}/entry/small.skb/{node}").status == 200, node
            page.wait_for_selector("h2")
        page.goto(server.url)
        ask(page, f"Which thing leads to {CORPUS[0]}?")
        wait_for_the_end(page)
        open_steps(page)


def hostile_run(text: str) -> Run:
    """A run in which everything that is text is hostile."""
    cells = [
        (Term("uri", one), Term("literal", one, language=one), Term("literal", one, datatype=one)) for one in CORPUS
    ]
    table = AnswerTable((text, "b", "c"), tuple(cells), labels={one: one for one in CORPUS})
    steps = tuple(Step(number, Call(one, {one: one}, one), one, one) for number, one in enumerate(CORPUS))
    outcome = Outcome("answered", "finish", text, table, text=text, note=text, error=text)
    versions = {one: one for one in CORPUS}
    return Run(
        text, text, text, text, text, steps, steps, outcome, requests={text: 1}, started=text,
        kb={"name": text, "endpoint": text, "skb": {"name": text}}, versions=versions, prompts=versions,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["report", "answer"])
def test_what_a_run_says_is_text_in_the_page_of_a_report_and_of_an_answer(page, tmp_path, kind):
    if kind == "answer":
        text = shared_page([(hostile_run(one), None) for one in (*CORPUS, ALL)])
    else:
        ranking = Ranking(tuple(Ranked(one, 1.0, one, one) for one in CORPUS))
        folders = [tmp_path / "<img src=x onerror=alert(1)>", tmp_path / "b"]
        for folder, answer in zip(folders, (hostile_run(ALL).outcome.table, ranking), strict=True):
            folder.mkdir()
            changes = {"system": ALL, "model": ALL, "dataset": ALL, "language": ALL}
            saved_folder(folder, dict.fromkeys(CORPUS, tuple(CORPUS)), dict.fromkeys(CORPUS, answer), **changes)
        text = html_report(load_report(folders), ALL)
    (tmp_path / "page.html").write_text(text)
    with nothing_runs(page, "file:"):
        page.goto(f"file://{tmp_path}/page.html")
        for closed in page.locator("details:not([open]) > summary").all():
            if closed.is_visible():
                closed.click()
        assert CORPUS[0] in page.inner_text("main")
