"""Downloads a dataset's files from their publisher: checked, and put in place whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.errors import BadResponse, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import NAMES, ORIGINS, Remote, how_to_get
from kbnav.knowledge.replies import host_of
from kbnav.runs.journal import write_whole
from kbnav.settings.plugins import did_you_mean

if TYPE_CHECKING:
    import requests

LARGEST = 1 << 28
"""Bytes of one file; none of those that are known has a tenth of it."""
_PIECE = 1 << 13
Progress = Callable[[str, int, int], None]
"""Gets a file's path, how many of its bytes are there, and of how many; 0 where that is not known."""


@dataclass(frozen=True)
class Fetched:
    """A file of a dataset; ``new`` where it was downloaded now."""

    path: Path
    url: str
    size: int
    sha256: str
    new: bool


def fetch(
    name: str,
    folder: Path,
    *,
    timeout: float = 60.0,
    retries: int = 3,
    progress: Progress = lambda path, done, total: None,  # noqa: ARG005
    origins: Mapping[str, tuple[Remote, ...]] = ORIGINS,
) -> list[Fetched]:
    """Download what is missing of a dataset into a folder of benchmarks, through the environment's proxies.

    Raises UsageError where the name is not known, or must be downloaded by hand (the text says how), DataError where
    what came is not the file that is meant, ServiceError where the publisher cannot be reached.
    """
    import requests

    from kbnav.knowledge.http import open_session, untrusted  # takes a while

    if name not in origins:
        if name not in NAMES:
            known = f"{did_you_mean(name, NAMES)}; kbnav eval dataset list prints those that are known"
            raise UsageError(f"no dataset {name!r}{known}")
        raise UsageError(f"{name} cannot be downloaded so: {how_to_get(name)}: {folder / NAMES[name][1]}")
    found = []
    with open_session(f"kbnav/{version('kbnav')}", "identity") as session:
        for remote in origins[name]:
            target, failed = folder / remote.path, 0
            new = not target.exists()
            while new:
                try:
                    content = _download(session, remote, timeout, progress)
                    break
                except requests.exceptions.SSLError as error:
                    raise untrusted(remote.url, error) from error
                except requests.RequestException as error:
                    failed += 1
                    if failed > retries:
                        where = host_of(remote.url)
                        by_hand = f"download {remote.url} elsewhere, and put it there: {target}"
                        raise ServiceError(f"{where} cannot be reached: {type(error).__name__}; {by_hand}") from error
            if not new:
                content = target.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if remote.sha256 and digest != remote.sha256:
                what = f"{remote.url}: none of it is kept" if new else f"{target}: move it away and fetch again"
                raise DataError(f"not the file that is known (SHA-256 {digest}, not {remote.sha256}), {what}")
            if new:
                write_whole(target, content)
            found.append(Fetched(target, remote.url, len(content), digest, new))
    return found


def _download(session: requests.Session, remote: Remote, timeout: float, progress: Progress) -> bytes:
    """The whole file. Raises RequestException, also where the reply ends too early."""
    import requests

    from kbnav.knowledge.http import send

    with send(session, requests.Request("GET", remote.url), timeout) as response:
        if response.status_code != 200:
            raise ServiceError(f"{host_of(remote.url)} answers {response.status_code} for {remote.url}")
        total = remote.size or int(response.headers.get("Content-Length") or 0)
        content = bytearray()
        for piece in response.iter_content(_PIECE):
            content += piece
            if len(content) > (remote.size or LARGEST):
                raise BadResponse(f"{remote.url} sends more than the {remote.size or LARGEST:,} bytes that it may have")
            progress(remote.path, len(content), total)
    return bytes(content)
