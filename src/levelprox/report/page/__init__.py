"""The report page: one HTML file that opens from disk, asks the network for nothing, and shows a model at every budget."""

from levelprox.report.page.document import page, write_page

__all__ = ["page", "write_page"]
