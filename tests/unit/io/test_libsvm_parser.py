"""The LIBSVM parser accepts and rejects the same text as a slow implementation, in blocks of any size."""

from __future__ import annotations

import math
import random
import struct
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import _kernels
from tests.support import libsvm_twin
from tests.support.libsvm_cases import PIECES, SEEDS, cut, kernel, mutated, twin
from tests.support.long_runs import LONG

MANY = 1000 if LONG else 100

asked = st.tuples(st.sampled_from([3, 20, 10**9, 2**40]), st.booleans(), st.booleans())
texts = st.one_of(
    st.lists(st.sampled_from([*PIECES, b" ", b" ", b"\n", b"\n1 "]), max_size=30).map(b"".join),
    st.lists(st.sampled_from([b"%d" % k for k in range(256)] + [b":", b" ", b"\n", b"."]), max_size=60).map(b"".join),
    st.binary(max_size=60),
)


def test_the_twin_has_the_parser_s_limit():
    assert libsvm_twin.TOKEN_LIMIT == _kernels.LIBSVM_TOKEN_LIMIT


@settings(max_examples=5 * MANY)
@given(texts, asked, st.lists(st.integers(0, 10**6), max_size=5))
def test_any_text_in_any_pieces_is_what_the_twin_reads_or_refuses_at_the_same_place(text, asked, places):
    expected = twin(text, *asked)
    assert kernel([text], *asked) == expected
    assert kernel(cut(text, places), *asked) == expected


@pytest.mark.parametrize("asked", [(20, False, False), (2**40, True, True)])
def test_cuts_at_every_byte_change_nothing(asked):
    for text in SEEDS:
        assert kernel([text[k : k + 1] for k in range(len(text))], *asked) == twin(text, *asked)


def test_mutated_texts_neither_crash_nor_hang_nor_differ_from_the_twin():
    rng = random.Random(7)
    begin = time.process_time()
    for _ in range(200_000 if LONG else 1_500):
        text = mutated(rng, SEEDS)
        asked = rng.choice((3, 20, 10**9, 2**40)), rng.random() < 0.5, rng.random() < 0.5
        places = [rng.randrange(10**6) for _ in range(rng.randrange(5))]
        assert kernel(cut(text, places), *asked) == twin(text, *asked), (text, asked, places)
    assert time.process_time() - begin < (1200 if LONG else 120)


def values_read(words: list[str]) -> list[str]:
    row = "1 " + " ".join(f"{k}:{word}" for k, word in enumerate(words, 1))
    data = kernel([row.encode()], 10**9, False, False)[0]
    return [value.hex() for value in np.frombuffer(data).tolist()]


def test_values_have_the_bits_of_python_s_float():
    rng = random.Random(3)
    words = ["0", "-0", "0.0e5", "1e-323", "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400"]
    words += [
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "9007199254740993",
        "9007199254740992.5",
        "1e22",
        "1e23",
    ]
    words += [f"{m}e{e}" for m in (1, 3, 2**53 - 1, 2**53, 2**53 + 1, 10**19 - 1) for e in range(-30, 31)]
    for _ in range(20 * MANY):
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if math.isfinite(value):
            words += [repr(value), f"{value:.3g}", f"{value:.25e}"]
            if 1e-5 < abs(value) < 1e15:
                words.append(f"{value:.40f}")
        words.append(f"{rng.randrange(10**17)}e{rng.randrange(-25, 25)}")
        words.append(f"{rng.randrange(10**6)}.{rng.randrange(10**9)}")
        words.append(f"{rng.randrange(10 ** rng.randrange(1, 60))}E{rng.randrange(-80, 80):+d}")
    assert values_read(words) == [float(word).hex() for word in words]


def test_ties_between_two_floats_go_to_the_even_one():
    words = []
    for exponent in range(-60, 60):
        odd = Fraction(2**52 + 1) * Fraction(2) ** exponent
        tie = odd + Fraction(2) ** (exponent - 1)
        digits = tie.denominator.bit_length() - 1  # as many decimals as the power of two in the denominator
        scaled = tie.numerator * 5**digits
        exact = f"{scaled // 10**digits}.{scaled % 10**digits:0{max(digits, 1)}d}"
        assert Fraction(exact) == tie
        words += [exact, exact + "0000000000000000000001"]
    assert values_read(words) == [float(word).hex() for word in words]
