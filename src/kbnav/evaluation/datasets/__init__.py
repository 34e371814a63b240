"""Benchmark datasets, each read from its published file format, with licence and citation."""

from kbnav.evaluation.datasets.catalogue import (
    NAMES,
    SOURCES,
    find_dataset,
    load_dataset,
    load_file,
    load_stark,
)
from kbnav.evaluation.datasets.formats import FORMATS
from kbnav.evaluation.datasets.records import Attribution, Dataset, Question

__all__ = [
    "FORMATS",
    "NAMES",
    "SOURCES",
    "Attribution",
    "Dataset",
    "Question",
    "find_dataset",
    "load_dataset",
    "load_file",
    "load_stark",
]
