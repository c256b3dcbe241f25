"""LIBSVM files: accepted and rejected text, error messages, batches, memory."""

from __future__ import annotations

import math
import os
import random
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from levelprox import FileFormatError, InvalidInputError, SparseClassifier, _kernels
from levelprox.io import libsvm, libsvm_batches, opened, read_libsvm
from tests.support import libsvm_twin
from tests.support.children import Child
from tests.support.libsvm_cases import PIECES, SEEDS, cut, kernel, mutated, twin
from tests.support.long_runs import LONG


def written(tmp_path: Path, text: bytes, name: str = "data.svm") -> Path:
    path = tmp_path / name
    path.write_bytes(text)
    return path


def lines_of(X: np.ndarray, y: np.ndarray) -> bytes:
    rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1) if v) for row in X.tolist())
    return "\n".join(f"{label!r} {row}" for label, row in zip(y.tolist(), rows, strict=True)).encode()


# --- what is read


def test_what_is_written_is_read_back_bit_by_bit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 30)) * 10.0 ** rng.integers(-300, 300, (40, 30))
    X[rng.random((40, 30)) < 0.7] = 0
    y = rng.standard_normal(40)
    path = written(tmp_path, lines_of(X, y))
    read, labels = read_libsvm(path, n_features=30)
    assert read.toarray().tobytes() == X.tobytes() and labels.tobytes() == y.tobytes()
    assert (read.indices.dtype, read.indptr.dtype, read.dtype) == (np.int32, np.int32, np.float64)
    assert read.has_canonical_format
    single, _ = read_libsvm(written(tmp_path, b"1 1:0.1 2:1e-50 3:16777217\n"), dtype=np.float32)
    assert single.dtype == np.float32
    assert single.toarray().tobytes() == np.array([0.1, 1e-50, 16777217]).astype(np.float32).tobytes()


def test_regular_files_are_read_as_scikit_learn_reads_them(tmp_path):
    path = written(tmp_path, b"# head\n+1 1:0.5 3:-2e-3 # one\r\n\r\n-1\n2.5\t2:1 \n0 qid:4 1:0 2:3")
    X, y = read_libsvm(path)
    other, labels = load_svmlight_file(str(path))
    np.testing.assert_array_equal(X.toarray(), other.toarray())
    np.testing.assert_array_equal(y, labels)
    assert X.nnz == other.nnz == 5  # a zero that is written is stored


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbf1 1:2\n-1 2:3\n", b"1 1:2\r\n-1 2:3\r\n", b"1 1:2\n-1 2:3", b"1 1:2#x\n#\n-1 2:3#\0"]
)
def test_byte_order_mark_carriage_returns_comments_and_a_missing_newline_change_nothing(tmp_path, text):
    X, y = read_libsvm(written(tmp_path, text))
    np.testing.assert_array_equal(X.toarray(), [[2, 0], [0, 3]])
    np.testing.assert_array_equal(y, [1, -1])


def test_zero_based_files(tmp_path):
    X, _ = read_libsvm(written(tmp_path, b"1 0:5 2:7\n"), zero_based=True)
    np.testing.assert_array_equal(X.toarray(), [[5, 0, 7]])
    with pytest.raises(FileFormatError, match=r"data.svm:1:3: the index in '2:7' is beyond n_features=2"):
        read_libsvm(written(tmp_path, b"1 2:7"), zero_based=True, n_features=2)


def test_rows_without_entries(tmp_path):
    X, y = read_libsvm(written(tmp_path, b"1\n2\n"))
    assert X.shape == (2, 0) and y.tolist() == [1, 2]
    assert read_libsvm(written(tmp_path, b"1\n2\n"), n_features=4)[0].shape == (2, 4)


def test_a_large_index_allocates_nothing_and_needs_a_declaration(tmp_path):
    path = written(tmp_path, b"1 4000000000:1\n")
    with pytest.raises(FileFormatError, match=r"data.svm:1:3: .*'4000000000:1' is beyond max_features=1000000000$"):
        read_libsvm(path)
    for declared in ({"n_features": 5 * 10**9}, {"max_features": 5 * 10**9}):
        X, _ = read_libsvm(path, **declared)
        assert X.indices.tolist() == [3999999999] and X.indices.dtype == X.indptr.dtype == np.int64
        assert X.shape == (1, declared.get("n_features", 4 * 10**9))
    X, _ = read_libsvm(written(tmp_path, b"1 1:1 2:2 4000000000:3\n2 1:4"), max_features=2**40)
    assert X.indices.tolist() == [0, 1, 3999999999, 0] and X.data.tolist() == [1, 2, 3, 4]


# --- errors

