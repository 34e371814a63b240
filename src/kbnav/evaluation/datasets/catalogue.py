"""Datasets by name, or from a file in a named format."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import formats as composed
from kbnav.evaluation.datasets import formats as own
from kbnav.evaluation.datasets import formats as stark
from kbnav.evaluation.datasets import formats as text2sparql
from kbnav.evaluation.datasets import formats as wikidata
from kbnav.evaluation.datasets.formats import HUMAN, KBS
from kbnav.evaluation.datasets.records import Dataset, File, Question, Source
from kbnav.runs.trajectory import to_json
from kbnav.settings.plugins import did_you_mean, named, points

_HOST = "https://raw.githubusercontent.com"


class Remote(NamedTuple):
    """One file to download."""

    url: str
    path: str
    """Where it belongs, within the folder of benchmarks."""
    size: int = 0
    """In bytes; 0 where it is not known before."""
    sha256: str = ""
    """Empty where it is not known before; what comes is then kept, and its digest noted."""


def _of(repository: str, commit: str, file: str, path: str, size: int = 0, sha256: str = "") -> Remote:
    return Remote(f"{_HOST}/{repository}/{commit}/{file}", path, size, sha256)


def _spinach(file: str, path: str, commit: str, size: int = 0, sha256: str = "") -> Remote:
    return _of("stanford-oval/spinach", commit, file, path, size, sha256)


_SPINACH = "2142ebce539146c688b4f0f927fa42641fa11572"
_QALD_9 = "42a833e30d75898d1d3852f58177a453d72919d5"
_WEB = "394ebfe904f584b75ad908228ff1bdf3c0a8ac69"
_RUBQ = "85c981acacb1842337294b9130efeb6fcee8ccda"
_QALD_10 = _of(
    "KGQA/QALD-10",
    "def69748d4baa8f2cfb4be2ac7455d0cd1932a26",
    "data/qald_10/qald_10.json",
    "qald-10/qald_10.json",
    973912,
    "55720cbc9effb250f4b814a9c27ce5f5d61d863d5943bc8aa93773f6f761c6cc",
)
_STARK = "dfafa99abb53ff2f2aa021848a818456f726f592"
_STARK_HUMAN = {
    "amazon": ("ed6bf41ca86970386347a9aafb3a5c308ecfad1b", "stark_qa_human_written_eval.csv"),
    "mag": ("9ad603b48e89c62c5b7dbb54f9927373fe40cb36", HUMAN),
    "prime": ("9ad603b48e89c62c5b7dbb54f9927373fe40cb36", HUMAN),
}


def _stark(kb: str) -> tuple[Remote, ...]:
    """All questions of one SKB: a part of them in STaRK's folder would hide other files of the rest."""
    there = "data/primekg" if kb == "prime" else f"data/{kb}"
    commit, human = _STARK_HUMAN[kb]
    files = [
        ("stark_qa/stark_qa.csv", _STARK),
        *((f"split/{split}.index", _STARK) for split in ("train", "val", "test")),
    ]
    return tuple(
        _of("snap-stanford/stark", at, f"{there}/{file}", f"stark/qa/{kb}/{file}")
        for file, at in [*files, (f"stark_qa/{human}", commit)]
    )


