"""Questions on SKBs so small that what each part picks alone is counted by hand, or in plain Python."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbnav.answers.language import function_words, singular
from kbnav.encoders import Vectors, normalised
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.synthesis.sampling import SplitSizes, synthesize
from kbnav.evaluation.synthesis.templates import check_template, parse_template, write_questions
from kbnav.evaluation.synthesis.wording import (
    FOLDER,
    Phrase,
    Rewording,
    Thesaurus,
    Wording,
    clauses_of,
    is_content,
    is_literal,
    load_words,
    reword,
    reworded,
)
from kbnav.knowledge.skb.store import SKB
from tests.evaluation.synthesis.parts import FILLER, Edge, EdgeList, schema, workshop
from tests.knowledge.skb.sources import small_skb

MADE = Wording.model_validate(
    {
        "types": {"jug": {"fields": ["note"]}},
        "relations": {"made": {"out": ["that {0} made"]}},
        "templates": ["potter -made-> jug"],
    }
)


BIRD = "painted in the kiln with a copper heron"
OTHER = ["glazed", "fired", "cracked", "chipped", "gilded"]


@pytest.mark.parametrize(
    ("notes", "by_ann", "reason"),
    [
        # Of Ann's three jugs two have the heron: her name says nearly as much.
        (
            [BIRD, BIRD, "glazed", "copper heron", "copper heron", "copper heron"],
            range(3),
            "relations alone pick the answer",
        ),
        # Nobody else's jug has it.
        ([BIRD, BIRD, *OTHER, "fired"], range(6), "text alone picks the answer"),
        # Two other jugs have it, but Ann's come first by BM25, having little else in their notes.
        (
            ["copper heron", *OTHER, f"{BIRD} and much more", f"{BIRD} and still more"],
            range(6),
            "text alone: BM25 puts an answer first",
        ),
        # All jugs are Ann's, so that one jug has one candidate beside it at most.
        ([BIRD, "glazed"], range(2), "relations alone pick the answer"),
    ],
)
def test_a_question_that_one_part_answers_is_left_out(tmp_path, notes, by_ann, reason):
    only_ann = MADE.model_copy(update={"empty": ("kiln", "painted")})
    with workshop(tmp_path, notes, by_ann) as skb:
        found, report = synthesize(skb, SplitSizes(1), only_ann)
    assert found == []
    assert report.dropped[reason] > 0


class Herons:
    """Sees nothing in a text but whether there is a heron: such texts are alike, and the first of them comes first."""

    name = "herons"

    def encode(self, texts: Sequence[str]) -> Vectors:
        return normalised(np.array([["heron" in text.lower(), "heron" not in text.lower()] for text in texts]))


def test_vectors_must_not_find_an_answer_by_the_text_either(tmp_path):
    notes = [BIRD, BIRD, *OTHER[:4], "a copper heron", "the copper heron", "copper heron"]
    with workshop(tmp_path, notes, range(6), Herons()) as skb:
        found, report = synthesize(skb, SplitSizes(1), MADE)
    assert found == []
    assert report.dropped["text alone: vss puts an answer first"] > 0


def test_a_name_that_two_nodes_share_starts_no_question(tmp_path):
    nodes = [{"id": "a", "type": "potter", "name": "Ann Reed"}, {"id": "b", "type": "potter", "name": "ann reed"}]
    nodes += [{"id": f"j{n}", "type": "jug", "name": FILLER[n], "note": "copper heron"} for n in range(10)]
    with small_skb(tmp_path, nodes, [("a" if n < 5 else "b", "made", f"j{n}") for n in range(10)]) as skb:
        found, report = synthesize(skb, SplitSizes(1), MADE)
    assert found == []
    assert report.dropped.keys() == {"a start node's name is another's too"}


def fair(folder: Path, seed: int = 5) -> tuple[SKB, dict[str, str], list[Edge]]:
    """Things with notes of three words out of ten, sold by people and kept in rooms at random."""
    chance = random.Random(seed)
    words = ["copper", "heron", "velvet", "walnut", "lantern", "pepper", "vessel", "container", "saddle", "turnip"]
    notes = {f"t{n}": " ".join(chance.sample(words, 3)) for n in range(150)}
    nodes = [{"id": node, "type": "thing", "name": f"Lot {node}", "note": note} for node, note in notes.items()]
    people = [f"p{n}" for n in range(8)]
    rooms = [f"r{n}" for n in range(5)]
    nodes += [{"id": node, "type": "seller", "name": f"Seller {node}"} for node in people]
    nodes += [{"id": node, "type": "room", "name": f"Hall {node}"} for node in rooms]
    edges = [(chance.choice(people), "sells", thing) for thing in notes]
    edges += [(chance.choice(people), "sells", thing) for thing in chance.sample(sorted(notes), 60)]
    edges += [(thing, "kept in", chance.choice(rooms)) for thing in notes]
    edges += [(person, "from", chance.choice(rooms)) for person in people]
    return small_skb(folder, nodes, edges), notes, sorted(set(edges))


FAIR = Wording.model_validate({"types": {"thing": {"fields": ["note"]}}})


def same_word(token: str) -> str:
    """A word of the fair, its plural, or its synonym, as one."""
    word = re.sub(r"(?<!s)s$", "", token.lower())
    return "vessel" if word in ("container", "receptacle") else word


def test_what_was_kept_stands_up_to_counting_in_plain_python(tmp_path):
    skb, notes, edges = fair(tmp_path)
    with skb:
        found, _ = synthesize(skb, SplitSizes(test=20, train=10), FAIR)
    assert len(found) == 30
    graph = EdgeList(edges)
    for question in found:
        meta = question.record()["meta"]
        candidates = graph.candidates(meta["paths"], notes)
        wanted = {same_word(word) for word in question.text_source.split() if is_content(word)}
        holders = {node for node, note in notes.items() if wanted <= {same_word(word) for word in note.split()}}
        assert set(question.answers) == candidates & holders
        assert question.gold in question.answers
        assert (len(candidates), len(holders)) == (question.candidates, question.holders)
        for part in (candidates, holders):
            assert len(part) >= max(len(question.answers) + 2, 2 * len(question.answers))
        for path in meta["paths"]:  # neither branch is idle
            alone = graph.candidates([path], notes) - {other["start"] for other in meta["paths"]}
            assert len(meta["paths"]) == 1 or len(alone) > len(candidates)
            for (relation, way), one, other in zip(path["hops"], path["walk"], path["walk"][1:], strict=False):
                assert ((one, relation, other) if way == "out" else (other, relation, one)) in edges
        assert not is_literal(question.text, notes[question.gold])
        assert {same_word(word) for word in question.text.split() if is_content(word)} == wanted
        assert question.text in question.question
        assert all(path.start_name in question.question for path in question.paths)


def test_no_gold_answer_or_relations_are_in_two_splits(tmp_path):
    skb, _, _ = fair(tmp_path)
    with skb:
        found, report = synthesize(skb, SplitSizes(10, 20, 10), FAIR)
    assert report.kept == {"test": 10, "train": 20, "val": 10}
    assert len({question.gold for question in found}) == 40
    assert len({(q.template, tuple(path.start for path in q.paths)) for q in found}) == 40
    of_split = {
        split: {node for question in found if question.split == split for node in question.answers}
        for split in ("test", "train", "val")
    }
    assert not of_split["test"] & of_split["train"]
    assert not of_split["test"] & of_split["val"]
    assert not of_split["val"] & of_split["train"]


def test_a_written_set_is_a_dataset(tmp_path):
    skb, _, _ = fair(tmp_path)
    with skb:
        found, report = synthesize(skb, SplitSizes(4, 3), FAIR)
    files = write_questions(tmp_path / "q.jsonl", found, report)
    assert [file.name for file in files] == ["q.jsonl", "q-train.jsonl", "q.report.json"]
    test, train = (load_file("jsonl", file) for file in files[:2])
    assert [question.nodes for question in test.questions] == [q.answers for q in found if q.split == "test"]
    assert [question.id for question in train.questions] == ["small-train-0001", "small-train-0002", "small-train-0003"]
    assert all(question.meta["paths"] and question.meta["gold"] in question.nodes for question in test.questions)
    assert json.loads(files[2].read_text())["kept"] == {"test": 4, "train": 3, "val": 0}


def test_clauses_nest_and_agree():
    wording = Wording.model_validate(
        {
            "openings": ["Find {0} {1}."],
            "frames": ["that mention {0}"],
            "types": {"gene": {"plural": ["genes"]}, "drug": {"plural": ["drugs"]}},
            "relations": {
                "binds": {"out": ["that {0} bind[s]"], "into": ["that bind {0}"]},
                "resembles": {"out": ["that [is|are] like {0}"], "symmetric": True},
            },
        }
    )

    def asked(template: str, *names: str) -> str:
        return wording.question(parse_template(template), names, "", random.Random(0))[0]

    assert asked("drug -binds-> gene", "aspirin") == "Find genes that aspirin binds."
    assert asked("drug -resembles- drug -binds-> gene", "aspirin") == "Find genes that drugs that is like aspirin bind."
    question, clauses = wording.question(
        parse_template("gene <-binds- drug & drug -resembles- drug"), ["TP53", "aspirin"], "pain", random.Random(1)
    )
    assert clauses == ["that bind TP53", "that is like aspirin"]
    assert question in {
        "Find drugs that mention pain and that bind TP53 and that is like aspirin.",
        "Find drugs that bind TP53 and that is like aspirin and that mention pain.",
    }


@pytest.mark.parametrize("name", sorted(path.stem for path in (FOLDER / "wordings").glob("*.toml")))
def test_shipped_wordings_are_read_and_their_templates_too(name):
    wording = load_words(Wording, name)
    for template in map(parse_template, wording.templates):
        legs = [leg for branch in template.branches for leg in branch.legs]
        assert {leg.relation for leg in legs} <= wording.relations.keys()
        assert {leg.type for leg in legs} <= wording.types.keys()


def test_starks_templates_are_all_there_and_fit_its_schemas():
    """Appendix B: so many templates of each shape; schemas as STaRK's files have them."""
    shapes = {
        "amazon": {"1": 5, "1&1": 7, "1&1&1": 1},
        "mag": {"1": 3, "2": 2, "2=2": 1, "2&1": 1},
        "prime": {"1&!1": 1, "1&1": 4, "2": 19, "2=1": 4},
    }
    for name, expected in shapes.items():
        templates = [parse_template(text) for text in load_words(Wording, f"stark-{name}").templates]
        assert Counter(template.shape for template in templates) == expected
        legs = [leg for template in templates for branch in template.branches for leg in branch.legs]
        assert all(leg.direction == "both" for leg in legs if leg.relation.startswith("also_"))
        for template in templates if name in STARK_SCHEMAS else ():
            check_template(template, STARK_SCHEMAS[name])


