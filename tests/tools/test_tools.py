"""The tools on the bundled mirror: what a model reads."""

import threading
from dataclasses import replace
from unittest.mock import Mock

import pytest
from langchain_core.messages import AIMessage

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import UnknownId
from kbnav.knowledge.base import Edge, Entity, Entry, Neighborhood, Qualifier, SearchResult, Share, Statement, Value
from kbnav.knowledge.ranking import neighborhood
from kbnav.knowledge.sparql.remarks import Measure
from kbnav.knowledge.wikidata.entities import without_unknown
from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.models.cancellation import current_cancellation
from kbnav.models.scripted import ScriptedModel
from kbnav.runs.trajectory import Call, Step
from kbnav.tools.context import Context, Observation, Shown, prune_by_ranking, prune_whole
from kbnav.tools.show import entry_text, neighborhood_text, rows_text, search_text, statement_lines, table_text
from kbnav.tools.toolbox import WIKIDATA_TOOLS, Toolbox
from kbnav.tools.wikidata import get_entry
from tests.knowledge.parts import Over

ASKED = "Which elements were discovered by Marie Curie?"


def use(context: Context, tool: str, **arguments: object) -> Observation:
    toolbox = Toolbox.for_kb(context.kb)
    thought, values = toolbox.validate(tool, {"thought": "why", **arguments})
    return toolbox.run(context, tool, thought, values)


def table(columns: str, *rows: tuple[object, ...], **labels: str) -> AnswerTable:
    terms = [
        tuple(
            None if cell is None else Term("uri" if str(cell).startswith("http") else "literal", str(cell))
            for cell in row
        )
        for row in rows
    ]
    return AnswerTable(tuple(columns.split()), tuple(terms), labels=labels)


@pytest.fixture
def context(mini_kb: WikidataKB) -> Context:
    return Context(mini_kb, ASKED, "en", prune_by_ranking(Shown()), seen=ASKED)


def test_every_schema_is_made_from_the_function_and_its_docstring(context):
    for schema in Toolbox(WIKIDATA_TOOLS, context.kb.capabilities | {"vector_query"}).schemas:
        function = schema["function"]
        assert len(function["description"]) > 60
        parameters = function["parameters"]
        assert "thought" in parameters["required"]
        assert "context" not in parameters["properties"]
        assert all(value.get("description") for value in parameters["properties"].values())


def test_search_offers_what_is_near_as_near_and_is_not_sure_of_nothing():
    near = SearchResult((Entity("ex:p1", "Potentiometer"),), rung="near")
    shown = 'Nothing is named "pontiometer"; near:\nPotentiometer (ex:p1)'
    assert search_text(near, "pontiometer", Shown()) == shown
    assert "may be written otherwise" in search_text(SearchResult(), "pontiometer", Shown())


def test_search_tells_what_is_named_so_from_names_that_only_begin_so(context):
    lines = use(context, "search_entities", query="date of").text.splitlines()
    assert lines[0] == 'Names that begin with "date of":'
    assert any("date of birth (P569)" in line for line in lines[1:])
    lines = use(context, "search_entities", query="Paris").text.splitlines()
    if "These only have a name that begins so:" in lines:
        lines = lines[: lines.index("These only have a name that begins so:")]
    assert lines[0].startswith("Paris (Q90)")
    assert all(line.startswith("Paris (") or 'also "Paris"' in line for line in lines)


def test_a_long_entry_is_cut_to_what_the_question_asks_and_the_rest_is_named(mini_kb):
    shown = Shown(statements=3)
    context = Context(mini_kb, "Who was the spouse of Marie Curie?", "en", prune_by_ranking(shown), shown)
    text = use(context, "get_entry", entity_id="Q7186").text
    statements = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(statements) == 3
    assert any(line.startswith("- spouse (P26)") for line in statements)
    assert any(line.startswith("- instance of (P31)") for line in statements)
    hidden = next(line for line in text.splitlines() if line.startswith("Not shown: "))
    assert "date of death (P570)" in hidden
    assert "award received (P166) ×3" in hidden