ORIGINS: Mapping[str, tuple[Remote, ...]] = MappingProxyType(
    {
        "spinach-dev": (
            _spinach(
                "spinach_dataset/dev.json",
                "spinach/dev.json",
                _SPINACH,
                138246,
                "e4a590e05b0fc00e7dddc1ac0a6253f134d8eb52d9ab5930ad4add3096e2ef86",
            ),
        ),
        "spinach-test": (_spinach("spinach_dataset/test.json", "spinach/test.json", _SPINACH),),
        "qald-7-train": (
            _of(
                "ag-sc/QALD",
                "8665bae11b74a3919b201925496f084647b875ac",
                "7/data/qald-7-train-en-wikidata.json",
                "qald-7/qald-7-train-en-wikidata.json",
            ),
        ),
        "qald-7-test": (
            _of(
                "ag-sc/QALD",
                "429e7f00723a7c11881a24d34e54618dbbf16ec7",
                "7/data/qald-7-test-en-wikidata.json",
                "qald-7/qald-7-test-en-wikidata.json",
            ),
        ),
        "qald-9-plus-train": (
            _spinach(
                "datasets/qald_9_plus/en/train.json",
                "qald-9-plus/train.json",
                _QALD_9,
                111365,
                "647da889372222f2388850c845c109286685adcf070d1d1cb0a78ca1aa069ad8",
            ),
        ),
        "qald-9-plus-test": (_spinach("datasets/qald_9_plus/en/test.json", "qald-9-plus/test.json", _QALD_9),),
        "qald-10": (_QALD_10,),
        "qald-10-tog": (
            _QALD_10,
            _of(
                "IDEA-FinAI/ToG",
                "709b21055f153e798a4e7e9d0cb482bc2dc100a6",
                "data/qald_10-en.json",
                "qald-10/qald_10-en.json",
            ),
        ),
        "wikiwebquestions-dev": (_spinach("datasets/wikiwebquestions/dev.json", "wikiwebquestions/dev.json", _WEB),),
        "wikiwebquestions-test": (_spinach("datasets/wikiwebquestions/test.json", "wikiwebquestions/test.json", _WEB),),
        "ck25": (
            _of(
                "eccenca/ck25-dataset",
                "09e74fe12747c09eaab6e64b6e2511d813422923",
                "questions.yml",
                "text2sparql/questions_ck25.yaml",
            ),
        ),
        "rubq-1-test": (_of("vladislavneon/RuBQ", _RUBQ, "RuBQ_1.0/RuBQ_1.0_test.json", "rubq-1/RuBQ_1.0_test.json"),),
        "rubq-2-dev": (
            _of(
                "vladislavneon/RuBQ",
                _RUBQ,
                "RuBQ_2.0/RuBQ_2.0_dev.json",
                "rubq-2/RuBQ_2.0_dev.json",
                1232673,
                "6cd20dcfad3404736691c5dcee271d19f579b6c5755a1aad4c4de644bc9dfd05",
            ),
        ),
        "tempqa-wd-dev": (
            _of(
                "IBM/tempqa-wd",
                "9b19700e3cde35173047893a7a2ee7cef1c6e910",
                "data/dev.json",
                "tempqa-wd/dev.json",
                327042,
                "15982a70b6e74a83b72aa06b5b7ae796acff782f244fe8ad9f77cc6d83b6ffbf",
            ),
        ),
        "simplequestions-wd-valid": (
            _of(
                "askplatypus/wikidata-simplequestions",
                "d58754c481fb4c084bf4f7e73c82a78be1fa9c08",
                "annotated_wd_data_valid_answerable.txt",
                "simplequestions-wd/annotated_wd_data_valid_answerable.txt",
                173187,
                "1dffa967f15f2cb73ba7a50d3545f9585ef76b8722322e569cf54c9f9a1a9a48",
            ),
        ),
        **{f"stark-{kb}-{split}": _stark(kb) for kb in KBS for split in ("train", "val", "test", "test-0.1", "human")},
    }
)
"""The files of each dataset that can be downloaded one by one."""

PAGES: Mapping[str, str] = MappingProxyType(
    {
        "wikiwebquestions": "https://github.com/stanford-oval/wikidata-emnlp23",
        "lc-quad-2": "http://lc-quad.sda.tech/",
        "complexwebquestions": "https://www.tau-nlp.sites.tau.ac.il/compwebq",
        "grailqa": "https://dki-lab.github.io/GrailQA/",
        "kqa-pro": "https://github.com/shijx12/KQAPro_Baselines",
        "mcwq": "the data of its paper (TACL 2022)",
    }
)
"""By format, where a person finds what is published as an archive, behind a form, or under a changing address."""


def how_to_get(name: str, form: str) -> str:
    """What a person does for a dataset, of a format, whose file is not there."""
    if name in ORIGINS:
        return f"kbnav eval dataset fetch {name} downloads it (with the same --data)"
    return f"download it by hand, from {PAGES.get(form, 'its publisher')}, and put it there"


_STARK_sources = (
    "CC BY 4.0",
    "Wu et al. (2024). STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases. NeurIPS 2024.",
)

