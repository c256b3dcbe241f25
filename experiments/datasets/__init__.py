"""The paper's six data sets by name: originals if they were downloaded, otherwise stand-ins or substitutes.

    from experiments.datasets import NAMES, Places, load, source

    split = load("real-sim", Places.from_environment(Path("data")))

Every set says what it is: `split.source.label` goes into tables and figures. See docs/datasets.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from experiments.datasets import generated, originals, stand_ins
from experiments.datasets.errors import DataError
from experiments.datasets.originals import ORIGINALS
from experiments.datasets.places import VARIABLE, Places
from experiments.datasets.split import Form, Raw, Source, Split, shape

__all__ = ["NAMES", "VARIABLE", "DataError", "Places", "Source", "Split", "known", "load", "source"]

#: In the order of the paper's Table 3.
NAMES = ("real-sim", "rcv1.binary", "mnist", "gisette", "E2006-tfidf", "YearPredictionMSD")

FORMS = {
    "real-sim": Form("logistic"),
    "rcv1.binary": Form("logistic"),
    "mnist": Form("logistic"),
    "gisette": Form("logistic", dense=True),
    "E2006-tfidf": Form("squared"),
    "YearPredictionMSD": Form("squared", dense=True, standardised=True),
}
SUBSTITUTE = "small generated data of a similar kind: neither its size nor its errors are those of the paper"


def source(name: str, places: Places) -> Source:
    """Return the source that `load` would use, without reading data.

    Parameters
    ----------
    name : str
        One of `NAMES`; `real-sim:imdb_sentiment` for the other stand-in of real-sim.
    places : Places

    Raises
    ------
    DataError
        The name is unknown, a folder is not there, or an original is not what was pinned.
    """
    return _chosen(name, places)[0]


def load(name: str, places: Places, rows: int | None = None) -> Split:
    """Return the set of that name: the original if all of it was downloaded, else the stand-in, else a substitute.

    Parameters
    ----------
    name : str
        As in `source`.
    places : Places
    rows : int, optional
        Only so many random training rows, and at most five times as many test rows, drawn with seed 0.

    Raises
    ------
    DataError
        As in `source`, or the data cannot be read.
    """
    chosen, read = _chosen(name, places)
    form = FORMS[chosen.name]
    if chosen.kind == "stand-in":
        form = replace(form, standardised=False)  # its loader has scaled what is no 0 or 1
    return shape(read(), chosen, form, rows)


def known(name: str) -> str:
    """Return the name if it is one of `NAMES`, else raise an error."""
    if name in NAMES:
        return name
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in NAMES], n=1)
    meant = f"; did you mean {next(each for each in NAMES if each.lower() == near[0])}?" if near else "."
    raise DataError(f"no data set {name!r}{meant} There are {', '.join(NAMES)}")


def _chosen(name: str, places: Places) -> tuple[Source, Callable[[], Raw]]:
    """Return the source of a name, and the function that reads it."""
    name, _, wanted = name.partition(":")
    original, folder = ORIGINALS[known(name)], places.downloaded()
    if not wanted and folder is not None and originals.is_there(original, folder):
        return Source(name, "original", name, original.note), partial(originals.read, original, folder)
    if not wanted and places.stand_ins is None:
        label = f"{name} (generated substitute)"
        return Source(name, "generated", label, SUBSTITUTE), partial(generated.generate, name)
    places.loader()
    stand_in = stand_ins.chosen(name, wanted)
    label = f"{name} (stand-in: {stand_in.label})" if stand_in.label else name
    return Source(name, stand_in.kind, label, stand_in.note), partial(stand_ins.read, stand_in, places)
