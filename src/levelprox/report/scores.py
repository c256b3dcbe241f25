"""What scores are called along an axis."""

from __future__ import annotations

from typing import Any

_OF = "of held-out samples"
# Parts of scikit-learn's names that are not words.
_SIGNS = {"roc": "ROC", "auc": "AUC", "ovr": "OVR", "ovo": "OVO", "r2": "R²", "d2": "D²", "f1": "F1"}


def name_and_sign(scoring: Any) -> tuple[str, float]:
    """What a score is called, and the sign with which it is drawn: negative losses are drawn as losses.

    Parameters
    ----------
    scoring : str, callable or None
        As estimators take it. Of a callable the name is that of the function, as it is.
    """
    if scoring is None:
        return f"Loss {_OF}", -1.0
    if isinstance(scoring, str):
        words = [_SIGNS.get(word, word) for word in scoring.removeprefix("neg_").split("_")]
        words[0] = words[0][:1].upper() + words[0][1:]
        return f"{' '.join(words)} {_OF}", -1.0 if scoring.startswith("neg_") else 1.0
    # What make_scorer returns has a function and a sign.
    name = getattr(getattr(scoring, "_score_func", scoring), "__name__", "<none>")
    sign = -1.0 if getattr(scoring, "_sign", 1) < 0 else 1.0
    return f"{'Loss' if sign < 0 else 'Score'} {_OF}" if name.startswith("<") else f"{name} {_OF}", sign
