"""Datasets by name, or from a file in a named format; ``catalogue.toml`` has those that are known.

``fetch`` downloads a dataset's files from their publisher: checked, and put in place whole.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kbnav.errors import BadResponse, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import formats
from kbnav.evaluation.datasets.formats import FORMATS, HUMAN, KBS
from kbnav.evaluation.datasets.records import Attribution, Dataset, File, Question
from kbnav.knowledge.replies import host_of
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import to_json
from kbnav.settings.model import load_settings
from kbnav.settings.plugins import did_you_mean, named, points

if TYPE_CHECKING:
    import requests

__all__ = ["Attribution", "Dataset", "Question", "fetch", "find_dataset", "load_dataset", "load_file", "load_stark"]
_log = logging.getLogger(__name__)
_OWN = {".jsonl": "jsonl", ".qrels": "qrels", ".csv": "table", ".tsv": "table"}
GROUP = "kbnav.datasets"
"""The group of entry points by which other packages add datasets."""
_KNOWN: dict[str, Any] = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
_STARK = re.compile(f"stark-({'|'.join(KBS)})-(.+)")
_STARK_LICENCE = (
    "CC BY 4.0",
    "Wu et al. (2024). STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases. NeurIPS 2024.",
)
_STARK_URL = "https://raw.githubusercontent.com/snap-stanford/stark"
_STARK_COMMIT = "dfafa99abb53ff2f2aa021848a818456f726f592"
_STARK_HUMAN = {
    "amazon": ("ed6bf41ca86970386347a9aafb3a5c308ecfad1b", "stark_qa_human_written_eval.csv"),
    "mag": ("9ad603b48e89c62c5b7dbb54f9927373fe40cb36", HUMAN),
    "prime": ("9ad603b48e89c62c5b7dbb54f9927373fe40cb36", HUMAN),
}
_STARK_PATHS = {
    **{split: f"stark/{{0}}_{split}.jsonl" for split in ("train", "val", "test")},
    "test-0.1": "{0}/split/test-0.1.index or test.index",
    "human": f"{{0}}/stark_qa/{HUMAN}",
}

SOURCES: Mapping[str, Attribution] = MappingProxyType(
    {name: Attribution(one["title"], one["licence"], one["citation"]) for name, one in _KNOWN["formats"].items()}
    | {f"stark-{kb}": Attribution(f"STaRK-{kb.capitalize() if kb != 'mag' else 'MAG'}", *_STARK_LICENCE) for kb in KBS}
    | dict.fromkeys(("jsonl", "table", "qrels"), Attribution("own questions", "not stated", "not stated"))
)
"""Title, licence and citation by format."""
NAMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {name: (one["format"], one["path"]) for name, one in _KNOWN["datasets"].items()}
    | {f"stark-{kb}-{part}": (f"stark-{kb}", path.format(kb)) for part, path in _STARK_PATHS.items() for kb in KBS}
)
"""Format and file, within a folder of benchmarks, of each dataset known by name; ``.gz`` may follow the file's name.

STaRK's are read from the folder as it is published where that is there, see ``load_stark``."""


class Remote(NamedTuple):
    """One file to download."""

    url: str
    path: str
    """Where it belongs, within the folder of benchmarks."""
    size: int = 0
    """In bytes; 0 where it is not known before."""
    sha256: str = ""
    """Empty where it is not known before; what comes is then kept, and its digest noted."""


def _stark_files(kb: str) -> tuple[Remote, ...]:
    """All questions of one SKB: a part of them in STaRK's folder would hide other files of the rest."""
    commit, human = _STARK_HUMAN[kb]
    files = {"stark_qa/stark_qa.csv": _STARK_COMMIT, f"stark_qa/{human}": commit}
    files |= {f"split/{split}.index": _STARK_COMMIT for split in ("train", "val", "test")}
    there = "data/primekg" if kb == "prime" else f"data/{kb}"
    return tuple(Remote(f"{_STARK_URL}/{at}/{there}/{file}", f"stark/qa/{kb}/{file}") for file, at in files.items())


