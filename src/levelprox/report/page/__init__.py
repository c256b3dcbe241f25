"""The report page: a model at every budget, in one HTML file that opens from disk and asks the network for nothing."""

from levelprox.report.page._document import page, write_page

__all__ = ["page", "write_page"]
