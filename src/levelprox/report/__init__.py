"""What a person reads."""

from levelprox.report.progress import ProgressLine

__all__ = ["ProgressLine"]
