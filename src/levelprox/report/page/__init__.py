"""The report page: a model at every budget, in one self-contained HTML file."""

from levelprox.report.page._document import page, write_page

__all__ = ["page", "write_page"]
