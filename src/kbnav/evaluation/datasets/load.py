"""Datasets by name, or from a file in a named format."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import composed, own, stark, text2sparql, wikidata
from kbnav.evaluation.datasets.origins import how_to_get
from kbnav.evaluation.datasets.question import Dataset, Question, Source
from kbnav.evaluation.datasets.records import File
from kbnav.evaluation.datasets.sources import SOURCES
from kbnav.runs.trajectory import to_json
from kbnav.settings.plugins import did_you_mean, named, points

_log = logging.getLogger(__name__)

GROUP = "kbnav.datasets"
"""The group of entry points by which other packages add datasets."""
Reader = Callable[[File], Iterator[Question]]

FORMATS: Mapping[str, Reader] = MappingProxyType(
    {
        "spinach": wikidata.read_spinach,
        "qald-7": wikidata.read_qald,
        "qald-9-plus": wikidata.read_qald,
        "qald-10": wikidata.read_qald,
        "wikiwebquestions": wikidata.read_wikiwebquestions,
        "lc-quad-2": wikidata.read_lcquad2,
        "rubq-1": wikidata.read_rubq,
        "rubq-2": wikidata.read_rubq,
        "tempqa-wd": wikidata.read_tempqa,
        "simplequestions-wd": wikidata.read_simplequestions,
        "complexwebquestions": composed.read_complexwebquestions,
        "grailqa": composed.read_grailqa,
        "kqa-pro": composed.read_kqa_pro,
        "mcwq": composed.read_mcwq,
        "stark-amazon": stark.read_stark,
        "stark-mag": stark.read_stark,
        "stark-prime": stark.read_stark,
        "text2sparql": text2sparql.read_text2sparql,
        "jsonl": own.read_jsonl,
        "table": own.read_table,
    }
)
"""Reader of each dataset's file; SOURCES has the same keys."""

NAMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "spinach-dev": ("spinach", "spinach/dev.json"),
        "spinach-test": ("spinach", "spinach/test.json"),
        "qald-7-train": ("qald-7", "qald-7/qald-7-train-en-wikidata.json"),
        "qald-7-test": ("qald-7", "qald-7/qald-7-test-en-wikidata.json"),
        "qald-9-plus-train": ("qald-9-plus", "qald-9-plus/train.json"),
        "qald-9-plus-test": ("qald-9-plus", "qald-9-plus/test.json"),
        "qald-10": ("qald-10", "qald-10/qald_10.json"),
        "qald-10-tog": ("qald-10", "qald-10/qald_10-en.json"),
        "wikiwebquestions-dev": ("wikiwebquestions", "wikiwebquestions/dev.jsonl"),
        "wikiwebquestions-test": ("wikiwebquestions", "wikiwebquestions/test.jsonl"),
        "wikiwebquestions-train": ("wikiwebquestions", "wikiwebquestions/train.jsonl"),
        "lc-quad-2-train": ("lc-quad-2", "lc-quad-2/train.json"),
        "lc-quad-2-test": ("lc-quad-2", "lc-quad-2/test.json"),
        "ck25": ("text2sparql", "text2sparql/questions_ck25.yaml"),
        "rubq-1-test": ("rubq-1", "rubq-1/RuBQ_1.0_test.json"),
        "rubq-2-dev": ("rubq-2", "rubq-2/RuBQ_2.0_dev.json"),
        "tempqa-wd-dev": ("tempqa-wd", "tempqa-wd/dev.json"),
        "simplequestions-wd-valid": ("simplequestions-wd", "simplequestions-wd/annotated_wd_data_valid_answerable.txt"),
        **{
            f"complexwebquestions-{split}": ("complexwebquestions", f"cwq/ComplexWebQuestions_{split}.json")
            for split in ("train", "dev", "test")
        },
        **{f"grailqa-{split}": ("grailqa", f"grailqa/grailqa_v1.0_{split}.json") for split in ("train", "dev")},
        **{f"kqa-pro-{split}": ("kqa-pro", f"kqa-pro/{split}.json") for split in ("train", "val", "test")},
        "mcwq": ("mcwq", "mcwq/dataset.json"),
        "mcwq-gold-test": ("mcwq", "mcwq/gold_test.json"),
        **{
            f"stark-{kb}-{split}": (f"stark-{kb}", f"stark/{kb}_{split}.jsonl")
            for kb in stark.KBS
            for split in ("train", "val", "test")
        },
        **{f"stark-{kb}-test-0.1": (f"stark-{kb}", f"{kb}/split/test-0.1.index or test.index") for kb in stark.KBS},
        **{f"stark-{kb}-human": (f"stark-{kb}", f"{kb}/stark_qa/{stark.HUMAN}") for kb in stark.KBS},
    }
)
"""Format and file, within a folder of benchmarks, of each dataset known by name; ``.gz`` may follow the file's name.

STaRK's are read from the folder as it is published where that is there, see ``load_stark``."""
ALIASES: Mapping[str, str] = MappingProxyType({"qald-7": "qald-7-train", "qald-9-plus": "qald-9-plus-train"})
"""Names of before, and what they stand for: a split should be told by its name."""
_STARK = re.compile(f"stark-({'|'.join(stark.KBS)})-(.+)")