REFUSED = {
    b"": "1:1: no samples",
    b"# only\n\n  \n": "1:1: no samples",
    b"\xef\xbb\xbf": "1:1: no samples",
    b"1 1:1\nspam 1:1": "2:1: the label must be a number, got 'spam'",
    b"nan 1:1": "1:1: the label must be finite, got 'nan'",
    b"1e999 1:1": "1:1: the label must be finite, got '1e999'",
    b"1:1 2:1": "1:1: the line begins with '1:1', not with a label",
    b"1,2 1:1": "1:1: one label is needed, got '1,2'; files with several labels",
    b"1 3 4:1": "1:3: index:value is needed, got '3' without a colon",
    b"1 :5": "1:3: there is no index before the colon in ':5'",
    b"1 x:5": "1:3: the index must be a whole number, got 'x:5'",
    b"1 1.5:5": "1:3: the index must be a whole number, got '1.5:5'",
    b"1 -1:5": "1:3: the index must not be negative, got '-1:5'",
    b"1 0:5": "1:3: index 0 in '0:5', but indices count from 1; zero_based=True",
    b"1 9223372036854775809:5": "1:3: the index in '9223372036854775809:5' is beyond max_features",
    b"1 1:1 \t 3:1 2:1": "1:13: indices must ascend, got '2:1' behind index 3",
    b"1 1:1 1:2": "1:7: index 1 is there twice: '1:2'",
    b"1 7:": "1:5: there is no value behind the colon",
    b"1 7: 5": "1:5: there is no value behind the colon",
    b"1 7:nan": "1:5: the value must be finite, got 'nan'",
    b"1 7:-inf": "1:5: the value must be finite, got '-inf'",
    b"1 7:0x1p3": "1:5: the value must be a decimal number, got '0x1p3'",
    b"1 7:1e999": "1:5: the value '1e999' is larger than",
    b"1 7:1:2": "1:5: the value must be a decimal number, got '1:2'",
    b"1 7:1_0": "1:5: the value must be a decimal number, got '1_0'",
    b"1 qid:x 1:1": "1:7: qid: needs a whole number, got 'x'",
    b"1 1:1 qid:2": "1:7: the index must be a whole number, got 'qid:2'",
    b"1 1:1\r\n\0": r"2:1: the label must be a number, got '\x00'",
    b"\xef\xbb\xbf1 1:x": "1:5: the value must be a decimal number, got 'x'",
    b"1 1:\x1b[31m\x80": r"1:5: the value must be a decimal number, got '\x1b[31m\x80'",
    b"1 1:" + b"1" * 10**6: "1:3: no label and no index:value has more than 4096 bytes, got '1:1111",
    b"x" * 10**6: "1:1: no label and no index:value has more than 4096 bytes, got 'xxxx",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:20]))
def test_errors_name_file_line_and_column(tmp_path, text):
    path = written(tmp_path, text)
    for read in (read_libsvm, lambda path: list(libsvm_batches(path, 1, n_features=100))):
        with pytest.raises(FileFormatError) as caught:
            read(path)
        expected = REFUSED[text].replace("max_features", "max_features" if read is read_libsvm else "n_features")
        assert str(caught.value).startswith(f"{path}:{expected}")
        assert len(str(caught.value)) < len(str(path)) + 200 and str(caught.value).isprintable()


def test_every_fault_of_the_parser_has_its_words():
    faults = {found[0] for text in REFUSED if isinstance(found := twin(text, 10**9, False, False), tuple)}
    assert {fault for fault in faults if isinstance(fault, str)} == set(libsvm._FAULTS)


def test_an_index_beyond_the_declared_features_names_both(tmp_path):
    with pytest.raises(FileFormatError, match=r":2:3: the index in '7:1' is beyond n_features=6"):
        read_libsvm(written(tmp_path, b"1 6:1\n1 7:1"), n_features=6)


def test_what_float32_cannot_hold_is_refused_in_float32_only(tmp_path):
    path = written(tmp_path, b"1 1:1e39")
    assert read_libsvm(path)[0].data[0] == 1e39
    with pytest.raises(FileFormatError, match=r":1:5: the value '1e39' is larger"):
        read_libsvm(path, dtype=np.float32)


@pytest.mark.parametrize(
    "wrong", [{"dtype": int}, {"n_features": -1}, {"n_features": 2.0}, {"max_features": 0}, {"n_features": 2**60}]
)
def test_arguments_are_checked_before_the_file_is_opened(wrong):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        read_libsvm("not there", **wrong)
    with pytest.raises(InvalidInputError, match="rows"):
        libsvm_batches("not there", 0, n_features=3)


def test_files_that_cannot_be_opened_are_os_errors_with_their_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="not there"):
        read_libsvm(tmp_path / "not there")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        read_libsvm(tmp_path)
    path = written(tmp_path, b"1 1:1")
    path.chmod(0)
    if not os.access(path, os.R_OK):  # root may read everything
        with pytest.raises(PermissionError, match=r"data\.svm"):
            read_libsvm(path)


@pytest.mark.parametrize("name", [b"-n", b"a\nb", b"\xff\xfe", b"a:1:2", b"\x1b[31m", "ä".encode()])
def test_any_name_is_a_name_and_is_shown_without_control_characters(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), b"..", os.fsencode(tmp_path.name), name)
    Path(os.fsdecode(path)).write_bytes(b"1 1:1\n1 x")
    for named in (path, os.fsdecode(path), Path(os.fsdecode(path))):
        with pytest.raises(FileFormatError, match=r":2:3: ") as caught:
            read_libsvm(named)
        assert str(caught.value).isprintable()


