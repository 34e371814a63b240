"""Homes with the bundled knowledge bases unpacked, servers, and a browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbnav.knowledge.base import KnowledgeBase
from tests.apps.web.parts import MARIE, Server, Visit, web_settings
from tests.services import Missing, postgresql

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="session")
def web_home(
    mini_home: Path,
    mini_kb: KnowledgeBase,
    demo_home: Path,
    demo_kb: KnowledgeBase,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A home that leads to the bundled knowledge bases, which are made once for all tests."""
    return linked_home(tmp_path_factory.mktemp("web-home"), mini_home, demo_home)


def linked_home(home: Path, *others: Path) -> Path:
    """Put links to what other homes have into a home."""
    for other in others:
        for name in ("mirrors", "skbs"):
            if (other / name).is_dir() and not (home / name).exists():
                (home / name).symlink_to(other / name)
    return home


@pytest.fixture
def fresh_home(web_home: Path, tmp_path: Path) -> Path:
    """A home without sessions, with the bundled knowledge bases."""
    home = tmp_path / "home"
    home.mkdir()
    return linked_home(home, web_home)


@pytest.fixture(scope="module")
def server(web_home: Path) -> Iterator[Server]:
    """A server of both bundled knowledge bases with the offline policy."""
    settings = web_settings(web_home, "mini", "demo", web_datasets={"https://example.org/elements": "mini"})
    with Server(settings) as one:
        yield one


@pytest.fixture
def visit(server: Server) -> Visit:
    """A visitor of that server."""
    return Visit(server.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium without a window; tests skip where there is none."""
    if not shutil.which(CHROMIUM):
        pytest.skip(f"no {CHROMIUM}: install Debian's package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        yield play.chromium.launch(executable_path=CHROMIUM, args=arguments)


@pytest.fixture
def page(browser) -> Iterator[Any]:
    """An empty page; what goes wrong in its scripts, or is told as an error on its console, fails the test."""
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    refused = "Failed to load resource"  # as a test may want it
    page.on("console", lambda said: said.type == "error" and refused not in said.text and problems.append(said.text))
    page.set_default_timeout(20_000)
    yield page
    context.close()
    assert problems == []


@pytest.fixture
def answered(page, server: Server) -> Any:
    """A page with an answer, its query in the editor, where it can be changed."""
    from tests.apps.web.test_page import ask_and_wait, open_query

    ask_and_wait(page, server, MARIE)
    open_query(page)
    return page


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of a PostgreSQL that is started for the test; it skips where there is none."""
    try:
        with postgresql() as url:
            yield url
    except Missing as error:
        pytest.skip(str(error))
