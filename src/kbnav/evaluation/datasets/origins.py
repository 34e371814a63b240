"""Where the files of the datasets come from: addresses of their publishers, and what to do where there is none.

Addresses name a commit of the publisher's repository, so that they always mean the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kbnav.evaluation.datasets.stark import HUMAN, KBS

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
