"""What a person reads."""

from levelprox.report.convergence_display import ConvergenceDisplay
from levelprox.report.cv_display import CVDisplay
from levelprox.report.html import certificate_html
from levelprox.report.model_summary import ModelSummary
from levelprox.report.page import page, write_page
from levelprox.report.path_display import PathDisplay
from levelprox.report.progress import ProgressLine
from levelprox.report.stability import Stability
from levelprox.report.stability_display import StabilityDisplay

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
