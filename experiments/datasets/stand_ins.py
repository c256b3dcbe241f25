"""Other data in place of those of the paper that are not at hand, from the folder that LEVELPROX_DATA names."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.datasets.errors import DataError
from experiments.datasets.places import Places
from experiments.datasets.split import Raw


@dataclass(frozen=True)
class StandIn:
    """What is taken instead.

    Attributes
    ----------
    loaded : str
        What the folder's `load` calls it.
    label : str
        What it is called in the label; empty for the paper's data themselves.
    note : str
    """

    loaded: str
    label: str
    note: str

    @property
    def kind(self) -> str:
        """As in `Source`."""
        return "stand-in" if self.label else "exact"


#: The first one of each name is taken, any other by `name:loaded`.
STAND_INS: dict[str, tuple[StandIn, ...]] = {
    "real-sim": (
        StandIn(
            "news20",
            "news20",
            "20 Newsgroups by date, comp.* and sci.* against the rest, also Usenet text: "
            "11314/7532 x 33014 with 0.39 % nonzeros, not real-sim's 50347/21962 x 20958 with 0.25 %",
        ),
        StandIn(
            "imdb_sentiment",
            "imdb_sentiment",
            "film reviews, positive against negative, nearer to real-sim in size: "
            "25000/25000 x 18247 with 0.72 % nonzeros, not 50347/21962 x 20958 with 0.25 %",
        ),
    ),
    "rcv1.binary": (
        StandIn(
            "rcv1",
            "rcv1 sample",
            "other documents of RCV1-v2 in the same terms and under the same rule: the same 20242 training rows, "
            "47236 columns and 0.16 % nonzeros, but 3507 test rows and not 677399",
        ),
    ),
    "mnist": (StandIn("mnist", "", ""),),
    "gisette": (
        StandIn(
            "gisette_like",
            "gisette_like",
            "made from MNIST's 4s and 9s by Gisette's published recipe, in the same size: "
            "other pictures, other products of pixels, other probes",
        ),
    ),
    "E2006-tfidf": (
        StandIn(
            "imdb_rating",
            "imdb_rating",
            "film reviews with ratings from 1 to 10, also text with more columns than rows: 25000/25000 x 79553 with "
            "0.32 % nonzeros, not 16087/3308 x 150360 with 0.83 %; targets centred by the training mean",
        ),
    ),
    "YearPredictionMSD": (
        StandIn(
            "flights",
            "flights",
            "delays of flights, also far more rows than columns: 294611/32735 x 174 with 10.9 % nonzeros, "
            "not 463715/51630 x 90 with 100 %; targets centred by the training mean",
        ),
    ),
}


def chosen(name: str, wanted: str = "") -> StandIn:
    """Return the requested stand-in of a name, else the first."""
    there = {stand_in.loaded: stand_in for stand_in in STAND_INS[name]}
    if wanted and wanted not in there:
        raise DataError(f"no stand-in {wanted!r} for {name}; there is {' and '.join(there)}")
    return there[wanted] if wanted else next(iter(there.values()))


def read(stand_in: StandIn, places: Places) -> Raw:
    """Both parts as the folder's own `load` gives them."""
    path = places.loader()
    try:
        return Raw(*_function(path)(stand_in.loaded))
    except Exception as error:  # code outside this repository: it may raise any exception
        raise DataError(f"{path} could not load {stand_in.loaded}: {type(error).__name__}: {error}") from error


def _function(path: Path) -> Callable[[str], tuple[Any, ...]]:
    """Return the folder's own `load`."""
    spec = importlib.util.spec_from_file_location("load_data", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[str], tuple[Any, ...]] = module.load
    return function
