"""Draw the pictures of the chat page in README.md and docs/page.md, from the real page in Chromium: ``make picture``.

The server answers with the offline policy on the bundled mirror, so that no key and no network is needed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs" / "images"
QUESTION = "Which elements were discovered by Humphry Davy?"
SIZE = {"width": 1000, "height": 800}
SHEETS = {"desk": ({"width": 1280, "height": 800}, 2, 640), "phone": ({"width": 390, "height": 780}, 5, 256)}
"""Of each kind of screen its size, how many states stand beside each other, and how wide each is there."""
COLOURS, GAP = 40, 8


def main() -> None:
    """Serve, ask, and keep what is seen."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "KBNAV_HOME": home, "KBNAV_KB": "mini", "KBNAV_MODEL": "offline"}
        command = [sys.executable, "-m", "kbnav", "serve", "--port", str(port)]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            pictures = draw(f"http://127.0.0.1:{port}/")
        finally:
            server.terminate()
            server.wait()
    for name, picture in pictures.items():
        picture.quantize(COLOURS).save(OUT / name, optimize=True)
        print(f"{name}: {(OUT / name).stat().st_size / 1000:.0f} kB")


def draw(url: str) -> dict[str, Image.Image]:
    """Pictures by their names: an answer with its query, and sheets of ten states on each screen, light and dark."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}ready")
            break
        except urllib.error.URLError:
            time.sleep(0.1)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        ask(page, url, QUESTION)
        page.click(".sparql > summary")  # its editor is loaded then
        page.wait_for_selector(".cm-content")
        pictures = {"page.png": seen(page)}
        for screen, (size, beside, width) in SHEETS.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport=size, color_scheme=scheme)
                pictures[f"page-{screen}-{scheme}.png"] = sheet(list(states(page, url)), beside, width)
        return pictures


def states(page: Page, url: str) -> Iterator[Image.Image]:
    """The first screen, an answer, why it is one, none, four views, a query and the examples."""
    page.goto(url)
    page.wait_for_selector(".welcome .example")
    yield seen(page)
    ask(page, url, QUESTION)
    yield seen(page)
    ask(page, url, "When was Marie Curie born?")
    page.click(".why")
    page.wait_for_selector(".statements")
    yield seen(page)
    ask(page, url, "Who is the president of France?")
    yield seen(page)
    for kind, drawn in (("Map", ".pin"), ("Timeline", "svg"), ("Chart", "svg"), ("Graph", "canvas")):
        page.goto(url)
        page.click(f".example:has(small:text-is('{kind}'))")
        page.wait_for_selector(f".drawn {drawn}")
        yield seen(page)
    page.goto(url)
    page.click("#write")
    page.click(".typed .example >> nth=-1")
    page.wait_for_selector(".typed .rows a")
    yield seen(page)
    page.click("#examples-open")
    page.wait_for_selector("#examples li")
    yield seen(page)


def ask(page: Page, url: str, question: str) -> None:
    """Ask a question on an empty page, until its answer is there."""
    page.goto(url)
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector(".run[aria-busy=false] .foot")


def seen(page: Page) -> Image.Image:
    """What stands on the screen, without a cursor, once nothing moves."""
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.wait_for_timeout(700)
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def sheet(pictures: list[Image.Image], beside: int, width: int) -> Image.Image:
    """Pictures of one size, made smaller, so many in a row."""
    small = [one.resize((width, one.height * width // one.width), Image.Resampling.LANCZOS) for one in pictures]
    across, down = width + GAP, small[0].height + GAP
    found = Image.new("RGB", (beside * across - GAP, -(-len(small) // beside) * down - GAP), "gray")
    for number, one in enumerate(small):
        found.paste(one, (number % beside * across, number // beside * down))
    return found


if __name__ == "__main__":
    main()
