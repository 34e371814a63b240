"""What the page says: in five languages, from one place."""

import re
from pathlib import Path

import pytest
from starlette.datastructures import Headers

import kbnav.apps.web
from kbnav.apps.texts import Texts, books
from kbnav.apps.web.rendering import language_of
from tests.apps.web.test_page import MARIE, ask, wait_for_the_end

WEB = Path(kbnav.apps.web.__file__).parent
SCRIPTS = sorted((WEB / "static").glob("*.js"))
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
NAMES = re.compile(r"\{(\w+)\}")
USED = re.compile(r"""\bt\(\s*["']([\w.]+)["']|["']([a-z_]+\.[a-z_]+)["']""")


def plain(path: Path) -> str:
    """A script without its comments."""
    return re.sub(r"^\s*//.*$|/\*[^*]*\*/|\s//\s.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)


def test_every_language_has_every_text_with_the_same_values():
    assert set(books()) == {"de", "en", "es", "fr", "zh"}
    for code, book in books().items():
        assert list(book) == sorted(books()["en"]), code
        for key, text in book.items():
            first = books()["en"][key]
            assert isinstance(text, str) == isinstance(first, str), (code, key)
            forms = [text] if isinstance(text, str) else list(text.values())
            wanted = [first] if isinstance(first, str) else list(first.values())
            assert all(form.strip() for form in forms), (code, key)
            assert {name for form in forms for name in NAMES.findall(form)} == {
                name for form in wanted for name in NAMES.findall(form)
            }, (code, key)
            if not isinstance(text, str):
                assert set(text) == ({"other"} if code == "zh" else {"one", "other"}), (code, key)


def test_every_text_is_used_and_every_text_used_is_there():
    sources = [plain(path) for path in SCRIPTS]
    python = ("web/rendering.py", "console.py", "cli/ask.py", "bot/wikitext.py")
    sources += [path.read_text("utf-8") for path in (*TEMPLATES, *(WEB.parent / name for name in python))]
    used = {name for source in sources for found in USED.findall(source) for name in found if name}
    begun = tuple(found for source in sources for found in re.findall(r"t\(`([a-z]+\.)\$", source))
    told = {name for name in books()["en"] if name in used or name.startswith(begun)}
    asked = {found[0] for source in sources for found in USED.findall(source) if found[0]}
    assert asked - set(books()["en"]) == set()
    of_page = {found[0] for path in SCRIPTS for found in USED.findall(plain(path))} - {""}
    assert of_page - set(Texts("en").of_scripts) == set()
    assert set(books()["en"]) - told <= {"language.name"}


@pytest.mark.parametrize(
    ("asked", "cookie", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", "", "de"),
        ("nl, fr;q=0.5, es;q=0.7", "", "es"),
        ("zh-Hans-CN", "", "zh"),
        ("fr;q=0, en", "", "en"),
        ("*", "", "en"),
        (";;;,q=", "", "en"),
        ("de", "kbnav_language=fr", "fr"),
        ("de", "kbnav_language=../../secret", "de"),
    ],
)
def test_the_language_is_the_one_chosen_or_asked_for(asked, cookie, language):
    assert language_of(Headers({"accept-language": asked, "cookie": cookie})) == language


def test_the_page_speaks_the_language_of_the_browser_and_another_one_when_it_is_chosen(page, server):
    page.set_extra_http_headers({"Accept-Language": "de-DE,de"})
    page.goto(server.url)
    assert page.get_attribute("html", "lang") == "de"
    assert page.inner_text("#send") == "Fragen"
    ask(page, MARIE)
    wait_for_the_end(page)
    page.wait_for_selector(".answer .where >> text=2 Zeilen")
    page.goto(server.url)
    page.wait_for_selector(".example >> text=Wann Elemente entdeckt wurden")
    ask(page, "wann Elemente entdeckt wurden?")  # its title, typed
    page.click(".typed [data-view=table]")
    assert page.locator(".typed th").all_inner_texts() == ["Element", "entdeckt", "Begründung"]
    page.click("#more > summary")
    with page.expect_navigation():
        page.select_option("#language", "zh")
    page.wait_for_selector(".typed .where >> text=39 行")
    page.goto(f"{server.url}/api")
    assert page.get_attribute("html", "lang") == "zh"