PRIME = Path(__file__).with_name("prime_metapaths.txt").read_text(encoding="utf-8")


def test_primes_templates_are_the_papers_metapaths():
    """Appendix B.3, each metapath as it stands there; the last four lead twice from one node."""

    def metapath(text: str) -> str:
        template = parse_template(text)
        return " & ".join(
            " ".join([one.start, *(f"[{'!' * leg.negated}{leg.relation}] {leg.type}" for leg in one.legs)])
            for one in template.branches
        )

    templates = load_words(Wording, "stark-prime").templates
    assert [metapath(text) for text in templates] == PRIME.splitlines()
    assert ["same" in text for text in templates] == [False] * 24 + [True] * 4


STARK_SCHEMAS = {
    "amazon": schema(
        *((("product", f"has_{kind}", kind)) for kind in ("brand", "color", "category")),
        *(("product", relation, "product") for relation in ("also_buy", "also_view")),
    ),
    "mag": schema(
        ("author", "author___affiliated_with___institution", "institution"),
        ("paper", "paper___cites___paper", "paper"),
        ("paper", "paper___has_topic___field_of_study", "field_of_study"),
        ("author", "author___writes___paper", "paper"),
    ),
}


def test_a_wording_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="hetionet"):
        load_words(Wording, "hetionett")
    (tmp_path / "own.toml").write_text("quotes = true\n")
    with pytest.raises(DataError, match="quotes"):
        load_words(Wording, str(tmp_path / "own.toml"))