def load_dataset(name: str, folder: Path) -> Dataset:
    """A dataset known by name from a folder of benchmarks, or as ``own_dataset``. Raises UsageError, DataError.

    It keeps the name that it was asked for by, an alias too, so that runs and frozen gold answers of before fit it.
    """
    if name in ALIASES:
        _log.warning("%s is %s by its full name", name, ALIASES[name])
    if (full := ALIASES.get(name, name)) not in NAMES:
        return own_dataset(name, folder)
    if (missing := missing_file(full, folder)) is not None:
        raise UsageError(f"{name}: {missing} is not there; {how_to_get(full, NAMES[full][0])}")
    if match := _STARK.fullmatch(full):
        kb, split = match.groups()
        if published := _published(folder, kb):
            return load_stark(kb, published, split=split, human=split == "human")
    form, relative = NAMES[full]
    if full == "qald-10-tog":
        return _tog_subset(load_dataset("qald-10", folder), File.open(_there(folder / relative)))
    return load_file(form, _there(folder / relative), name=name)


def own_dataset(name: str, folder: Path) -> Dataset:
    """A dataset that kbnav does not come with: ``module:function``, or the name that an installed package gives it.

    The function is called with the folder of benchmarks and returns a Dataset, or its questions. Raises UsageError.
    """
    try:
        read = named(name, GROUP)
    except KeyError:
        known = [*NAMES, *(point.name for point in points(GROUP))]
        raise UsageError(f"no dataset {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}") from None
    if not callable(read):
        raise UsageError(f"{name}: a {type(read).__name__} is no function that reads a dataset")
    found = read(folder)
    if isinstance(found, Dataset):
        return found
    questions = tuple(found)
    if not questions or not all(isinstance(question, Question) for question in questions):
        raise UsageError(f"{name} gives no questions of the type kbnav.evaluation.datasets.Question")
    digest = hashlib.sha256("\n".join(map(to_json, questions)).encode()).hexdigest()
    return Dataset(name, questions, Source(name, "its own", "none"), digest)


def missing_file(name: str, folder: Path) -> Path | None:
    """The first file of a dataset known by name that is not in a folder of benchmarks; None where all are."""
    name = ALIASES.get(name, name)
    if match := _STARK.fullmatch(name):
        kb, split = match.groups()
        published = _published(folder, kb)
        if published or split in ("human", "test-0.1"):
            place = published or folder / "stark" / "qa" / kb
            needed = [stark.table(place / "stark_qa", human=split == "human")]
            needed += [] if split == "human" else [stark.split_file(place / "split", split)[0]]
            return next((path for path in needed if not path.exists()), None)
    path = folder / NAMES[name][1]
    return None if _there(path).exists() else path


def _there(plain: Path) -> Path:
    """A file, or what it was packed into; of JSON lines the list that others publish too."""
    others = [plain.with_name(plain.name + ".gz")]
    if plain.suffix == ".jsonl":
        others.append(plain.with_suffix(".json"))
    return next((path for path in (plain, *others) if path.exists()), plain)


def _published(folder: Path, kb: str) -> Path | None:
    """The folder of one SKB's questions as STaRK publishes them; in early versions Prime was called primekg."""
    names = (kb, "primekg") if kb == "prime" else (kb,)
    places = [folder / part / name for part in ("", "qa", "stark", "stark/qa") for name in names]
    return next((place for place in places if (place / "stark_qa").is_dir()), None)


def _tog_subset(qald: Dataset, file: File) -> Dataset:
    """The questions of QALD-10 that ToG was evaluated on: those of the file it published, which gives no ids."""
    wanted = {" ".join(record.text("question").split()) for record in file.records(file.json())}
    chosen = tuple(question for question in qald.questions if " ".join(question.text().split()) in wanted)
    absent = len(wanted) - len({" ".join(question.text().split()) for question in chosen})
    if absent:
        _log.warning("%s: %d of %d questions are not in QALD-10 under this wording", file.path, absent, len(wanted))
    return Dataset(
        "qald-10-tog", chosen, qald.source, hashlib.sha256((qald.sha256 + _digest([file])).encode()).hexdigest()
    )


def load_file(form: str, path: Path, *, name: str = "") -> Dataset:
    """A dataset from one file in a format of FORMATS, unpacked where it ends in ``.gz``. Raises UsageError, DataError.

    ``name`` is the dataset's name in reports; the file's own without it.
    """
    if form not in FORMATS:
        raise UsageError(f"no dataset format {form!r}; known: {', '.join(FORMATS)}")
    file = File.open(path)
    questions = _checked(file, FORMATS[form](file))
    if not name:
        name = f"{form}-human" if stark.is_human_file(path) else path.name.split(".")[0]
    return Dataset(name, questions, SOURCES[form], _digest([file]))


def load_stark(kb: str, folder: Path, *, split: str = "test", human: bool = False) -> Dataset:
    """STaRK as it is published: ``stark_qa/stark_qa.csv`` and ``split/<split>.index`` in the folder of one SKB.

    ``kb`` is ``amazon``, ``mag`` or ``prime``; for ``test-0.1`` see ``stark.split_file``. With ``human`` the
    human-generated questions are read, which have no splits. The questions come in the order of the CSV. Raises
    UsageError, DataError.
    """
    if f"stark-{kb}" not in SOURCES:
        raise UsageError(f"no STaRK knowledge base {kb!r}; known: {', '.join(stark.KBS)}")
    table = File.open(stark.table(folder / "stark_qa", human=human))
    questions = _checked(table, stark.read_stark_csv(table))
    source = SOURCES[f"stark-{kb}"]
    if human:
        return Dataset(f"stark-{kb}-human", questions, source, _digest([table]))
    path, share = stark.split_file(folder / "split", split)
    index = File.open(path)
    listed = stark.read_split(index)
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