def test_an_entry_ends_with_what_comes_in_and_what_the_members_of_a_class_have(mini_kb):
    def read(entity_id: str, *, profiles: bool = True, statements: int = 40, **more: str) -> str:
        shown = Shown(profiles=profiles, statements=statements)
        context = Context(mini_kb, "?", "en", prune_by_ranking(shown), shown)
        return use(context, "get_entry", entity_id=entity_id, **more).text

    assert "Edges that come in: discoverer or inventor (P61) ×2, " in read("Q7186")
    assert "direct instances" not in read("Q7186")
    element = read("Q11344")
    assert "A class with " in element
    assert "discoverer or inventor (P61) " in element.rpartition("how many have them: ")[2]
    assert "instance of (P31)" not in element.rpartition("how many have them: ")[2]
    # What it is comes first, and its instances are counted once.
    assert element.splitlines()[2].startswith("A class with 39 direct instances")
    assert "instance of (P31) ×" not in element
    assert read("Q979").splitlines()[2].startswith("- instance of (P31)")
    assert {"date of birth (P569)", "place of birth (P19)"} <= {
        line[2:].split(":")[0] for line in read("Q7186").splitlines()
    }
    assert "come in" not in read("Q7186", profiles=False)
    whole = read("Q7186", statements=1, properties="p:P166, wdt:P4321").splitlines()
    assert whole[0] == "Marie Curie (Q7186)"
    assert [line.partition(":")[0] for line in whole[1:-1]] == ["- award received (P166)"] * 3
    assert all("[point in time (P585): " in line for line in whole[1:-1])
    assert whole[-1] == "It has no statement of P4321."


def test_statements_of_one_value_are_one_line_and_identical_ones_are_told_once():
    def held(year: str) -> Statement:
        start = Qualifier(Entity("P580", "start time", kind="property"), Value(year))
        return Statement(Entity("P39", "position held", kind="property"), Value("mayor", id="Q5"), qualifiers=(start,))

    assert statement_lines([held("1990"), held("2000"), held("1990")], Shown()) == [
        "- position held (P39): mayor (Q5) [start time (P580): 1990] [start time (P580): 2000] (stated 3 times)"
    ]
    assert statement_lines([held("1990"), held("1990")], Shown()) == [
        "- position held (P39): mayor (Q5) [start time (P580): 1990]"
    ]


def test_examples_show_which_way_a_property_points(context):
    lines = [
        line for line in use(context, "get_property_examples", property_id="P61").text.splitlines() if "-->" in line
    ]
    assert len(lines) == 5
    assert all(" -- discoverer or inventor (P61) --> " in line for line in lines)


def test_a_result_shows_labels_and_the_number_of_rows(context):
    context.seen += " P61 Q7186"
    done = use(context, "execute_query", query="SELECT ?x { ?x wdt:P61 wd:Q7186 } ORDER BY ?x")
    assert done.text == "x\nQ1128 (radium)\nQ979 (polonium)\n2 rows; distinct: x 2."
    assert done.rows == 2


def test_ids_that_no_result_has_shown_are_named_before_the_query_runs(context):
    text = use(context, "execute_query", query="SELECT ?x { ?x wdt:P61 wd:Q7186 ; wdt:P31 wd:Q424242424 }").text
    head = text.splitlines()[0]
    assert (
        head == "(Check the ids that you have not seen before: Q424242424 is unknown here.)"
    )  # the others fit the words
    context.question = "Which planets are there?"
    text = use(context, "execute_query", query="SELECT ?x { ?x wdt:P61 wd:Q7186 ; pq:P580 ?since }").text
    assert 'P61 is "discoverer or inventor"; Q7186 is "Marie Curie".' in text.splitlines()[0]
    assert "P580" not in text.splitlines()[0]  # too common a qualifier to be an invention