@pytest.mark.parametrize(
    ("phrase", "expected", "how"),
    [
        (Phrase(("narrow", "vessel"), False), "narrow container", "synonyms"),
        (Phrase(("narrow", "neck"), False), "narrow necks", "forms"),
        (Phrase(("tone", "and", "manner"), False), "manner and tone", "forms"),
        (Phrase(("works", "of", "art"), False), "art works", "forms"),
        (Phrase(("committing", "a", "crime"), False), "committing crimes", "forms"),
        (Phrase(("paints", "pots"), True), "painting pot", "forms"),
        (Phrase(("family", "Felidae"), False), "family Felidae", "forms"),
    ],
)
def test_rewording(phrase, expected, how):
    words = Thesaurus(("vessel container",), lambda text: [text.removesuffix("s").removesuffix("ing")])
    found = reword(phrase, words, random.Random(0))
    assert (found.text, found.how) == (expected, how)


OTHER_WORDS = """
[learn]
openings = ["Give me {0} {1}.", "{0} {1}"]
frames = ["about {0}"]
types = { jug = { plural = ["jugs", "pots"] } }
relations = { made = { out = ["thrown by {0}", "from the wheel of {0}"] } }
[test]
openings = ["Any {0} {1}?", "What is there {1}?"]
frames = ["on {0}"]
joints = [" and ", ", plus "]
types = { jug = { plural = ["ewers"] } }
relations = { made = { out = ["shaped by {0}", "by the hand of {0}"] } }
"""
REWORDED = sorted(path.stem for path in (FOLDER / "rewordings").glob("*.toml"))


