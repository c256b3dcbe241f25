"""What a person reads."""

from levelprox.report.html import certificate_html
from levelprox.report.progress import ProgressLine

__all__ = ["ProgressLine", "certificate_html"]
