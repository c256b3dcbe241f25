"""Downloads from a server on loopback: cut, changed, damaged, pinned, and converted to the paper's form."""

from __future__ import annotations

import argparse
import bz2
import fcntl
import hashlib
import json
import socket

import numpy as np
import pytest

from experiments.datasets import NAMES, VARIABLE, DataError, Places, download, load, pins, source
from experiments.datasets.command import add_command
from experiments.datasets.originals import ORIGINALS, SIGNS, Original
from tests.support.file_server import serving

TRAIN = b"+1 1:0.5 4:1\n-1 2:2\n+1 1:1 3:-1\n-1 4:0.25\n"
TEST = b"-1 1:3\n+1 2:1\n"
TINY = {
    "rcv1.binary": Original("binary", ("a.bz2", "b.bz2"), (4, 2), 4, "37.5", SIGNS),
    "real-sim": Original("binary", ("r.bz2",), (3, 1), 4, "37.50", SIGNS, note="our split"),
    "mnist": Original(
        "multiclass", ("m.bz2", "m.t.bz2"), (3, 2), 5, "40", frozenset({0.0, 5.0}), columns=4, positive=5.0, unit=255.0
    ),
    "YearPredictionMSD": Original("regression", ("y.bz2", "y.t.bz2"), (3, 2), 2, "100", None, note="centred"),
}
FILES = {
    "binary/a.bz2": TRAIN,
    "binary/b.bz2": TEST,
    "binary/r.bz2": TRAIN,
    "multiclass/m.bz2": b"5 1:255 4:51\n0 2:255 3:1\n5 1:1 2:2\n",
    "multiclass/m.t.bz2": b"0 3:255\n5 1:1\n",
    "regression/y.bz2": b"2000 1:1 2:5\n2001 1:2 2:5\n2005 1:6 2:5\n",
    "regression/y.t.bz2": b"1999 1:3 2:6\n2002 1:4 2:5\n",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No folder of stand-ins, no proxy, and the tiny files in place of the large ones."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    for name, original in TINY.items():
        monkeypatch.setitem(ORIGINALS, name, original)


@pytest.fixture
def site():
    with serving() as site:
        site.files = {path: bz2.compress(text) for path, text in FILES.items()}
        yield site


@pytest.fixture
def data(capsys):
    """`python -m experiments data ...`: exit status, and what was printed to either stream."""

    def run(*arguments):
        parser = argparse.ArgumentParser()
        add_command(parser.add_subparsers())
        parsed = parser.parse_args(["data", *map(str, arguments)])
        status = parsed.handler(parsed)
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def get(data, site, tmp_path):
    """`data get NAME` from the site into tmp_path."""
    return lambda name="rcv1.binary": data("get", name, "--dir", tmp_path, "--base-url", site.url)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_a_download_is_checked_pinned_and_loaded(get, site, tmp_path, data):
    places = Places(tmp_path)
    assert source("rcv1.binary", places).kind == "generated"
    status, printed, _ = get()
    assert status == 0
    packed = site.files["binary/a.bz2"]
    pin = json.loads((tmp_path / "checksums.json").read_text())["a.bz2"]
    assert pin == {"sha256": sha256(packed), "bytes": len(packed), "url": f"{site.url}/binary/a.bz2"}
    assert f"a.bz2: downloaded, {len(packed)} bytes, SHA-256 {sha256(packed)}, now pinned" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"a.bz2", "b.bz2", "checksums.json", ".lock"}
    split = load("rcv1.binary", places)
    assert split.source.kind == "original" and split.source.label == "rcv1.binary" and split.source.note == ""
    np.testing.assert_array_equal(split.X.toarray(), [[0.5, 0, 0, 1], [0, 2, 0, 0], [1, 0, -1, 0], [0, 0, 0, 0.25]])
    np.testing.assert_array_equal(split.X_test.toarray(), [[3, 0, 0, 0], [0, 1, 0, 0]])
    assert split.b.tolist() == [1, -1, 1, -1] and split.b_test.tolist() == [-1, 1]

    before = len(site.asked)
    status, printed, _ = get()
    assert status == 0 and printed.count("there, as pinned") == 2 and len(site.asked) == before
    status, printed, _ = data("check", "--dir", tmp_path)
    assert status == 0 and printed.count("there, as pinned") == 2 and "r.bz2: not there" in printed
    status, printed, _ = data("list", "--dir", tmp_path)
    assert status == 0 and "rcv1.binary: original\n" in printed and "real-sim (generated substitute): gen" in printed


