"""Benchmark datasets, each read from its published file format, with licence and citation."""

from kbnav.evaluation.datasets.catalogue import BENCHMARKS, NAMES, SOURCES, load_dataset, load_file, load_stark
from kbnav.evaluation.datasets.formats import FORMATS
from kbnav.evaluation.datasets.records import Dataset, Question, Source

__all__ = [
    "BENCHMARKS",
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
