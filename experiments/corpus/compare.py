"""Where two recordings differ."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1e-9
#: Fields of texts: a change of wording alone differs in no other.
TEXT_FIELDS = ("message", "words", "warnings", "error")
_MAX_SHOWN = 60  # characters of a cell
_NO_VALUE = "(none)"


@dataclass(frozen=True)
class Difference:
    """One field of one case.

    Attributes
    ----------
    field : str
        Its name; parts of a nested one with slashes between them.
    before, after : object
    near : bool
        Whether both are numbers that agree to `TOLERANCE`.
    """

    field: str
    before: Any
    after: Any
    near: bool = False

    @property
    def is_text(self) -> bool:
        """Whether only wording differs."""
        return self.field.split("/")[0] in TEXT_FIELDS


@dataclass(frozen=True)
class Comparison:
    """All differences of two recordings.

    Attributes
    ----------
    differences : dict of str to list of Difference
        By case, for the cases of both; an empty list where they are identical.
    missing, new : list of str
        Cases of the first recording alone, and of the second alone.
    loss_ratios : dict of str to float
        Loss after over loss before, where both are positive.
    """

    differences: dict[str, list[Difference]]
    missing: list[str]
    new: list[str]
    loss_ratios: dict[str, float]

    def group(self, name: str) -> str:
        """Return the line of the summary in which a case counts."""
        found = self.differences[name]
        if not found:
            return "identical"
        if all(one.near for one in found):
            return f"same to {TOLERANCE:g}"
        return "texts differ" if all(one.near or one.is_text for one in found) else "different"

    @property
    def counts(self) -> dict[str, int]:
        """Number of cases in each line of the summary."""
        groups = [self.group(name) for name in self.differences]
        lines = ("identical", f"same to {TOLERANCE:g}", "texts differ", "different")
        return {**{line: groups.count(line) for line in lines}, "missing": len(self.missing), "new": len(self.new)}

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.new or any(self.differences.values()))


def compared(before: Mapping[str, Any], after: Mapping[str, Any], ignored: Collection[str] = ()) -> Comparison:
    """Compare two recordings.

    Parameters
    ----------
    before, after : dict
        As `recording` returns them.
    ignored : collection of str, default=()
        Fields of entries that are not compared; `seconds` never is.

    Returns
    -------
    Comparison
    """
    first, second = before["cases"], after["cases"]
    skipped = {"seconds", *ignored}
    found, ratios = {}, {}
    for name in (name for name in first if name in second):
        old, new = ({k: v for k, v in one[name].items() if k not in skipped} for one in (first, second))
        found[name] = list(_differences(old, new))
        ratio = _ratio(old.get("loss"), new.get("loss"))
        if ratio is not None:
            ratios[name] = ratio
    missing, more = [name for name in first if name not in second], [name for name in second if name not in first]
    return Comparison(found, missing, more, ratios)


def report(comparison: Comparison) -> str:
    """Return the comparison as text: counts, then a row for each field that differs.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
    """
    lines = [f"{count:5}  {line}" for line, count in comparison.counts.items()]
    rows = [("case", "field", "before", "after", "loss after/before")]
    for name, found in comparison.differences.items():
        ratio = comparison.loss_ratios.get(name)
        shown = "" if ratio is None else f"{ratio:.12g}"
        rows += [(name, one.field, *_sides(one.before, one.after), shown) for one in found]
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines += ["", *("  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)]
        higher = max(comparison.loss_ratios.values(), default=1.0)
        lines += ["", f"largest loss after/before: {higher:.12g}"]
    lines += [f"missing: {name}" for name in comparison.missing] + [f"new: {name}" for name in comparison.new]
    return "\n".join(lines)


def _differences(old: Any, new: Any, field: str = "") -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        if "entries" in old and "entries" in new:
            yield from _arrays(old, new, field)
            return
        for name in dict.fromkeys([*old, *new]):
            path = f"{field}/{name}" if field else name
            yield from _differences(old.get(name, _NO_VALUE), new.get(name, _NO_VALUE), path)
    elif old != new:
        yield Difference(field, old, new, _near(_number(old), _number(new), 1.0))


def _arrays(old: dict[str, Any], new: dict[str, Any], field: str) -> Iterator[Difference]:
    """Compare arrays by their hash, then entry by entry, relative to the largest of both."""
    if old == new:
        return
    if old["shape"] != new["shape"]:
        yield Difference(f"{field}/shape", old["shape"], new["shape"])
        return
    first, second = (dict(map(tuple, one["entries"])) for one in (old, new))
    sizes = [abs(value) for value in map(_number, [*first.values(), *second.values()]) if value is not None]
    scale, zero = max(sizes, default=0.0), (0.0).hex()
    whole = max(old["n_nonzero"], new["n_nonzero"]) <= len(first) == len(second)
    found = 0
    for j in sorted(first.keys() | second.keys()):
        a, b = first.get(j, zero), second.get(j, zero)
        if a != b:
            found += 1
            yield Difference(f"{field}[{j}]", a, b, whole and _near(_number(a), _number(b), scale))
    if not found:  # another type, the sign of a zero, or an entry that is not recorded
        yield Difference(f"{field}/sha256", old["sha256"], new["sha256"])


def _number(value: Any) -> float | None:
    """Return the number of a hexadecimal float; None for what is none."""
    if not isinstance(value, str) or not (value.lstrip("-").startswith("0x") or value in ("nan", "inf", "-inf")):
        return None
    return float.fromhex(value)


def _near(a: float | None, b: float | None, scale: float) -> bool:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= TOLERANCE * max(scale, abs(a), abs(b))


def _ratio(old: Any, new: Any) -> float | None:
    a, b = _number(old), _number(new)
    return b / a if a is not None and b is not None and a > 0 and b > 0 and math.isfinite(a) else None


def _sides(before: Any, after: Any) -> tuple[str, str]:
    """Show both values; of long texts the part from shortly before the first difference on."""
    numbers = _number(before), _number(after)
    if None not in numbers:
        return repr(numbers[0]), repr(numbers[1])
    old, new = (str(one).replace("\n", "⏎") for one in (before, after))
    common = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    begin = max(0, common - 20) if max(len(old), len(new)) > _MAX_SHOWN else 0
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str, begin: int) -> str:
    shown = text[begin : begin + _MAX_SHOWN]
    return ("…" if begin else "") + shown + ("…" if begin + _MAX_SHOWN < len(text) else "")