_OWN = Source("own questions", "not stated", "not stated")

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "spinach": Source(
            "SPINACH",
            "CC BY-SA 4.0",
            "Liu et al. (2024). SPINACH: SPARQL-Based Information Navigation for Challenging Real-World Questions. "
            "Findings of EMNLP 2024.",
        ),
        "qald-7": Source(
            "QALD-7, task 4",
            "MIT",
            "Usbeck et al. (2017). 7th Open Challenge on Question Answering over Linked Data (QALD-7). "
            "Semantic Web Challenges, ESWC 2017.",
        ),
        "qald-9-plus": Source(
            "QALD-9-plus",
            "CC BY 4.0",
            "Perevalov et al. (2022). QALD-9-plus: A Multilingual Dataset for Question Answering over DBpedia and "
            "Wikidata Translated by Native Speakers. ICSC 2022.",
        ),
        "qald-10": Source(
            "QALD-10",
            "MIT",
            "Usbeck et al. (2023). QALD-10: The 10th challenge on question answering over linked data. "
            "Semantic Web Journal.",
        ),
        "wikiwebquestions": Source(
            "WikiWebQuestions",
            "as given by its authors",
            "Xu et al. (2023). Fine-tuned LLMs Know More, Hallucinate Less with Few-Shot Sequence-to-Sequence Semantic "
            "Parsing over Wikidata. EMNLP 2023.",
        ),
        "lc-quad-2": Source(
            "LC-QuAD 2.0",
            "CC BY 4.0",
            "Dubey et al. (2019). LC-QuAD 2.0: A Large Dataset for Complex Question Answering over Wikidata and "
            "DBpedia. ISWC 2019.",
        ),
        "rubq-1": Source(
            "RuBQ 1.0",
            "CC BY-SA 4.0",
            "Korablinov and Braslavski (2020). RuBQ: A Russian Dataset for Question Answering over Wikidata. "
            "ISWC 2020.",
        ),
        "rubq-2": Source(
            "RuBQ 2.0",
            "CC BY-SA 4.0",
            "Rybin et al. (2021). RuBQ 2.0: An Innovated Russian Question Answering Dataset. ESWC 2021.",
        ),
        "tempqa-wd": Source(
            "TempQA-WD",
            "CC0 1.0",
            "Neelam et al. (2022). A Benchmark for Generalizable and Interpretable Temporal Question Answering over "
            "Knowledge Bases. arXiv:2201.05793.",
        ),
        "simplequestions-wd": Source(
            "SimpleQuestions over Wikidata",
            "CC BY 3.0",
            "Diefenbach et al. (2017). Question Answering Benchmarks for Wikidata. ISWC 2017 Posters & Demonstrations.",
        ),
        "complexwebquestions": Source(
            "ComplexWebQuestions 1.1, over Freebase",
            "as given by its authors",
            "Talmor and Berant (2018). The Web as a Knowledge-Base for Answering Complex Questions. NAACL 2018.",
        ),
        "grailqa": Source(
            "GrailQA 1.0, over Freebase",
            "CC BY-SA 4.0",
            "Gu et al. (2021). Beyond I.I.D.: Three Levels of Generalization for Question Answering on Knowledge "
            "Bases. WWW 2021.",
        ),
        "kqa-pro": Source(
            "KQA Pro 1.0, over a part of Wikidata of its own",
            "as given by its authors",
            "Cao et al. (2022). KQA Pro: A Dataset with Explicit Compositional Programs for Complex Question Answering "
            "over Knowledge Base. ACL 2022.",
        ),
        "mcwq": Source(
            "MCWQ, first published as CWQ",
            "CC BY 4.0",
            "Cui et al. (2022). Compositional Generalization in Multilingual Semantic Parsing over Wikidata. "
            "TACL 2022.",
        ),
        "stark-amazon": Source("STaRK-Amazon", *_STARK_sources),
        "stark-mag": Source("STaRK-MAG", *_STARK_sources),
        "stark-prime": Source("STaRK-Prime", *_STARK_sources),
        "text2sparql": Source(
            "TEXT2SPARQL",
            "CC BY 4.0 (CK25)",
            "Tramp et al. (2025). First International TEXT2SPARQL Challenge, co-located with Text2KG at ESWC 2025. "
            "CK25: eccenca GmbH.",
        ),
        "jsonl": _OWN,
        "table": _OWN,
    }
)


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
_STARK_load = re.compile(f"stark-({'|'.join(stark.KBS)})-(.+)")


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
    if match := _STARK_load.fullmatch(full):
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
    if match := _STARK_load.fullmatch(name):
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