def test_yes_and_no(context):
    assert use(context, "execute_query", query="ASK { wd:Q979 wdt:P61 wd:Q7186 }").text.endswith("True")
    asked = use(context, "execute_query", query="ASK { wd:Q629 wdt:P61 wd:Q7186 }")
    assert "\nFalse\n" in f"\n{asked.text}\n"
    assert "`wd:Q629 wdt:P61 wd:Q7186` matches nothing even by itself" in asked.text
    assert asked.rows == 1


Q = "http://www.wikidata.org/entity/"
XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize(("rows", "shown"), [(12, 12), (50, 50), (51, 10), (500, 10)])
def test_a_result_is_whole_up_to_fifty_rows(rows, shown):
    text = table_text(table("n", *((number,) for number in range(rows))), Shown())
    assert len(text.splitlines()) == 1 + shown + (shown < rows) + 1
    assert text.endswith(f"{rows} rows; distinct: n {rows}.")


def test_a_result_of_long_rows_is_cut_by_its_size_but_not_where_the_cut_would_hide_one_row():
    long = [("x" * 199 + str(number % 10), "y" * 190 + str(number)) for number in range(25)]
    assert "… 15 rows not shown …" in table_text(table("a b", *long), Shown())
    assert "not shown" not in table_text(
        table("a b", *[(one[0] * 5, one[1] * 5) for one in long[:11]]), Shown(cell=3000)
    )
    assert "… 2 rows not shown …" in table_text(table("a b", *long[:12]), Shown(whole_bytes=1000))


def test_below_a_result_stand_its_rows_different_values_and_empty_cells():
    mixed = table("x y", (Q + "Q1", 1), (Q + "Q1", None), (Q + "Q2", None), Q1="one")
    assert table_text(mixed, Shown(), name="Result 4").splitlines()[1:] == [
        "Q1 (one)\t1",
        "Q1 (one)\t(none)",
        "Q2\t(none)",
        "Result 4: 3 rows; distinct: x 2, y 1; empty: y 2.",
        "Ids that stand alone have no label.",
    ]
    assert table_text(table("x", (7,)), Shown()) == "x\n7\n1 row."
    numbers = ("60887.67000000001", "-0.30000000000000004", "1.5E300", "98765432101.990005", "0.00001234567890123456")
    doubles = tuple((Term("literal", text, f"{XSD}double"),) for text in numbers)
    assert table_text(AnswerTable(("x",), doubles), Shown()).split()[1:6] == ["60887.67", "-0.3", *numbers[2:]]


def test_a_cut_result_lists_the_values_of_a_column_that_has_few():
    kinds = [(number, "pump" if number % 3 else "valve") for number in range(60)]
    assert table_text(table("n kind", *kinds), Shown()).endswith(
        "60 rows; distinct: n 60, kind 2; kind: pump ×40, valve ×20."
    )


def test_rows_that_read_the_same_show_in_what_they_differ():
    number, text = Term("literal", "7", f"{XSD}integer"), Term("literal", "7")
    shown = table_text(AnswerTable(("x",), ((number,), (text,), (Term("literal", "8"),))), Shown())
    assert shown.splitlines()[1:4] == ['7 ["7"^^integer]', '7 ["7"]', "8"]


def test_dates_read_as_in_entries_and_amounts_in_several_units_have_theirs():
    xsd = "http://www.w3.org/2001/XMLSchema#"
    first, foot, metre = (
        Term("literal", value, xsd + kind)
        for value, kind in (("1898-01-01T00:00:00Z", "dateTime"), ("10", "decimal"), ("3", "decimal"))
    )
    one = AnswerTable(("d", "h"), ((first, foot), (first, metre)))
    assert table_text(one, Shown()).splitlines()[1:3] == ["1898\t10", "1898\t3"]
    measured = {
        (one.rows[0], 0): Measure(precision=11),
        (one.rows[1], 0): Measure(precision=7),
        (one.rows[0], 1): Measure("foot"),
        (one.rows[1], 1): Measure("metre"),
    }
    text = table_text(one, Shown(), measured=measured)
    assert text.splitlines()[1:3] == ["1898-01-01\t10 foot", "19th century\t3 metre"]
    alike = {**measured, (one.rows[1], 1): Measure("foot")}
    assert "foot" not in table_text(one, Shown(), measured=alike)
    assert "1898-01-01T00:00:00Z" in table_text(one, Shown(whole_rows=0))


