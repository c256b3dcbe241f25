"""A slow reference implementation of the compiled LIBSVM parser, line by line and token by token."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
TOKEN = re.compile(rb"[^ \t\r]+")
BOM = b"\xef\xbb\xbf"
TOKEN_LIMIT = 4096
INDEX_DIGITS = 18


@dataclass(frozen=True)
class WrongError(Exception):
    """What the text has, and where: lines and columns count from one."""

    fault: str
    line: int
    column: int


def parse(text: bytes, features: int, zero_based: bool, single: bool) -> list[tuple[float, list[tuple[int, float]]]]:
    """The label and the (column, value) pairs of each sample."""
    marked = text.startswith(BOM)
    rows = []
    for number, line in enumerate(text[3 * marked :].split(b"\n"), 1):
        tokens = list(TOKEN.finditer(line.partition(b"#")[0]))
        if not tokens:
            continue
        pairs: list[tuple[int, float]] = []
        for place, token in enumerate(tokens):
            begin = token.start() + 1
            if len(token[0]) + 3 * (marked and number == begin == 1) > TOKEN_LIMIT:
                raise WrongError("token_too_long", number, begin)
            if place == 0:
                label = read_label(token[0], number, begin)
            elif place == 1 and token[0].startswith(b"qid:"):
                if not token[0][4:].isdigit():
                    raise WrongError("query", number, begin + 4)
            else:
                before = pairs[-1][0] if pairs else -1
                pairs.append(read_pair(token[0], number, begin, before, features, zero_based, single))
        rows.append((label, pairs))
    return rows


def read_label(token: bytes, line: int, column: int) -> float:
    if NUMBER.fullmatch(token) and math.isfinite(float(token)):
        return float(token)
    if b":" in token:
        raise WrongError("no_label", line, column)
    if b"," in token:
        raise WrongError("several_labels", line, column)
    finite = not (NUMBER.fullmatch(token) or NOT_FINITE.fullmatch(token))
    raise WrongError("label" if finite else "label_not_finite", line, column)


def read_pair(
    token: bytes, line: int, column: int, before: int, features: int, zero_based: bool, single: bool
) -> tuple[int, float]:
    if b":" not in token:
        raise WrongError("no_colon", line, column)
    index, _, value = token.partition(b":")
    at = read_index(index, line, column, before, features, zero_based)
    return at, read_value(value, line, column + len(index) + 1, single)


def read_index(index: bytes, line: int, column: int, before: int, features: int, zero_based: bool) -> int:
    if not index:
        raise WrongError("no_index", line, column)
    if re.fullmatch(rb"-[0-9]+", index):
        raise WrongError("negative_index", line, column)
    if not index.isdigit():
        raise WrongError("index", line, column)
    at = int(index) - (not zero_based)
    if len(index) <= INDEX_DIGITS and at < 0:
        raise WrongError("zero_index", line, column)
    if len(index) > INDEX_DIGITS or at >= features:
        raise WrongError("index_too_large", line, column)
    if at <= before:
        raise WrongError("repeated" if at == before else "order", line, column)
    return at


def read_value(value: bytes, line: int, column: int, single: bool) -> float:
    if not value:
        raise WrongError("no_value", line, column)
    if NOT_FINITE.fullmatch(value):
        raise WrongError("value_not_finite", line, column)
    if not NUMBER.fullmatch(value):
        raise WrongError("value", line, column)
    number = float(value)
    with np.errstate(over="ignore"):
        number = float(np.float32(number)) if single else number
    if math.isinf(number):
        raise WrongError("value_too_large", line, column)
    return number