def stems(text: str) -> list[str]:
    """The words of a text without their endings, by rules of this test's own."""
    words = [word.strip('.,;:?!"()').lower() for word in text.replace("_", " ").replace("-", " ").split()]
    found = []
    for word in filter(None, words):
        base = singular(word)
        for ending in ("ing", "ed"):
            if base.endswith(ending) and len(base) > len(ending) + 2:
                base = base.removesuffix(ending)
                break
        found.append(base.removesuffix("e"))
    return found


def meaning(texts: Iterable[str]) -> set[str]:
    """The stems of all words that are not only grammar."""
    return {
        stem
        for text in texts
        for word in text.split()
        if word.lower() not in function_words("en")
        for stem in stems(word)
    } - {"{0}", ""}


NOTES = [
    *(["painted in the kiln with a copper heron"] * 2),
    *("glazed", "fired", "cracked", "chipped"),
    *("a copper heron", "the copper heron", "copper heron"),
]
"""Of six of Ann's jugs two have the heron, and all of Bob's."""


def own(folder: Path, text: str = OTHER_WORDS) -> Rewording:
    path = folder / "own.toml"
    path.write_text(text)
    return load_words(Rewording, str(path))


@pytest.fixture
def made(tmp_path: Path):
    """The shop, and two questions on it: one of the test split, one of training."""
    with workshop(tmp_path, NOTES, range(6)) as skb:
        found, _ = synthesize(skb, SplitSizes(1, seed=2), MADE)
        assert found
        yield skb, [found[0], replace(found[0], id="small-train-0001", split="train")]


def test_only_the_words_of_a_question_change(made, tmp_path):
    skb, questions = made
    test, train = reworded(skb, questions, MADE, own(tmp_path))
    for before, after in zip(questions, (test, train), strict=True):
        assert replace(after, question=before.question, worded_by=before.worded_by) == before
        assert before.paths[0].start_name in after.question
        assert before.text in after.question
        assert "made" not in after.question.split()
    assert any(word in test.question for word in ("shaped", "hand"))
    assert any(word in train.question for word in ("thrown", "wheel"))


def test_a_relation_without_other_words_is_named(made, tmp_path):
    skb, questions = made
    with pytest.raises(DataError, match="the relation made has phrases in one of its two parts only"):
        own(tmp_path, OTHER_WORDS.replace("{ made =", "{ sold =", 1))
    nothing = own(tmp_path, OTHER_WORDS.replace("out =", "into ="))
    with pytest.raises(DataError, match="no phrase for 'made', followed 'out'"):
        reworded(skb, questions, MADE, nothing)
    with pytest.raises(UsageError, match=r"no rewording 'nowhere': .* debian, hetionet, wn18rr, wordnet"):
        load_words(Rewording, "nowhere")


@pytest.mark.parametrize("name", REWORDED)
def test_shipped_rewordings_quote_no_schema_and_teach_no_word_of_the_tests(name):
    wording, rewording = load_words(Wording, name), load_words(Rewording, name)
    for relation, words in wording.relations.items():
        schema = meaning([relation, *clauses_of(words)])
        learn, test = (meaning(clauses_of(part.relations[relation])) for part in (rewording.learn, rewording.test))
        assert learn, relation
        assert test, relation
        assert not schema & (learn | test), relation
        assert not learn & test, relation
    for field in ("openings", "frames"):
        learn, test = (meaning(getattr(part, field)) for part in (rewording.learn, rewording.test))
        assert not learn & test - {"{1}"}, field


def test_the_command_writes_both(tmp_path, kbnav):
    workshop(tmp_path, NOTES, range(6)).close()
    (tmp_path / "words.toml").write_text(
        'templates = ["potter -made-> jug"]\n'
        '[types.jug]\nplural = ["jugs"]\nfields = ["note"]\n[relations.made]\nout = ["that {0} made"]\n'
    )
    own(tmp_path)
    given = ("eval", "synthesize", "--kb", str(tmp_path / "small.skb"), "--wording", str(tmp_path / "words.toml"))
    given += ("--count", "1", "--seed", "2", "--out", str(tmp_path / "q.jsonl"))
    assert "q-reworded.jsonl" in kbnav.out(*given, "--reworded", str(tmp_path / "own.toml"))
    plain, reworded = (load_file("jsonl", tmp_path / name).questions for name in ("q.jsonl", "q-reworded.jsonl"))
    assert [one.id for one in plain] == [one.id for one in reworded]
    assert [one.nodes for one in plain] == [one.nodes for one in reworded]
    assert [one.text for one in plain] != [one.text for one in reworded]
    first = (tmp_path / "q.jsonl").read_bytes()
    assert "1 kept: 1 test" in kbnav.out(*given)
    assert (tmp_path / "q.jsonl").read_bytes() == first
