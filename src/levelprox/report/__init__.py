"""Reports: displays, summaries, HTML pages and progress."""

from levelprox.report._fit_displays import ConvergenceDisplay, CVDisplay
from levelprox.report._path_display import PathDisplay
from levelprox.report.model_summary import ModelSummary
from levelprox.report.page import page, write_page
from levelprox.report.progress import ProgressLine
from levelprox.report.stability import Stability, StabilityDisplay
from levelprox.report.tables import certificate_html

__all__ = [
    "CVDisplay",
    "ConvergenceDisplay",
    "ModelSummary",
    "PathDisplay",
    "ProgressLine",
    "Stability",
    "StabilityDisplay",
    "certificate_html",
    "page",
    "write_page",
]