def test_originals_get_the_papers_form(get, tmp_path):
    assert all(get(name)[0] == 0 for name in ("real-sim", "mnist", "YearPredictionMSD"))
    places = Places(tmp_path)
    split = load("real-sim", places)
    assert split.X.shape == (3, 4) and split.X_test.shape == (1, 4) and split.source.note == "our split"
    both = np.vstack([split.X.toarray(), split.X_test.toarray()])
    assert sorted(both.sum(axis=1)) == [0, 0.25, 1.5, 2]
    split = load("mnist", places)
    np.testing.assert_allclose(split.X.toarray()[0], [1, 0, 0, 0.2, 0])
    assert split.b.tolist() == [1, -1, 1] and split.b_test.tolist() == [-1, 1] and split.X_test.shape == (2, 5)
    split = load("YearPredictionMSD", places)
    np.testing.assert_allclose(split.X[:, 0], np.array([-2, -1, 3]) / np.sqrt(14 / 3))
    np.testing.assert_allclose(split.X_test, [[0, 1], [1 / np.sqrt(14 / 3), 0]])
    np.testing.assert_allclose([*split.b, *split.b_test], [-2, -1, 3, -3, 0])


def test_a_cut_transfer_goes_on_where_it_was_cut(get, site, tmp_path):
    size = len(site.files["binary/a.bz2"])
    site.cut_after = 20
    status, _, error = get()
    assert status == 1 and f"got 20 of {size} bytes, the transfer was cut: run the same command again" in error
    assert (tmp_path / "a.bz2.part").stat().st_size == 20 and not (tmp_path / "a.bz2").exists()
    assert source("rcv1.binary", Places(tmp_path)).kind == "generated"
    get()
    assert site.asked[-2] == ("/sets/binary/a.bz2", "bytes=20-")
    assert (tmp_path / "a.bz2.part").stat().st_size == 40
    site.cut_after = None
    assert get()[0] == 0 and (tmp_path / "a.bz2").read_bytes() == site.files["binary/a.bz2"]


def test_a_server_that_falls_silent_is_not_waited_for(get, site, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PATIENCE", 0.1)
    site.cut_after, site.silent = 20, True
    try:
        status, _, error = get("real-sim")
    finally:
        site.enough.set()
    assert status == 1 and "got 20 of" in error and (tmp_path / "r.bz2.part").stat().st_size == 20


@pytest.mark.parametrize("redirects", [False, True])
def test_by_the_date_or_behind_a_redirection_it_goes_on_too(get, site, tmp_path, redirects):
    site.etag, site.changed, site.redirects = 'W/"1"', "Mon, 05 Jan 2015 00:00:00 GMT", redirects
    site.cut_after = 20
    get()
    get()
    assert (tmp_path / "a.bz2.part").stat().st_size == 40
    site.cut_after = None
    assert get()[0] == 0 and (tmp_path / "a.bz2").read_bytes() == site.files["binary/a.bz2"]


def _no_ranges(site):
    site.knows_ranges = False


def _no_validator(site):
    site.etag = None


def _elsewhere(site):
    site.begins_later = 1


def _other_file(site):
    site.etag = '"2"'


def _other_file_and_no_if_range(site):
    site.etag, site.heeds_if_range = '"2"', False


@pytest.mark.parametrize("otherwise", [_no_ranges, _no_validator, _elsewhere, _other_file, _other_file_and_no_if_range])
def test_where_it_cannot_go_on_it_begins_again(get, site, tmp_path, otherwise):
    if otherwise is _no_validator:
        otherwise(site)
    site.cut_after = 20
    get()
    site.cut_after = None
    otherwise(site)
    site.files["binary/a.bz2"] = bz2.compress(TRAIN.replace(b"0.25", b"0.5"))
    assert get()[0] == 0
    assert (tmp_path / "a.bz2").read_bytes() == site.files["binary/a.bz2"]


def test_a_part_from_elsewhere_is_not_gone_on_with(get, site, tmp_path, data):
    site.cut_after = 20
    get("real-sim")
    site.cut_after = None
    mirror = site.url.replace("/sets", "/mirror/sets")
    assert data("get", "real-sim", "--dir", tmp_path, "--base-url", mirror)[0] == 0
    assert site.asked[-1] == ("/mirror/sets/binary/r.bz2", None)


def test_a_part_that_is_longer_than_the_file_is_dropped(get, site, tmp_path):
    site.cut_after = 20
    get()
    site.cut_after = None
    whole, site.files["binary/a.bz2"] = site.files["binary/a.bz2"], b"short"
    status, _, error = get()
    assert status == 1 and "a.bz2 cannot be read" in error
    site.files["binary/a.bz2"] = whole
    assert get()[0] == 0


def test_a_server_that_does_not_say_the_length_is_believed_when_the_file_is_whole(get, site, tmp_path):
    site.says_length, site.cut_after = False, 20
    status, _, error = get()
    assert status == 1 and "the bzip2 data end too early" in error
    site.cut_after = None
    assert get()[0] == 0


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        (TRAIN + b"+1 1:1 2:1\n", "expected 4 rows, found 5"),
        (TRAIN.replace(b" 4:", b" 3:"), "expected 4 columns, found 3"),
        (TRAIN.replace(b"-1 4", b"2 4"), "expected the labels -1, 1, found -1, 1, 2"),
        (TRAIN.replace(b"2:2", b"1:1 2:2"), "expected 37.5 % nonzeros, found 43.75 %"),
        (TRAIN.replace(b"4:1", b"5:1"), "is beyond n_features=4"),
        (b"<html>Not found</html>\n", "the label must be a number"),
    ],
)
def test_what_is_not_the_file_of_the_paper_gets_neither_name_nor_pin(get, site, tmp_path, text, trouble):
    site.files["binary/a.bz2"] = bz2.compress(text)
    status, _, error = get()
    assert status == 1 and trouble in error and "a.bz2.rejected" in error
    assert "a.bz2" not in pins.read(tmp_path) and not (tmp_path / "a.bz2").exists()
    assert "b.bz2" in pins.read(tmp_path)  # the other files were processed
    site.files["binary/a.bz2"] = bz2.compress(TRAIN)
    assert get()[0] == 0


