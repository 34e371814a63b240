"""Downloads a dataset's files from their publisher: resumed where it stopped, checked, and put in place whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.errors import BadResponse, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets.catalogue import ALIASES, NAMES, ORIGINS, Remote, how_to_get
from kbnav.knowledge.replies import host_of
from kbnav.runs.journal import write_whole
from kbnav.settings.plugins import did_you_mean

if TYPE_CHECKING:
    import requests

NOTES = "fetched.json"
"""In the folder of benchmarks: what was downloaded, from where, when, with which digest."""
LARGEST = 1 << 30
"""Bytes of one file; none of those that are known has a hundredth of it."""
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


class _CutOff(Exception):
    """A reply that ended before the file did, or that is no piece of the file from the right place on."""


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
    what came is not the file that is meant, ServiceError where the publisher cannot be reached; what was received
    until then is kept, and the same call goes on behind it.
    """
    from kbnav.knowledge.http import open_session  # takes a while

    full = ALIASES.get(name, name)
    if full not in origins:
        if full not in NAMES:
            known = f"{did_you_mean(full, NAMES)}; kbnav eval dataset list prints those that are known"
            raise UsageError(f"no dataset {full!r}{known}")
        form, path = NAMES[full]
        raise UsageError(f"{full} cannot be downloaded so: {how_to_get(full, form)}: {folder / path}")
    # Pieces of a packed file could not be put together.
    with open_session(f"kbnav/{version('kbnav')}", "identity") as session:
        receive = _Receiver(session, timeout, retries, progress)
        return [_fetch_file(remote, folder, receive) for remote in origins[full]]


def _fetch_file(remote: Remote, folder: Path, receive: _Receiver) -> Fetched:
    """One file, whole and checked. Raises UsageError, DataError, ServiceError."""
    target = folder / remote.path
    if target.exists():
        found = _digest(target)
        if remote.sha256 and found != remote.sha256:
            raise DataError(
                f"{target} is not the file that its publisher has (SHA-256 {found}, not {remote.sha256}): "
                "move it away and fetch again"
            )
        return Fetched(target, remote.url, target.stat().st_size, found, new=False)
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            _lock(file, part)
            receive(remote, file)
        found = _digest(part)
        if remote.sha256 and found != remote.sha256:
            part.unlink()
            raise DataError(
                f"{remote.url} is not the file that is known (SHA-256 {found}, not {remote.sha256}); none of it is kept"
            )
        part.replace(target)
        done = Fetched(target, remote.url, target.stat().st_size, found, new=True)
        _note(folder / NOTES, remote.path, done)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror}; the same command goes on") from error
    return done


@dataclass(frozen=True)
class _Receiver:
    """Appends what is missing of a file, in as many attempts as allowed; one that brought something does not count."""

    session: requests.Session
    timeout: float
    retries: int
    progress: Progress

    def __call__(self, remote: Remote, file: Any) -> None:
        import requests

        from kbnav.knowledge.http import untrusted

        failed = 0
        while True:
            before = file.tell()
            try:
                self._once(remote, file)
                return
            except (requests.RequestException, _CutOff) as error:
                if isinstance(error, requests.exceptions.SSLError):
                    raise untrusted(remote.url, error) from error
                file.flush()
                failed = 1 if file.tell() > before else failed + 1
                if failed > self.retries:
                    raise ServiceError(
                        f"{host_of(remote.url)} cannot be reached: {type(error).__name__}; what came is kept, and "
                        "the same command goes on"
                    ) from error

    def _once(self, remote: Remote, file: Any) -> None:
        import requests

        from kbnav.knowledge.http import send

        done = file.tell()
        if remote.size and done == remote.size:
            return
        request = requests.Request("GET", remote.url, {"Range": f"bytes={done}-"} if done else {})
        with send(self.session, request, self.timeout) as response:
            status, placed = response.status_code, response.headers.get("Content-Range", "")
            if status == 416 or (status == 206 and not placed.startswith(f"bytes {done}-")):
                file.truncate(0)  # not a piece of the same file
                raise _CutOff
            if status not in (200, 206):
                raise ServiceError(f"{host_of(remote.url)} answers {status} for {remote.url}")
            if status == 200 and done:
                file.truncate(0)
                done = 0
            length = int(response.headers.get("Content-Length") or 0)
            total, most = remote.size or (done + length if length else 0), remote.size or LARGEST
            for piece in response.iter_content(_PIECE):
                done += len(piece)
                if done > most:
                    file.truncate(0)
                    raise BadResponse(f"{remote.url} sends more than the {most:,} bytes that the file has")
                file.write(piece)
                self.progress(remote.path, done, total)
            if total and done < total:
                raise _CutOff


def _note(path: Path, name: str, done: Fetched) -> None:
    notes: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        notes = dict(json.loads(path.read_text(encoding="utf-8")))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    notes[name] = {"url": done.url, "bytes": done.size, "sha256": done.sha256, "fetched": when}
    write_whole(path, json.dumps(notes, indent=1, sort_keys=True) + "\n")


def _lock(file: Any, part: Path) -> None:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(f"{part} is being downloaded by another process") from error
    file.seek(0, 2)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