def test_where_nothing_has_the_name_a_part_of_wikidata_says_how_to_reach_what_has_no_label(context):
    found = use(context, "search_entities", query="Marie Curie of Poland").text
    assert "has no label is found only by" in found
    assert "no label" not in use(context, "search_entities", query="Marie Curie").text


@pytest.mark.parametrize(("words", "language", "relation"), [("prizes", "en", "P166"), ("discoverer", "de", "P61")])
def test_edges_fit_a_phrase_by_labels_in_the_language_asked_and_in_english(mini_kb, words, language, relation):
    fits = mini_kb.search_neighbors("Q7186", query=words, language=language)
    assert {edge.relation.id for edge in fits.edges if edge.score} == {relation}


def test_english_labels_are_asked_for_only_to_match_a_phrase(mini_kb, monkeypatch):
    brief = Mock(wraps=mini_kb._api.brief)
    monkeypatch.setattr(mini_kb._api, "brief", brief)
    mini_kb.search_neighbors("Q7186", language="de")
    assert {call.args[1] for call in brief.call_args_list} == {"de"}


def test_where_no_edge_fits_a_phrase_one_of_each_property_is_shown_and_it_is_said(mini_kb):
    none = mini_kb.search_neighbors("Q7186", query="football club")
    ways = [(edge.direction, edge.relation.id) for edge in none.edges]
    assert len(ways) == len({*ways}) == len(none.relations)
    shown = neighborhood_text(none, Shown())
    assert "No edge matches “football club”" in shown
    assert "best match" not in shown
    assert "award received (P166) ×3" in shown
    assert "one of each" not in neighborhood_text(mini_kb.search_neighbors("Q7186", query="football", limit=5), Shown())
    one = Entity("P40", "child")
    both = [(Edge(way, one, Value(f"Ann {n}", f"Q{n}")), "") for n in range(9) for way in ("out", "in")]
    found = neighborhood(Entity("Q1"), both, "football club", 12)
    assert len(found.edges) == 12
    assert "give `relation`" not in found.note
    few = mini_kb.search_neighbors("Q979", query="discoverer")
    assert len(neighborhood_text(few, Shown()).splitlines()) == few.total  # all, where all have room


def test_of_many_edges_those_of_one_property_are_few_and_the_rest_is_counted():
    speaks, other = Entity("P103", "native language"), Entity("P17", "country")
    edges = [Edge("in", speaks, Value(f"Person {n}", f"Q{n}"), score=1.0) for n in range(1, 20)]
    edges.append(Edge("out", other, Value("Land", "Q99"), score=0.9))
    counts = (Share(Entity("^P103", "native language"), 30), Share(other, 1))
    lines = neighborhood_text(Neighborhood(Entity("Q1860", "English"), tuple(edges), 31, counts), Shown()).splitlines()
    assert [line for line in lines if "Person" in line] == [
        f"Person {n} (Q{n}) -- native language (P103) --> English (Q1860)" for n in range(1, 6)
    ]
    assert lines[5:8] == [
        "English (Q1860) -- country (P17) --> Land (Q99)",
        "native language (^P103): 25 more, seen by relation=P103.",
        "6 of 31 edges are shown, best match first.",
    ]
    alone = Neighborhood(Entity("Q1860", "English"), tuple(edges[:19]), 30, counts[:1])
    assert neighborhood_text(alone, Shown()).count("Person") == 19


