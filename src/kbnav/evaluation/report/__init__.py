"""Reports on saved runs: one HTML file, Markdown and CSV for papers."""

from kbnav.evaluation.report.data import Report, build_report, load_report, load_runs
from kbnav.evaluation.report.page import html_report
from kbnav.evaluation.report.text import markdown_report, questions_csv, summary_csv

__all__ = [
    "Report",
    "build_report",
    "html_report",
    "load_report",
    "load_runs",
    "markdown_report",
    "questions_csv",
    "summary_csv",
]