ORIGINS: Mapping[str, tuple[Remote, ...]] = MappingProxyType(
    {
        name: tuple(Remote(**{"path": one["path"], **file}) for file in one["files"])
        for name, one in _KNOWN["datasets"].items()
    }
    | {f"stark-{kb}-{part}": _stark_files(kb) for kb in KBS for part in _STARK_PATHS}
)
"""The files of each dataset known by name."""


def find_dataset(name: str, folder: Path | None = None) -> Dataset:
    """A dataset by its name, as ``FORMAT:FILE``, or from one's own file of questions.

    ``folder`` has the published benchmarks; None: that of the settings. Raises UsageError, DataError.
    """
    form, colon, file = name.partition(":")
    if colon and form in FORMATS:
        return load_file(form, Path(file))
    if own := _OWN.get(Path(name.removesuffix(".gz")).suffix):
        return load_file(own, Path(name))
    return load_dataset(name, folder or load_settings().benchmarks)


def load_dataset(name: str, folder: Path) -> Dataset:
    """A dataset known by name from a folder of benchmarks, or as ``own_dataset``. Raises UsageError, DataError."""
    if name not in NAMES:
        return own_dataset(name, folder)
    if (missing := missing_file(name, folder)) is not None:
        how = f"kbnav eval dataset fetch {name} downloads it"
        raise UsageError(f"{name}: {missing} is not there; {how}; the setting benchmarks names the folder")
    if match := _STARK.fullmatch(name):
        kb, split = match.groups()
        if published := _published(folder, kb):
            return load_stark(kb, published, split=split, human=split == "human")
    form, relative = NAMES[name]
    if name == "qald-10-tog":
        return _tog_subset(load_dataset("qald-10", folder), File.open(_packed(folder / relative)))
    return load_file(form, _packed(folder / relative), name=name)


def own_dataset(name: str, folder: Path) -> Dataset:
    """A dataset that kbnav does not come with: ``module:function``, or the name that an installed package gives it.

    The function is called with the folder of benchmarks and returns a Dataset, or its questions. Raises UsageError.
    """
    if name.startswith("hf:"):
        raise UsageError(
            f"{name}: kbnav loads nothing from the Hugging Face Hub by name. Download it (hf download "
            f"{name.removeprefix('hf:')} --repo-type dataset), and give its file of questions as FORMAT:FILE"
        )
    try:
        read = named(name, GROUP)
    except KeyError:
        known = [*NAMES, *(point.name for point in points(GROUP))]
        hint = f"; kbnav eval dataset list prints those that are known, and your own is a file, as {name}.jsonl"
        raise UsageError(f"no dataset {name!r}{did_you_mean(name, known) or hint}") from None
    if not callable(read):
        raise UsageError(f"{name}: a {type(read).__name__} is no function that reads a dataset")
    found = read(folder)
    if isinstance(found, Dataset):
        return found
    questions = tuple(found)
    if not questions or not all(isinstance(question, Question) for question in questions):
        raise UsageError(f"{name} gives no questions of the type kbnav.evaluation.datasets.Question")
    digest = hashlib.sha256("\n".join(map(to_json, questions)).encode()).hexdigest()
    return Dataset(name, questions, Attribution(name, "its own", "none"), digest)


def missing_file(name: str, folder: Path) -> Path | None:
    """The first file of a dataset known by name that is not in a folder of benchmarks; None where all are."""
    if match := _STARK.fullmatch(name):
        kb, split = match.groups()
        published = _published(folder, kb)
        if published or split in ("human", "test-0.1"):
            place = published or folder / "stark" / "qa" / kb
            needed = [formats.stark_table(place / "stark_qa", human=split == "human")]
            needed += [] if split == "human" else [formats.split_file(place / "split", split)[0]]
            return next((path for path in needed if not path.exists()), None)
    path = folder / NAMES[name][1]
    return None if _packed(path).exists() else path


def _packed(plain: Path) -> Path:
    """A file, or what it was packed into; of JSON lines the list that others publish too."""
    others = [plain.with_name(plain.name + ".gz")]
    if plain.suffix == ".jsonl":
        others.append(plain.with_suffix(".json"))
    return next((path for path in (plain, *others) if path.exists()), plain)


