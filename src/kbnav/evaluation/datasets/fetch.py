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
_PART = ".part"
Progress = Callable[[str, int, int], None]
"""Hears of a file's path, how many of its bytes are there, and of how many; 0 where that is not known."""


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
    what came is not the file that is meant, ServiceError where the publisher cannot be reached; what was received
    until then is kept, and the same call goes on behind it.
    """
    from kbnav.knowledge.http import open_session  # takes a while

    full = ALIASES.get(name, name)
    if full not in origins:
        raise UsageError(_by_hand(full, folder))
    # Pieces of a packed file could not be put together.
    with open_session(f"kbnav/{version('kbnav')}", "identity") as session:
        one = _Download(session, folder, timeout, retries, progress)
        return [one.file(remote) for remote in origins[full]]


def _by_hand(name: str, folder: Path) -> str:
    if name not in NAMES:
        return f"no dataset {name!r}{did_you_mean(name, NAMES)}; kbnav eval dataset list prints those that are known"
    form, path = NAMES[name]
    return f"{name} cannot be downloaded so: {how_to_get(name, form)}: {folder / path}"


class _Download:
    def __init__(
        self, session: requests.Session, folder: Path, timeout: float, retries: int, progress: Progress
    ) -> None:
        self._session, self._folder, self._timeout, self._retries = session, folder, timeout, retries
        self._progress = progress

    def file(self, remote: Remote) -> Fetched:
        """One file, whole and checked. Raises UsageError, DataError, ServiceError."""
        target = self._folder / remote.path
        if target.exists():
            found = _digest(target)
            if remote.sha256 and found != remote.sha256:
                raise DataError(
                    f"{target} is not the file that its publisher has (SHA-256 {found}, not {remote.sha256}): "
                    "move it away and fetch again"
                )
            return Fetched(target, remote.url, target.stat().st_size, found, new=False)
        part = target.with_name(target.name + _PART)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with part.open("ab") as file:
                _alone(file, part)
                self._receive(remote, file)
            found = self._checked(remote, part)
            part.replace(target)
            done = Fetched(target, remote.url, target.stat().st_size, found, new=True)
            self._note(remote, done)
        except OSError as error:
            raise UsageError(f"{target}: cannot be written: {error.strerror}; the same command goes on") from error
        return done

    def _receive(self, remote: Remote, file: Any) -> None:
        """Append what is missing, in as many attempts as allowed; an attempt that brought something does not count."""
        import requests

        from kbnav.knowledge.http import untrusted

        failed = 0
        while True:
            before = file.tell()
            try:
                self._receive_once(remote, file)
                return
            except (requests.RequestException, _CutOff) as error:
                if isinstance(error, requests.exceptions.SSLError):
                    raise untrusted(remote.url, error) from error
                file.flush()
                failed = 1 if file.tell() > before else failed + 1
                if failed > self._retries:
                    raise ServiceError(
                        f"{host_of(remote.url)} cannot be reached: {type(error).__name__}; what came is kept, and "
                        "the same command goes on"
                    ) from error

    def _receive_once(self, remote: Remote, file: Any) -> None:
        done = file.tell()
        if remote.size and done == remote.size:
            return
        with self._answer(remote.url, {"Range": f"bytes={done}-"} if done else {}) as response:
            if response.status_code == 416 or (response.status_code == 206 and not _goes_on(response, done)):
                file.truncate(0)  # not a piece of the same file
                raise _CutOff
            if response.status_code not in (200, 206):
                raise ServiceError(f"{host_of(remote.url)} answers {response.status_code} for {remote.url}")
            if response.status_code == 200 and done:
                file.truncate(0)
                done = 0
            length = int(response.headers.get("Content-Length") or 0)
            total = remote.size or (done + length if length else 0)
            most = remote.size or LARGEST
            got = done
            for piece in response.iter_content(_PIECE):
                got += len(piece)
                if got > most:
                    file.truncate(0)
                    raise BadResponse(f"{remote.url} sends more than the {most:,} bytes that the file has")
                file.write(piece)
                self._progress(remote.path, got, total)
            if total and got < total:
                raise _CutOff

    def _answer(self, url: str, headers: dict[str, str]) -> requests.Response:
        """The answer, of the host that was asked and no other. Raises BadResponse, and what requests raises."""
        import requests

        from kbnav.knowledge.http import send

        return send(self._session, requests.Request("GET", url, headers), self._timeout)

    def _checked(self, remote: Remote, part: Path) -> str:
        found = _digest(part)
        if remote.sha256 and found != remote.sha256:
            part.unlink()
            raise DataError(
                f"{remote.url} is not the file that is known (SHA-256 {found}, not {remote.sha256}); none of it is kept"
            )
        return found

    def _note(self, remote: Remote, done: Fetched) -> None:
        notes: dict[str, Any] = {}
        path = self._folder / NOTES
        with suppress(OSError, ValueError):
            notes = dict(json.loads(path.read_text(encoding="utf-8")))
        when = datetime.now(UTC).isoformat(timespec="seconds")
        notes[remote.path] = {"url": done.url, "bytes": done.size, "sha256": done.sha256, "fetched": when}
        write_whole(path, json.dumps(notes, indent=1, sort_keys=True) + "\n")


class _CutOff(Exception):
    """A reply that ended before the file did, or that does not go on where it was asked to."""


def _goes_on(response: requests.Response, done: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {done}-")


def _alone(file: Any, part: Path) -> None:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(f"{part} is being downloaded by another process") from error
    file.seek(0, 2)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
