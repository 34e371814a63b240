"""Settings: where they come from, which wins, and what is saved of them."""

import pytest

from kbnav.errors import UsageError
from kbnav.settings.model import load_settings


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_options_win_over_the_environment_and_that_over_the_file(empty_folder, monkeypatch):
    (empty_folder / "kbnav.toml").write_text(
        'contact = "file@example.org"\nmodel = "from-file"\nkb = "wikidata"\n[budget]\nsteps = 7\n'
    )
    monkeypatch.setenv("KBNAV_MODEL", "from-environment")
    monkeypatch.setenv("KBNAV_KB", "mini")
    settings = load_settings(kb="my-mirror", language=None)
    assert (settings.contact, settings.model, settings.kb) == ("file@example.org", "from-environment", "my-mirror")
    assert (settings.budget.steps, settings.budget.actions, settings.language) == (7, 30, "auto")


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "KBNAV_API_KEY"])
def test_a_key_is_read_from_the_environment_and_never_shown(monkeypatch, name):
    monkeypatch.setenv(name, "sk-nevertobeleft")
    settings = load_settings()
    assert settings.api_key.get_secret_value() == "sk-nevertobeleft"
    assert "sk-nevertobeleft" not in repr(settings)
    assert "sk-nevertobeleft" not in str(settings.public())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = 3\n", "steps"),
        ("[budget]\nstepz = 3\n", "budget.stepz"),
        ("[budget]\nsteps = 'many'\n", "budget.steps"),
        ("model = ", "kbnav.toml"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(empty_folder, text, said):
    (empty_folder / "kbnav.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_settings()