def test_what_was_asked_before_reaches_pruning_and_the_default_phrase_of_neighbors(mini_kb):
    shown = Shown(statements=3, edges=3)
    context = Context(mini_kb, "And when?", "en", prune_by_ranking(shown), shown)
    again = replace(context, earlier=("Who was the spouse of Marie Curie?",))
    lines = use(again, "get_entry", entity_id="Q7186").text.splitlines()
    assert any(line.startswith("- spouse (P26)") for line in lines)
    assert not any(
        line.startswith("- spouse") for line in use(context, "get_entry", entity_id="Q7186").text.splitlines()
    )
    assert " -- spouse (P26) --> " in use(again, "search_neighbors", entity_id="Q7186").text.splitlines()[0]
    for later, told in ((2, True), (3, False)):  # the last three before it
        context.earlier = ("Who was the spouse of Marie Curie?", *["And where?"] * later)
        lines = use(context, "get_entry", entity_id="Q7186").text.splitlines()
        assert any(line.startswith("- spouse") for line in lines) is told


def test_identifiers_that_the_question_speaks_of_are_shown_and_the_others_named(context):
    entity = Entity("Q1", "someone")
    ids = [
        ("P214", "VIAF cluster ID"),
        ("P213", "ISNI"),
        *[(f"P9{number}", f"list {number} ID") for number in range(20)],
    ]
    own = tuple(Statement(Entity(one, label, kind="property"), Value(f"x{one}")) for one, label in ids)
    entry = Entry(entity, identifiers=own, omitted={"deprecated": 2})
    context.kb = Over(context.kb, get_entry=lambda entity_id, language: entry)
    context.question = "What is the VIAF ID of someone?"
    assert use(context, "get_entry", entity_id="Q1").text.splitlines()[1:] == [
        "- VIAF cluster ID (P214): xP214",
        f"Identifiers not shown: ISNI (P213), {', '.join(f'list {n} ID (P9{n})' for n in range(7))} and 13 more.",
        "2 deprecated statements not shown.",
    ]


def test_predicates_are_shown_in_the_form_in_which_a_query_writes_them(context):
    text = use(context, "execute_query", query="SELECT DISTINCT ?p { wd:Q979 ?p ?o }").text
    for name in ("wdt:P61 (discoverer or inventor)", "p:P61 (discoverer or inventor)", "rdfs:label"):
        assert f"\n{name}\n" in text
    assert "http" not in text
    items = use(context, "execute_query", query="SELECT ?x { wd:Q979 wdt:P61 ?x }").text
    assert "wd:" not in items.partition("\n")[2]


def test_statements_of_properties_that_are_not_there_are_counted():
    known = {"P31": Entity("P31", "instance of", kind="property")}
    stated = [Statement(Entity(one, kind="property"), Value(one)) for one in ("P31", "P9", "P8")]
    kept = without_unknown(Entry(Entity("Q1"), tuple(stated)), known)
    assert [one.property.id for one in kept.statements] == ["P31"]
    assert entry_text(kept, kept, Shown()).endswith("2 statements of properties that have no page here not shown.")
    assert without_unknown(kept, known) == kept


def test_what_is_only_named_by_others_has_no_statements_but_edges(context, mini_kb):
    def unknown(entity_id: str, language: str = "en") -> Entry:
        raise UnknownId(f"no page for {entity_id}")

    context.kb = Over(mini_kb, get_entry=unknown)
    lines = get_entry(context, "", "wd:Q7186").text.splitlines()
    assert lines[0] == "wd:Q7186 has no statements of its own here."
    assert lines[1].startswith("Edges that come in: discoverer or inventor (P61) ×2")
    with pytest.raises(UnknownId):
        get_entry(context, "", "Q999999999")


