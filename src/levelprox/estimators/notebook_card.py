"""What a notebook shows of an estimator: scikit-learn's diagram and, once it is fitted, the certificate below it."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.utils import estimator_html_repr

from levelprox.report.html import certificate_html

_MORE = (
    '<div style="font:13px/1.5 system-ui,sans-serif;opacity:.72"><code>summary(X, y)</code> shows what each feature '
    "contributes, <code>stability(X, y)</code> how often it is selected from subsamples.</div>"
)


class NotebookCard:
    """The hooks of notebooks, under the names that scikit-learn has had for them since 1.6.

    `sklearn.set_config(display="text")` turns HTML off, as everywhere.
    """

    def _html_repr(self) -> str:
        """The diagram, with the card below."""
        diagram = str(estimator_html_repr(self))
        return diagram + certificate_html(self) + _MORE if hasattr(self, "certificate_") else diagram

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._html_repr()
        return shown
