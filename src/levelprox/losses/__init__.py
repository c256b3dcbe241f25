"""The losses ℓ(z, b), one file each. A new loss needs one file, one functor in the kernels and one line here."""

from __future__ import annotations

import difflib

from levelprox._validation import option
from levelprox.exceptions import InvalidInputError
from levelprox.losses._base import LogLink, Loss, check_weights
from levelprox.losses._base import vector as vector
from levelprox.losses.absolute import Absolute
from levelprox.losses.cauchy import Cauchy
from levelprox.losses.gamma import Gamma
from levelprox.losses.hinge import Hinge
from levelprox.losses.huber import Huber
from levelprox.losses.logistic import Logistic
from levelprox.losses.moreau import Smoothed
from levelprox.losses.multinomial import Multinomial
from levelprox.losses.poisson import Poisson
from levelprox.losses.quantile import Quantile
from levelprox.losses.sigmoid import Sigmoid
from levelprox.losses.squared import Squared
from levelprox.losses.squared_hinge import SquaredHinge

__all__ = [
    "LOSS_TYPES",
    "Absolute",
    "Cauchy",
    "Gamma",
    "Hinge",
    "Huber",
    "LogLink",
    "Logistic",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Sigmoid",
    "Smoothed",
    "Squared",
    "SquaredHinge",
    "check_weights",
    "loss_by_name",
]

LOSS_TYPES: tuple[type[Loss], ...] = (
    Squared,
    Logistic,
    Huber,
    Absolute,
    Quantile,
    Hinge,
    SquaredHinge,
    Cauchy,
    Sigmoid,
    Poisson,
    Gamma,
)


def loss_by_name(loss: str | Loss) -> Loss:
    """Return a loss by name, with its default parameter.

    Parameters
    ----------
    loss : str or Loss
        A name such as "logistic", or a `Loss`, which is returned unchanged.

    Returns
    -------
    Loss
        The loss.

    Raises
    ------
    InvalidInputError
        If there is no loss of that name.

    Examples
    --------
    >>> from levelprox.losses import loss_by_name
    >>> loss_by_name("huber")
    Huber(delta=1.35)
    """
    if isinstance(loss, Loss):
        return loss
    names = {kind.name: kind for kind in LOSS_TYPES}
    if not isinstance(loss, str):
        raise InvalidInputError(f"loss must be a Loss or one of the names {', '.join(names)}; got {loss!r}")
    if loss.lower() in ("multinomial", "softmax"):
        raise InvalidInputError(
            f"the loss {loss!r} takes a margin for each class, and a LinearModel has one for each sample; "
            "use objectives.MultinomialModel(X, labels)"
        )
    if option(loss) not in names:
        close = difflib.get_close_matches(loss.lower(), names)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(names)}"
        raise InvalidInputError(f"unknown loss {loss!r}; {hint}")
    return names[option(loss)]()
