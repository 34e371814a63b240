"""What is hidden of data that is told, and what stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.apps.secrets import Secrets

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("secret", ["question", "123456", "answer"])
def test_a_key_that_equals_a_field_or_a_number_is_hidden_in_texts_alone(secret):
    data = {"question": f"is it {secret}?", "answer": {"question": [1234567, True, None, ("a", secret)]}}
    assert Secrets([secret]).hidden_in(data) == {
        "question": "is it [hidden]?",
        "answer": {"question": [1234567, True, None, ["a", "[hidden]"]]},
    }


def test_a_key_that_json_escapes_is_hidden_too():
    secret = 'a"b\\c\né'
    assert Secrets([secret]).hidden_in({"text": f"<{secret}>"}) == {"text": "<[hidden]>"}


@given(st.dictionaries(st.text(), JSON, max_size=4), st.text(min_size=6))
def test_what_holds_no_secret_stays_as_it_is(data, secret):
    hidden = Secrets([secret]).hidden_in(data)
    assert hidden.keys() == data.keys()
    assert json.loads(json.dumps(hidden)) == hidden
    assert hidden == data or any(secret in text for text in _texts(data))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []
