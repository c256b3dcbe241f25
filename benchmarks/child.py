"""The process of one competitor: read the request, warm up, fit, time, answer.

    python -m benchmarks.child FOLDER

Seconds are the processor time of `Peer.fit` alone, which other load on the machine affects least. Data are read and
converted to the preferred storage of the peer before. A small fit first triggers compilation at run time, except for
cold seconds: these are wall time from the start of the process to the end of the first fit, without the time of reading
the data.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    """Answer every fit of the request, each as soon as it is done."""
    request = json.loads((folder / "request.json").read_text())
    import numpy as np

    from benchmarks.datasets import small_like, taken
    from benchmarks.peers import peer_by_name

    warnings.simplefilter("ignore")
    peer = peer_by_name(request["peer"])
    try:
        peer.load()
    except ImportError as error:
        for index in range(len(request["fits"])):
            _answer(folder, index, {"status": "not installed", "note": f"{error}"})
        return
    began = time.monotonic()
    data = taken(Path(request["data"]), peer.by_columns)
    reading = time.monotonic() - began
    if not request["cold"]:
        _warm_up(peer, small_like(data), request["fits"])
    (folder / "ready").touch()
    previous = None
    for index, ask in enumerate(request["fits"]):
        told: dict[str, Any] = {"version": peer.version}
        try:
            reason = peer.refuses(data, ask)
            if reason:
                told |= {"status": "refused", "note": reason}
            else:
                seconds, fit = _timed(peer, data, ask, previous if ask.get("warm_start") else None, request)
                if request["cold"]:
                    seconds = [time.monotonic() - float(os.environ["LEVELPROX_BENCH_BEGAN"]) - reading]
                np.save(folder / f"answer-{index}.npy", fit.coefficients)
                previous = fit.coefficients
                told |= {"status": "ok", "seconds": seconds, "note": fit.note, "extra": fit.extra}
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            note = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            told |= {"status": "error", "note": " ".join(note.split())[:300]}
        _answer(folder, index, told)


def _timed(peer: Any, data: Any, ask: dict[str, Any], start: Any, request: dict[str, Any]) -> tuple[list[float], Any]:
    """Seconds of some fits from the same start, and the last of them; of one where the first is what counts."""
    seconds: list[float] = []
    most = 1 if request["cold"] else request["most_repeats"]
    while True:
        own = None if start is None else start.copy()  # some peers write where they start
        began = time.process_time()
        fit = peer.fit(data, ask, own)
        seconds.append(time.process_time() - began)
        if sum(seconds) >= request["repeat_s"] or len(seconds) >= most:
            return seconds, fit


def _warm_up(peer: Any, small: Any, fits: list[dict[str, Any]]) -> None:
    """One small fit; what it thinks of the data does not matter here."""
    ask = peer.small_ask(fits[0])
    try:
        if not peer.refuses(small, ask):
            peer.fit(small, ask, None)
    except Exception as error:
        print(f"warm-up: {type(error).__name__}: {error}")


def _answer(folder: Path, index: int, told: dict[str, Any]) -> None:
    """Write the answer to a temporary file and rename it, so that it is always complete."""
    aside = folder / f"answer-{index}.part"
    aside.write_text(json.dumps(told))
    aside.rename(folder / f"answer-{index}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
