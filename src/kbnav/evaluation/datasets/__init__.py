"""Benchmark datasets, each read from its published file format, with licence and citation."""

from kbnav.evaluation.datasets.load import ALIASES, FORMATS, NAMES, load_dataset, load_file, load_stark
from kbnav.evaluation.datasets.question import Dataset, Question, Source
from kbnav.evaluation.datasets.sources import SOURCES

__all__ = [
    "ALIASES",
    "FORMATS",
    "NAMES",
    "SOURCES",
    "Dataset",
    "Question",
    "Source",
    "load_dataset",
    "load_file",
    "load_stark",
]