# --- batches


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("rows", [1, 2, 7, 20, 1000])
def test_batches_are_slices_of_the_whole(tmp_path, monkeypatch, rows, block):
    monkeypatch.setattr(opened, "BLOCK", block)
    rng = np.random.default_rng(1)
    lines = [f"{i} " + " ".join(f"{j}:{rng.random()}" for j in range(1, 1 + i % 5)) + "\r\n# c\n" for i in range(20)]
    path = written(tmp_path, "".join(lines).encode()[:-3])
    X, y = read_libsvm(path, n_features=9)
    batches = list(libsvm_batches(path, rows, n_features=9))
    assert [len(b) for _, b in batches] == [min(rows, 20 - i) for i in range(0, 20, rows)]
    for i, (A, b) in zip(range(0, 20, rows), batches, strict=True):
        assert A.shape == (b.size, 9) and A.indices.dtype == X.indices.dtype
        assert (X[i : i + rows] != A).nnz == 0 and A.nnz == X[i : i + rows].nnz
        assert b.tobytes() == y[i : i + rows].tobytes()


def test_a_stream_of_batches_gives_partial_fit_the_bits_of_slices(tmp_path):
    rng = np.random.default_rng(2)
    X = np.where(rng.random((300, 12)) < 0.6, rng.standard_normal((300, 12)), 0)
    y = np.where(X[:, 0] - 2 * X[:, 3] + 0.3 * rng.standard_normal(300) > 0, 1, -1)
    path = written(tmp_path, lines_of(X, y))
    streamed, sliced = (SparseClassifier(n_features=3) for _ in range(2))
    for A, b in libsvm_batches(path, 64, n_features=12):
        streamed.partial_fit(A, b, classes=[-1, 1])
    whole, labels = read_libsvm(path)
    for i in range(0, 300, 64):
        sliced.partial_fit(whole[i : i + 64], labels[i : i + 64], classes=[-1, 1])
    for name in ("coef_", "intercept_"):
        assert getattr(streamed, name).tobytes() == getattr(sliced, name).tobytes()
    assert set(np.flatnonzero(streamed.coef_)) >= {0, 3}


def test_batches_before_an_error_have_been_yielded(tmp_path):
    batches = libsvm_batches(written(tmp_path, b"1 1:1\n2 1:1\n3 1:1\n4 1:x\n"), 2, n_features=1)
    assert next(batches)[1].tolist() == [1, 2]
    with pytest.raises(FileFormatError, match=r":4:5: "):
        next(batches)


# --- endless and large files


READING = """
import sys, time
from levelprox.io import read_libsvm
try:
    read_libsvm(sys.argv[1])
except KeyboardInterrupt:
    print(time.process_time())
"""


@pytest.mark.process
def test_ctrl_c_ends_the_reading_of_an_endless_pipe_within_a_second(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError), open(path, "wb", buffering=0) as pipe:
            while True:
                pipe.write(b"1 1:1 2:2 3:3\n" * 5000)

    with Child(READING, path) as child:
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        child.work(0.1)
        assert child.interrupt() < 1
    writer.join()


GROWTH = """
import numpy as np
from pathlib import Path
from levelprox import _kernels, FileFormatError
from levelprox.io import libsvm_batches, read_libsvm
def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
before = peak()
parser = _kernels.LibsvmParser(10, False, False)
parser.feed(np.frombuffer(b"1 1:1", np.uint8))
for byte in (b" ", b"#"):  # one line of 256 MB
    for _ in range(128):
        parser.feed(np.frombuffer(byte * 2**20, np.uint8))
parser.finish()
assert parser.trouble is None and parser.rows == 1
try:
    read_libsvm("line.svm")
except FileFormatError as error:
    assert "4096 bytes" in str(error)
for X, y in libsvm_batches("rows.svm", 1000, n_features=100_000):
    pass
print(peak() - before)
X, y = read_libsvm("rows.svm")
print(peak() - before)
print(sum(array.nbytes for array in (X.data, X.indices, X.indptr, y)))
"""


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.cpu_budget(2, "a process of its own, which imports the library")
def test_memory_is_what_is_returned_whatever_the_length_of_file_and_lines(tmp_path):
    os.truncate(written(tmp_path, b"1 1:1", "line.svm"), 1 << 30)  # the rest are NUL bytes
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(500):
        columns = 1 + np.cumsum(rng.integers(1, 1600, 60))
        lines.append("1 " + " ".join(f"{j}:{v:.6g}" for j, v in zip(columns, rng.random(60), strict=True)) + "\n")
    written(tmp_path, "".join(lines).encode() * 50, "rows.svm")
    child = subprocess.run([sys.executable, "-c", GROWTH], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    little, whole, csr = map(int, child.stdout.split())
    few = 12 << 20
    assert little < few and csr > 15e6 and whole < 1.1 * csr + few, child.stdout


# --- The LIBSVM parser accepts and rejects the same text as a slow implementation, in blocks of any size


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