def test_that_there_is_no_value_is_told_where_it_is_stated(context):
    said = use(context, "execute_query", query="ASK { wd:Q131733 p:P26/ps:P26 ?spouse }").text
    assert "It is stated that there is none. Henry Cavendish (Q131733): spouse (P26)." in said
    assert "proves nothing" not in said
    for query in (
        "ASK { wd:Q677 wdt:P61 ?who . ?who wdt:P19 ?at }",
        "ASK { wd:Q677 p:P61/ps:P61 ?who . ?who wdt:P19 ?at }",
    ):
        said = use(context, "execute_query", query=query).text
        assert said.endswith(": each ?who is stated to be unknown.")
    edges = use(context, "search_neighbors", entity_id="Q131733", query="spouse, married").text
    assert edges.startswith("Henry Cavendish (Q131733) -- spouse (P26) --> no value\n")


def test_queries_about_a_result_share_one_short_time_and_the_last_is_stopped(context, monkeypatch):
    monkeypatch.setattr("kbnav.tools.wikidata._MORE", 0.1)
    kb, asked, stopped = context.kb, list[str](), threading.Event()

    def slow(query: str, *, language: str = "en") -> AnswerTable:
        asked.append(query)
        if len(asked) > 1:
            with current_cancellation().on_cancel(stopped.set):
                stopped.wait(5)
        return kb.execute_query(query, language=language)

    query = "SELECT ?x ?n { ?x wdt:P31 wd:Q11344 ; wdt:P1086 ?n } ORDER BY ?n LIMIT 3"
    context = replace(context, kb=Over(context.kb, execute_query=slow), shown=Shown(profiles=True))
    seen = use(context, "execute_query", query=query)
    assert seen.rows == 3
    assert stopped.is_set()
    assert len(asked) == 2


def numbered(context: Context, query: str) -> Context:
    context.number = 3
    seen = use(context, "execute_query", query=query)
    step = Step(3, Call("execute_query", {"query": query}), seen.text, rows=seen.rows)
    return replace(context, number=4, results={3: step})


def test_a_long_result_is_paged_and_filtered_without_a_new_query(context):
    again = numbered(context, "SELECT ?n ?x { ?x wdt:P1086 ?n } ORDER BY ?n ?x")
    rows = again.tables[again.results[3].call.arguments["query"]].rows
    again = replace(again, kb=Over(context.kb, execute_query=None), shown=replace(again.shown, whole_rows=30))
    page = use(again, "show_rows", start=2).text.splitlines()
    assert page[:2] == ["Result 3:", "row\tn\tx"]
    assert page[2].startswith(f"2\t{rows[1][0].value}\t{rows[1][1].entity_id} (")
    assert len(page) == 2 + 30 + 1
    assert page[-1] == f"{len(rows)} rows; {len(rows) - 31} more after these."
    found = use(again, "show_rows", contains="POLONIUM").text.splitlines()
    assert found[2].endswith("\t84\tQ979 (polonium)")
    assert found[-1] == f"1 of {len(rows)} rows contain “POLONIUM”."
    assert use(again, "show_rows", result=9).text == "There is no result 9 with rows. Results with rows: 3."
    assert use(context, "show_rows").text == "No query has had rows yet."


def test_a_text_is_looked_for_in_whole_rows_and_not_in_what_is_shown_of_them():
    columns = " ".join(f"c{number}" for number in range(25))
    rows = [("x" * 500 + " needle", *range(24)), ("y", *range(23), "needle far out"), ("z", *range(24))]
    shown = rows_text(table(columns, *rows), Shown(cell=40), start=1, contains="NEEDLE")[0].splitlines()
    assert [line.split("\t")[0] for line in shown[1:-1]] == ["1", "2"]
    assert max(map(len, shown)) < 200


def test_a_query_run_once_more_is_not_sent_but_makes_its_result_the_last(context):
    again = numbered(context, "SELECT ?x { ?x wdt:P61 wd:Q7186 }")
    again = replace(again, kb=Over(context.kb, execute_query=None), shown=replace(again.shown, whole_rows=30))
    told = use(again, "execute_query", query=" SELECT ?x  { ?x wdt:P61 wd:Q7186 }")
    assert (told.rows, told.text.split(". ")[0]) == (2, "This is result 3 again")


