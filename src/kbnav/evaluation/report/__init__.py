"""Reports on saved runs: one HTML file, or one table for papers."""

from kbnav.evaluation.report.data import Report, build_report, load_report, run_records, scores_table
from kbnav.evaluation.report.page import html_report

__all__ = [
    "Report",
    "build_report",
    "html_report",
    "load_report",
    "run_records",
    "scores_table",
]
