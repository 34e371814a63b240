"""Questions in other words: the same answers, none of the schema's words, and tests that share none with training."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kbnav.answers.language import function_words, singular
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.synthesis.sampling import SplitSizes, synthesize
from kbnav.evaluation.synthesis.wording import (
    REWORDINGS,
    Rewording,
    Wording,
    clauses_of,
    load_rewording,
    load_wording,
    reworded,
)
from tests.apps.parts import Cli
from tests.evaluation.synthesis.parts import workshop

WORDS = Wording.model_validate(
    {
        "types": {"jug": {"plural": ["jugs"], "fields": ["note"]}},
        "relations": {"made": {"out": ["that {0} made", "that {0} produced"]}},
        "templates": ["potter -made-> jug"],
    }
)
OTHER = """
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
SHIPPED = sorted(path.stem for path in REWORDINGS.glob("*.toml"))


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
    } - {
        "{0}",
        "",
    }


NOTES = [
    *(["painted in the kiln with a copper heron"] * 2),
    *("glazed", "fired", "cracked", "chipped"),
    *("a copper heron", "the copper heron", "copper heron"),
]
"""Of six of Ann's jugs two have the heron, and all of Bob's."""


def own(folder: Path, text: str = OTHER) -> Rewording:
    path = folder / "own.toml"
    path.write_text(text)
    return load_rewording(str(path))


@pytest.fixture
def made(tmp_path: Path):
    """The shop, and two questions on it: one of the test split, one of training."""
    with workshop(tmp_path, NOTES, range(6)) as skb:
        found, _ = synthesize(skb, SplitSizes(1, seed=2), WORDS)
        assert found
        yield skb, [found[0], replace(found[0], id="small-train-0001", split="train")]


def test_only_the_words_of_a_question_change(made, tmp_path):
    skb, questions = made
    test, train = reworded(skb, questions, WORDS, own(tmp_path))
    for before, after in zip(questions, (test, train), strict=True):
        assert replace(after, question=before.question, worded_by=before.worded_by) == before
        assert before.paths[0].start_name in after.question
        assert before.text in after.question
        assert not {"made", "produced"} & set(after.question.split())
    assert any(word in test.question for word in ("shaped", "hand"))
    assert any(word in train.question for word in ("thrown", "wheel"))


def test_a_relation_without_other_words_is_named(made, tmp_path):
    skb, questions = made
    with pytest.raises(DataError, match="the relation made has phrases in one of its two parts only"):
        own(tmp_path, OTHER.replace("{ made =", "{ sold =", 1))
    nothing = own(tmp_path, OTHER.replace("out =", "into ="))
    with pytest.raises(DataError, match="no phrase for the relation 'made', followed 'out'"):
        reworded(skb, questions, WORDS, nothing)
    with pytest.raises(UsageError, match=r"no rewording 'nowhere': .* debian, hetionet, wn18rr, wordnet"):
        load_rewording("nowhere")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rewordings_quote_no_schema_and_teach_no_word_of_the_tests(name):
    wording, rewording = load_wording(name), load_rewording(name)
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


def test_the_command_writes_both(tmp_path, monkeypatch, capsys):
    workshop(tmp_path, NOTES, range(6)).close()
    (tmp_path / "words.toml").write_text(
        'templates = ["potter -made-> jug"]\n'
        '[types.jug]\nplural = ["jugs"]\nfields = ["note"]\n[relations.made]\nout = ["that {0} made"]\n'
    )
    own(tmp_path)
    cli = Cli(monkeypatch, capsys)
    given = ("eval", "synthesize", "--kb", str(tmp_path / "small.skb"), "--wording", str(tmp_path / "words.toml"))
    given += ("--count", "1", "--seed", "2", "--out", str(tmp_path / "q.jsonl"))
    said = cli.out(*given, "--reworded", str(tmp_path / "own.toml"))
    assert "q-reworded.jsonl" in said
    plain, reworded = (load_file("jsonl", tmp_path / name).questions for name in ("q.jsonl", "q-reworded.jsonl"))
    assert [one.id for one in plain] == [one.id for one in reworded]
    assert [one.nodes for one in plain] == [one.nodes for one in reworded]
    assert [one.text for one in plain] != [one.text for one in reworded]
