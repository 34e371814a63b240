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
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs" / "images"
QUESTION = "Which elements were discovered by Humphry Davy?"
SIZE, PHONE = {"width": 1000, "height": 800}, {"width": 390, "height": 780}
COLOURS = 48


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
        Image.open(BytesIO(picture)).convert("RGB").quantize(COLOURS).save(OUT / name, optimize=True)
        print(f"{name}: {(OUT / name).stat().st_size / 1000:.0f} kB")


def draw(url: str) -> dict[str, bytes]:
    """PNGs by their names: an answer with its query; on a phone in the dark, the first screen and a map."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}ready")
            break
        except urllib.error.URLError:
            time.sleep(0.1)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(url)
        page.fill("#question", QUESTION)
        page.press("#question", "Enter")
        page.wait_for_selector(".run .foot")
        page.click(".sparql > summary")  # its editor is loaded then
        page.wait_for_selector(".cm-content")
        page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
        answer = page.screenshot()
        page = browser.new_page(viewport=PHONE, color_scheme="dark")
        page.goto(url)
        page.wait_for_selector(".welcome .example")
        first = page.screenshot()
        page.click(".example:has-text('Countries')")
        page.wait_for_selector(".map .cluster")
        page.evaluate("document.activeElement.blur(); document.querySelector('.typed .line').scrollIntoView()")
        page.wait_for_timeout(500)
        return {"page.png": answer, "page-phone.png": first, "page-map.png": page.screenshot()}


if __name__ == "__main__":
    main()