LABELS = {
    "P31": "instance of",
    "P19": "place of birth",
    "P20": "place of death",
    "P26": "spouse",
    "P69": "educated at",
    "P106": "occupation",
    "P166": "award received",
}
QUESTION = "Where was she born?"


def entry(values: int = 3) -> Entry:
    statements = [
        Statement(Entity(one, label, kind="property"), Value(f"{label} value {number}"))
        for one, label in LABELS.items()
        for number in range(values)
    ]
    return Entry(Entity("Q1", "someone"), tuple(statements))


def kept(pruned: Entry) -> list[str]:
    return list(dict.fromkeys(statement.property.id for statement in pruned.statements))


def test_ranking_keeps_what_it_is_and_what_the_question_asks():
    pruned, usage = prune_by_ranking(Shown(statements=4, values=2))(entry(), "What is her place of birth?")
    assert kept(pruned) == ["P31", "P19"]
    assert usage.calls == 0


@pytest.mark.parametrize("said", ['["P19", "P20"]', "I would keep P19 and P20.", '```json\n["P19","P20"]\n```'])
def test_a_model_chooses_the_properties(said):
    model = ScriptedModel(replies=[AIMessage(said)])
    pruned, usage = prune_whole(model, Shown())(entry(), QUESTION)
    assert kept(pruned) == ["P19", "P20"]
    assert usage.calls == 1
    (prompt,) = model.seen[0]
    assert "P19 place of birth: #1 place of birth value 0;" in prompt.text
    assert QUESTION in prompt.text


def test_a_model_sees_qualifiers_and_examples_with_them_and_what_was_asked_before():
    model = ScriptedModel(replies=[AIMessage('["P26"]')])
    since = Qualifier(Entity("P580", "start time", kind="property"), Value("1895"))
    married = Statement(Entity("P26", "spouse", kind="property"), Value("Pierre Curie"), qualifiers=(since,))
    prune_whole(model, Shown())(Entry(Entity("Q1", "someone"), (married,)), "Who was Marie Curie?\nAnd her husband?")
    prompt = model.seen[0][0].text
    assert "P26 spouse: Pierre Curie [start time: 1895]" in prompt
    assert "- Who was Marie Curie?\n- And her husband?\n<result>\nEntity: someone (Q1)" in prompt
    examples = prompt.split("Questions of the conversation")[0]
    assert examples.count("[start time: ") == 2
    assert examples.count('\n["P31"') == 3


def test_the_papers_pruning_sees_the_whole_entry_and_keeps_what_the_model_keeps_by_value_too():
    model = ScriptedModel(replies=[AIMessage('["P166", "P69#59"]')] * 2)
    asked = entry(values=60)
    pruned, _ = prune_whole(model, Shown())(asked, QUESTION)
    (prompt,) = model.seen[0]
    assert all(f"{label} value {number}" in prompt.text for label in LABELS.values() for number in range(60))
    assert [one.value.text for one in pruned.statements if one.property.id == "P69"] == ["educated at value 58"]
    assert (kept(pruned), len(pruned.statements)) == (["P69", "P166"], 61)
    long = Statement(Entity("P1", "text", kind="property"), Value("x" * 100_000))
    prune_whole(model, Shown())(Entry(Entity("Q1", "one"), (*asked.statements, long)), QUESTION)
    assert "(1 more statements are not shown: the entry is too long.)" in model.seen[1][0].text


@pytest.mark.parametrize(("said", "properties"), [("[]", []), ("No idea.", ["P31", "P19"])])
def test_the_papers_pruning_ranks_only_where_the_reply_cannot_be_read(said, properties):
    pruned, _ = prune_whole(ScriptedModel(replies=[AIMessage(said)]), Shown(statements=6))(
        entry(), "What is her place of birth?"
    )
    assert kept(pruned) == properties
