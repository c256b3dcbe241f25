"""What a case returned, as an entry of the recording: hexadecimal floats, and arrays with a hash of their bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MAX_ENTRIES = 50
_SECONDS = re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(ms|s|seconds?)\b")
_JSON_SECONDS = re.compile(r'(\\*"[a-z_]*(?:seconds|wall_s|time)\\*": *)(\[[^\]]*\]|[-+.e\d]+)')
_ARRAY_OF_SECONDS = re.compile(r'\\*"[a-z_]*time\\*": *{\\*"array\\*": *\\*"(\w+)')
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_CHECKSUM = re.compile(r'("sha256": *")[0-9a-f]{64}')

Entry = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """A value with further quantities to record.

    Attributes
    ----------
    value : object
        What `described` accepts; None for nothing.
    words : dict of str to str
        Texts.
    hashes : dict of str to str
        Hashes of arrays or files.
    counts : dict of str to int
    figures : dict of str to float
    """

    value: Any = None
    words: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


def described(value: Any) -> Entry:
    """Return the entry of a Result, Subset, Path, fitted estimator, array, or any of these in a `Told`."""
    if isinstance(value, Told):
        entry = described(value.value)
        for name in ("words", "hashes", "counts"):
            entry.setdefault(name, {}).update(getattr(value, name))
        entry.setdefault("figures", {}).update(_figures(value.figures))
        return entry
    if value is None:
        return {}
    if hasattr(value, "coef_"):
        return _of_model(value)
    if hasattr(value, "multipliers"):
        return _of_path(value)
    if hasattr(value, "support"):
        return _of_subset(value)
    if hasattr(value, "certificate"):
        return _of_result(value)
    return {"x": array(np.asarray(value))}


def hashed(values: Any) -> str:
    """Return a hash of an array: its type, shape and bytes; of objects and words, their text."""
    found = np.ascontiguousarray(values)
    content = repr(found.tolist()).encode() if found.dtype.kind in "OUS" else found.tobytes()
    return hashlib.sha256(f"{found.dtype.kind}{found.dtype.itemsize} {np.shape(values)}".encode() + content).hexdigest()


def array(values: Any) -> Entry:
    """Return the hash of an array and its first nonzero entries, with their places in the flat array."""
    flat = np.asarray(values).ravel()
    places = np.flatnonzero(flat)
    entries = [[int(j), float(flat[j]).hex()] for j in places[:MAX_ENTRIES]]
    return {"sha256": hashed(values), "shape": list(np.shape(values)), "n_nonzero": len(places), "entries": entries}


def file_hash(path: Path) -> str:
    """Return the hash of a model file or a checkpoint, with times and the checksum over them left out.

    Both are safetensors files: the length of the header in 8 bytes, the header padded with spaces, the arrays.
    """
    content = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    header = content[8:begin].decode()
    arrays = json.loads(header)
    for name in _ARRAY_OF_SECONDS.findall(header):
        first, last = arrays[name]["data_offsets"]
        content[begin + first : begin + last] = bytes(last - first)
    masked_header = _CHECKSUM.sub(r"\1", _JSON_SECONDS.sub(r"\1", header)).rstrip(" ")
    return hashlib.sha256(masked_header.encode() + content[begin:]).hexdigest()


def masked(text: str, folder: Path | None = None) -> str:
    """Return a text without what differs from run to run: times, addresses and the name of the folder."""
    if folder is not None:
        text = text.replace(str(folder), "DIR")
    return _ADDRESS.sub("0x", _SECONDS.sub("TIME", _JSON_SECONDS.sub(r"\1TIME", text)))


def _figures(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: float(value).hex() for name, value in found.items() if value is not None}


def _certificate(found: Any) -> tuple[dict[str, str], dict[str, int], str]:
    """Figures, counts and words of a certificate of either kind."""
    names = ("psi", "kkt", "g", "stationarity", "complementarity", "multiplier", "dual_bound", "possible_gain", "spent")
    figures = _figures({name: getattr(found, name, None) for name in names})
    counts = {"n_nonzero": int(found.n_nonzero)}
    swaps = getattr(found, "swaps", None) or getattr(found, "exchanges", None)  # the latter in version 0.1
    for name, shown in (("exchanges", swaps), ("additions", getattr(found, "additions", None))):
        if shown is not None:
            counts |= {f"{name} examined": int(shown.examined), f"{name} total": int(shown.total)}
    if getattr(found, "addition", None) is not None:
        counts["addition"] = int(found.addition)
    return figures, counts, str(found)


def _history(records: Any) -> str:
    """Return a hash of the losses after each step."""
    return hashed(np.array([record.psi for record in records], np.float64))


def _of_result(result: Any) -> Entry:
    figures, counts, words = _certificate(result.certificate)
    counts |= {name: int(getattr(result, name)) for name in ("n_outer", "n_inner", "n_grad", "n_proj")}
    return {
        "x": array(result.x),
        "status": str(result.status),
        "message": result.message,
        "loss": float(result.psi).hex(),
        "counts": counts,
        "figures": {**figures, "gamma": float(result.gamma).hex()},
        "words": {"certificate": words, "run": f"{result.subsolver} {result.levels} {result.start} {result.surrogate}"},
        "hashes": {"history": _history(result.history)},
    }


def _of_subset(subset: Any) -> Entry:
    figures, counts, words = _certificate(subset.certificate)
    return {
        "x": array(subset.x),
        "status": str(subset.status),
        "message": subset.message,
        "loss": float(subset.psi).hex(),
        "counts": {**counts, "n_grad": int(subset.n_grad), "n_refits": int(subset.n_refits)},
        "figures": figures,
        "words": {"certificate": words},
        "hashes": {"history": _history(subset.history)},
    }


def _of_path(path: Any) -> Entry:
    rows = {f"{name} {i}": value for name in ("losses", "multipliers") for i, value in enumerate(getattr(path, name))}
    return {
        "x": array(path.coefficients.toarray()),
        "status": " ".join(map(str, path.statuses)),
        "loss": float(np.sum(path.losses)).hex(),
        "counts": {"n_grad": int(path.n_grad), "n_levels": len(path)},
        "figures": _figures(rows),
        "words": {"certificates": "\n\n".join(map(str, path.certificates))},
    }


def _of_model(model: Any) -> Entry:
    flat = np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])
    figures = {name: getattr(model, name, None) for name in ("level_", "ridge_", "multiplier_", "best_score_")}
    entry: Entry = {
        "x": array(flat),
        "figures": _figures(figures),
        "counts": {"n_iter_": int(model.n_iter_)} if hasattr(model, "n_iter_") else {},
        "words": {"coef_": f"{model.coef_.dtype} {model.coef_.shape}"},
        "hashes": {"scale_": hashed(model.scale_)},
    }
    if hasattr(model, "status_"):
        entry |= {"status": str(model.status_), "message": model.message_}
    if hasattr(model, "history_"):
        entry["hashes"]["history"] = _history(model.history_)
    if hasattr(model, "cv_results_"):
        chosen = {name: values for name, values in model.cv_results_.items() if not name.endswith("time")}
        entry["hashes"] |= {f"cv_results_ {name}": hashed(values) for name, values in chosen.items()}
        entry["words"]["best_params_"] = repr({name: float(value) for name, value in model.best_params_.items()})
    if hasattr(model, "certificate_"):
        shown, counts, words = _certificate(model.certificate_)
        entry["loss"] = float(model.certificate_.psi).hex()
        entry["figures"] |= shown
        entry["counts"] |= counts
        entry["words"]["certificate"] = words
    return entry