def test_other_bytes_than_the_pinned_ones_are_an_error_everywhere(get, site, tmp_path, data):
    get()
    path, places = tmp_path / "a.bz2", Places(tmp_path)
    good = path.read_bytes()
    bad = bz2.compress(TRAIN.replace(b"0.25", b"0.26"))
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    path.write_bytes(damaged)
    both = (sha256(good), sha256(damaged), "remove the file to download it again", "checksums.json")
    with pytest.raises(DataError) as caught:
        load("rcv1.binary", places)
    for status, message in ((1, str(caught.value)), get()[::2], data("check", "--dir", tmp_path)[::2]):
        assert status == 1 and all(part in message for part in both)
    path.write_bytes(good[:-1])
    with pytest.raises(DataError, match=f"has {len(good) - 1} bytes, and had {len(good)} when it was pinned"):
        source("rcv1.binary", places)

    path.unlink()
    site.files["binary/a.bz2"] = bad
    status, _, error = get()
    assert status == 1 and sha256(good) in error and sha256(bad) in error and "remove the entry of a.bz2" in error
    assert not path.exists() and pins.read(tmp_path)["a.bz2"].sha256 == sha256(good)
    site.files["binary/a.bz2"] = good
    status, printed, _ = get()
    assert status == 0 and "as pinned before" in printed


def test_a_file_without_a_pin_is_checked_and_pinned_where_it_is(get, site, tmp_path):
    for name in ("a.bz2", "b.bz2"):
        (tmp_path / name).write_bytes(site.files[f"binary/{name}"])
    with pytest.raises(DataError, match=r"a\.bz2 has no checksum in checksums\.json: .*without a download"):
        load("rcv1.binary", Places(tmp_path))
    (tmp_path / "r.bz2").write_bytes(bz2.compress(TEST))
    status, _, error = get("real-sim")
    assert status == 1 and "expected 4 rows, found 2" in error and "r.bz2" not in pins.read(tmp_path)
    status, printed, _ = get()
    assert status == 0 and printed.count("was there, now pinned") == 2 and not site.asked
    assert load("rcv1.binary", Places(tmp_path)).source.kind == "original"
    (tmp_path / "checksums.json").write_text("[1]")
    with pytest.raises(DataError, match=r"checksums\.json is no list of checksums"):
        source("rcv1.binary", Places(tmp_path))


def test_trouble_on_the_way_is_told_without_a_traceback(get, site, tmp_path, data, monkeypatch):
    del site.files["binary/a.bz2"]
    status, _, error = get()
    assert status == 1 and f"{site.url}/binary/a.bz2: the server answers 404 Not Found" in error

    def elsewhere(url):
        return data("get", "real-sim", "--dir", tmp_path, "--base-url", url)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and no process listens
        status, _, error = elsewhere(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert status == 1 and "no connection" in error and "refused" in error
    for url, message in (("file:///etc", "only http and https are known"), ("http://[::1", "Invalid IPv6 URL")):
        status, _, error = elsewhere(url)
        assert status == 1 and message in error

    def unknown(*arguments, **named):
        raise socket.gaierror(-2, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        status, _, error = elsewhere("http://nowhere.invalid")
    assert status == 1 and "no connection" in error and "Name or service not known" in error

    (tmp_path / "r.bz2.part").symlink_to("/dev/full")
    status, _, error = get("real-sim")
    assert status == 1 and "No space left on device; what has come is kept: run the same command again" in error

    (tmp_path / "file").touch()
    status, _, error = data("get", "mnist", "--dir", tmp_path / "file" / "below")
    assert status == 1 and "cannot be written to: Not a directory" in error
    status, _, error = data("check", "--dir", tmp_path / "missing")
    assert status == 1 and "no folder" in error
    with (tmp_path / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, _, error = get()
    assert status == 1 and f"another `data get` is at work in {tmp_path}" in error


def test_ctrl_c_says_how_to_go_on(get, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "fetch", stop)
    status, _, error = get()
    assert status == 130 and "run the same command again to resume" in error


def test_an_unknown_name_is_told_before_anything_is_made(data, tmp_path):
    status, _, error = data("get", "realsim", "--dir", tmp_path / "new")
    assert status == 1 and "did you mean real-sim?" in error and all(name in error for name in NAMES)
    assert not (tmp_path / "new").exists()