def _published(folder: Path, kb: str) -> Path | None:
    """The folder of one SKB's questions as STaRK publishes them: within its ``qa``, or where ``fetch`` puts it."""
    places = (folder / kb, folder / "stark" / "qa" / kb)
    return next((place for place in places if (place / "stark_qa").is_dir()), None)


def _tog_subset(qald: Dataset, file: File) -> Dataset:
    """The questions of QALD-10 that ToG was evaluated on: those of the file it published, which gives no ids."""
    wanted = {" ".join(record.text("question").split()) for record in file.records(file.json())}
    chosen = tuple(question for question in qald.questions if " ".join(question.text().split()) in wanted)
    absent = len(wanted) - len({" ".join(question.text().split()) for question in chosen})
    if absent:
        _log.warning("%s: %d of %d questions are not in QALD-10 under this wording", file.path, absent, len(wanted))
    digest = hashlib.sha256((qald.sha256 + _digest([file])).encode()).hexdigest()
    return Dataset("qald-10-tog", chosen, qald.source, digest)


def load_file(form: str, path: Path, *, name: str = "") -> Dataset:
    """A dataset from one file in a format of FORMATS, unpacked where it ends in ``.gz``. Raises UsageError, DataError.

    ``name`` is the dataset's name in reports; the file's own without it.
    """
    if form not in FORMATS:
        raise UsageError(f"no dataset format {form!r}; known: {', '.join(FORMATS)}")
    file = File.open(path)
    questions = _checked(file, FORMATS[form](file))
    if not name:
        name = f"{form}-human" if formats.is_human_file(path) else Path(path.name.removesuffix(".gz")).stem
    return Dataset(name, questions, SOURCES[form], _digest([file]))


def load_stark(kb: str, folder: Path, *, split: str = "test", human: bool = False) -> Dataset:
    """STaRK as it is published: ``stark_qa/stark_qa.csv`` and ``split/<split>.index`` in the folder of one SKB.

    ``kb`` is ``amazon``, ``mag`` or ``prime``; for ``test-0.1`` see ``split_file``. With ``human`` the human-generated
    questions are read, which have no splits. The questions come in the order of the CSV. Raises UsageError, DataError.
    """
    if f"stark-{kb}" not in SOURCES:
        raise UsageError(f"no STaRK knowledge base {kb!r}; known: {', '.join(KBS)}")
    table = File.open(formats.stark_table(folder / "stark_qa", human=human))
    questions = _checked(table, formats.read_stark(table))
    source = SOURCES[f"stark-{kb}"]
    if human:
        return Dataset(f"stark-{kb}-human", questions, source, _digest([table]))
    path, share = formats.split_file(folder / "split", split)
    index = File.open(path)
    listed = formats.read_split(index)
    wanted = frozenset(listed[: int(share * len(listed))])
    chosen = tuple(question for question in questions if question.id in wanted)
    if len(chosen) != len(wanted):
        absent = sorted(wanted - {question.id for question in chosen}, key=int)
        raise index.error(f"{len(absent)} question ids are not in {table.path.name}, the first is {absent[0]}")
    return Dataset(f"stark-{kb}-{split}", chosen, source, _digest([table, index]))


def _checked(file: File, questions: Iterable[Question]) -> tuple[Question, ...]:
    found: dict[str, Question] = {}
    for number, question in enumerate(questions, 1):
        if question.id in found:
            raise file.error(f"record {number}: the id {question.id!r} was used before")
        found[question.id] = question
    if not found:
        raise file.error("no questions")
    return tuple(found.values())


def _digest(files: Iterable[File]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.data)
    return digest.hexdigest()


LARGEST = 1 << 28
"""Bytes of one file; none of those that are known has a tenth of it."""
_PIECE = 1 << 13
Progress = Callable[[str, int, int], None]
"""Gets a file's path, how many of its bytes are there, and of how many; 0 where that is not known."""


class Fetched(NamedTuple):
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

    Raises UsageError where the name is not known, DataError where what came is not the file that is meant, ServiceError
    where the publisher cannot be reached.
    """
    import requests

    from kbnav.knowledge.http import open_session, untrusted  # takes a while

    if name not in origins:
        known = f"{did_you_mean(name, NAMES)}; kbnav eval dataset list prints those that are known"
        raise UsageError(f"no dataset {name!r}{known}")
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
