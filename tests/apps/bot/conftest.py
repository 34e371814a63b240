"""A wiki for all tests of the bot, and bots on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.bot.mediawiki import BOT, MediaWiki, Person, missing
from tests.apps.bot.parts import Scene


@pytest.fixture(scope="session")
def mediawiki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MediaWiki]:
    """A wiki that all tests share; tests skip where MediaWiki is not installed."""
    if names := missing():
        pytest.skip(f"no MediaWiki: install Debian's packages {names}")
    with MediaWiki(tmp_path_factory.mktemp("mediawiki")) as wiki:
        yield wiki


@pytest.fixture(scope="session")
def people(mediawiki: MediaWiki) -> dict[str, Person]:
    """Those who ask, and an administrator, logged in."""
    return {name: Person(mediawiki.api, name) for name in ("Ann", "Bob", "Other bot", "Admin")}


@pytest.fixture
def scene(mediawiki: MediaWiki, people: dict[str, Person], tmp_path: Path) -> Iterator[Scene]:
    """The wiki with the bot's pages emptied."""
    people["Admin"].write(f"User talk:{BOT}", "Lead.\n")
    scene = Scene(mediawiki, people, tmp_path)
    yield scene
    scene.close()
