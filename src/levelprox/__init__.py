"""Sparse models under an explicit budget, with a certificate.

    min ψ(x)   subject to   g(x) = Σ_j ω_j φ(x_j) ≤ η

See `SparseClassifier` and `SparseRegressor` for models in scikit-learn's habits, `solve` and `best_subset` for the
functions underneath, `constraints` for φ, `losses` and `objectives` for ψ, `certify` for the proof of what came back.
"""

import sys
from difflib import get_close_matches
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelprox.names import *  # noqa: F403
    from levelprox.names import __all__ as __all__

__version__ = metadata.version("levelprox")


#: Functions that have the name of the file they are in.
_FUNCTIONS = ("path", "solve")


class _Package(ModuleType):
    """The package, in which `solve` is the function."""

    def __setattr__(self, name: str, value: object) -> None:
        # Importing levelprox.solve, the file, would otherwise hide levelprox.solve, the function.
        if not (name in _FUNCTIONS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    """A public name, when it is first asked for: the command line's help needs neither NumPy nor scikit-learn."""
    if name == "__all__" or not name.startswith("_"):
        if name not in _FUNCTIONS and find_spec(f"levelprox.{name}") is not None:
            return import_module(f"levelprox.{name}")
        names = import_module("levelprox.names")
        if hasattr(names, name):
            globals()[name] = getattr(names, name)
            return globals()[name]
    near = [] if name.startswith("_") else get_close_matches(name, import_module("levelprox.names").__all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'levelprox' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("levelprox.names").__all__})
