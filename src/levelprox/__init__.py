"""Sparse models under an explicit budget, with a certificate.

    min ψ(x)   subject to   g(x) = Σ_j ω_j φ(x_j) ≤ η

See `SparseClassifier` and `SparseRegressor` for models in scikit-learn's habits, `solve` and `best_subset` for the
functions underneath, `constraints` for φ, `losses` and `objectives` for ψ, `certify` for the certificate of a result.
"""

from difflib import get_close_matches
from importlib import import_module, metadata

__version__ = metadata.version("levelprox")

#: Module → the public names that it defines. Each is imported at first use: the command line's help needs neither NumPy
#: nor scikit-learn.
_NAMES = {
    "_best_subset": "best_subset",
    "_path": "Path path subset_path",
    "_solve": "minimize solve",
    "backends": "linear_model",
    "certificate": "Certificate certify",
    "designs": "open_chunked",
    "driver": "drive",
    "estimators": "SparseClassifier SparseClassifierCV SparseRegressor SparseRegressorCV certify_model load",
    "exceptions": (
        "BackendError CheckpointError ConvergenceWarning FileFormatError InfeasibleError InvalidInputError "
        "LevelproxError NumericalError"
    ),
    "io.checkpoint": "Checkpoint",
    "methods": "Limits Method Progress",
    "objectives": "Function LinearModel MultinomialModel OneVsRestModel Stochastic",
    "problem": "Problem",
    "projection": "project",
    "report": "CVDisplay ConvergenceDisplay ModelSummary PathDisplay Stability StabilityDisplay",
    "result": "Iterate Record Result Status",
    "subset.result": "Additions Subset SubsetCertificate SubsetRecord Swaps",
    "theory.approximate_kkt": "Nearby expected_kkt nearby_kkt",
}
_DEFINED_IN = {name: module for module, names in _NAMES.items() for name in names.split()}
#: Deprecated name → its new name.
_RENAMED = {"Exchanges": "Swaps"}
#: Public module → where it is.
_MODULES = {
    "constraints": "constraints",
    "designs": "designs",
    "estimators": "estimators",
    "levels": "methods.lcpp",
    "losses": "losses",
    "objectives": "objectives",
    "report": "report",
    "subsolvers": "methods.subsolvers",
    "theory": "theory",
}

__all__ = sorted({*_DEFINED_IN, *_MODULES})  # __init__.pyi has them for type checkers


def __getattr__(name: str) -> object:
    """Import a public name at its first use (PEP 562)."""
    if name in _DEFINED_IN:
        value: object = getattr(import_module(f"levelprox.{_DEFINED_IN[name]}"), name)
    elif name in _RENAMED:
        from levelprox.exceptions import warn

        warn(f"levelprox.{name} is deprecated: it is levelprox.{_RENAMED[name]}", DeprecationWarning)
        return __getattr__(_RENAMED[name])
    elif name in _MODULES:
        value = import_module(f"levelprox.{_MODULES[name]}")
    else:
        near = [] if name.startswith("_") else get_close_matches(name, __all__, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'levelprox' has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
