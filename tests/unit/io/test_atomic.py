"""Atomic writes: a file is complete or absent, for any failure while it is written."""

from __future__ import annotations

import errno
import os
import resource
import threading
from pathlib import Path

import pytest

from levelprox.io import atomic
from tests.support import children

OLD, NEW = b"what was there before", [b"what is there", b" now"]


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "file"
    for parts in ([OLD], NEW, [], [memoryview(b"abc"), bytearray(b"d")]):
        atomic.write(path, parts)
        assert path.read_bytes() == b"".join(bytes(part) for part in parts)
    assert names(tmp_path) == ["file"]


def test_files_are_not_overwritten_where_that_is_forbidden(tmp_path):
    path = tmp_path / "file"
    atomic.write(path, NEW, overwrite=False)
    with pytest.raises(FileExistsError) as caught:
        atomic.write(path, [b"other"], overwrite=False)
    assert caught.value.filename == str(path) and caught.value.filename2 is None
    assert path.read_bytes() == b"".join(NEW) and names(tmp_path) == ["file"]


def test_nothing_is_replaced_where_names_cannot_be_linked(tmp_path, monkeypatch):
    def refused(*args, **options):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "file"
    atomic.write(path, NEW, overwrite=False)
    assert path.read_bytes() == b"".join(NEW)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # another one comes between
    with pytest.raises(FileExistsError):
        atomic.write(path, [b"other"], overwrite=False)
    assert path.read_bytes() == b"".join(NEW) and names(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["open", "fsync", "fdopen", "replace"])
def test_every_failure_leaves_the_old_file_alone(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def failing(*args, **options):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="broken") as caught:
        atomic.write(path, NEW)
    monkeypatch.undo()
    assert caught.value.filename == str(path)
    assert path.read_bytes() == OLD and names(tmp_path) == ["file"]


def test_ctrl_c_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def parts():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic.write(path, parts())
    assert path.read_bytes() == OLD and names(tmp_path) == ["file"]


@pytest.mark.process
def test_a_full_disk_leaves_the_old_file_alone(tmp_path):
    """A limit on the size of files stands for the disk: writing beyond it fails in the same place."""
    path = tmp_path / "file"
    path.write_bytes(OLD)
    script = (
        "import resource, signal, sys; from levelprox.io import atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: atomic.write(sys.argv[1], [bytes(5000)] * 10)\n"
        "except OSError as error: print(error.errno, error.filename)"
    )
    found = children.run(script, path)
    assert found.stdout == f"{errno.EFBIG} {path}\n", found.stderr
    assert path.read_bytes() == OLD and names(tmp_path) == ["file"]
    assert resource.RLIMIT_FSIZE is not None


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path):
    if os.geteuid() == 0:
        place = Path("/proc/levelprox")  # root may write anywhere else
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        place = tmp_path / "locked" / "file"
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one depends on who asks
        atomic.write(place, NEW)
    assert caught.value.filename == str(place) and str(place) in str(caught.value)


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_directory_that_is_gone_or_no_directory_is_named(tmp_path, overwrite):
    for place, kind in ((tmp_path / "gone" / "file", FileNotFoundError), (tmp_path / "a" / "file", NotADirectoryError)):
        (tmp_path / "a").write_bytes(OLD)
        with pytest.raises(kind) as caught:
            atomic.write(place, NEW, overwrite=overwrite)
        assert caught.value.filename == str(place)
    for place in (tmp_path, "", "."):
        with pytest.raises((IsADirectoryError, FileExistsError)):
            atomic.write(place, NEW, overwrite=overwrite)
    assert names(tmp_path) == ["a"]


def test_permissions_are_those_of_new_files_or_of_the_old_one(tmp_path):
    path = tmp_path / "file"
    before = os.umask(0o027)
    try:
        atomic.write(path, NEW)
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        atomic.write(path, NEW)
        assert path.stat().st_mode & 0o777 == 0o604
    finally:
        assert os.umask(before) == 0o027


def test_a_link_is_replaced_and_not_followed(tmp_path):
    other, link = tmp_path / "other", tmp_path / "link"
    other.write_bytes(OLD)
    link.symlink_to(other)
    atomic.write(link, NEW)
    assert other.read_bytes() == OLD and not link.is_symlink() and link.read_bytes() == b"".join(NEW)


def test_names_of_any_letters_and_length(tmp_path):
    for name in ("ä" * 120, "界" * 85, "-rf", "a\nb", "..x", "x" * 255):
        atomic.write(tmp_path / name, NEW)
        assert (tmp_path / name).read_bytes() == b"".join(NEW)
    assert len(names(tmp_path)) == 6


def test_of_many_writers_one_wins_and_is_whole(tmp_path):
    path, wholes = tmp_path / "file", [bytes([65 + i]) * 200_000 for i in range(8)]
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            if path.exists():
                seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    writers = [threading.Thread(target=atomic.write, args=(path, [whole[:9], whole[9:]])) for whole in wholes * 3]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert seen | {path.read_bytes()} <= set(wholes) and names(tmp_path) == ["file"]


def test_of_many_writers_that_must_not_overwrite_one_succeeds(tmp_path):
    path, outcomes = tmp_path / "file", []

    def write(whole: bytes):
        try:
            atomic.write(path, [whole], overwrite=False)
            outcomes.append(whole)
        except FileExistsError:
            outcomes.append(None)

    writers = [threading.Thread(target=write, args=(bytes([65 + i]) * 1000,)) for i in range(20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(outcomes) == 20
    assert [one for one in outcomes if one is not None] == [path.read_bytes()]
    assert names(tmp_path) == ["file"]


def test_the_file_that_is_replaced_can_be_kept(tmp_path):
    path, kept = tmp_path / "file", tmp_path / "before"
    atomic.write(path, [b"1"], keep=kept)
    assert names(tmp_path) == ["file"]
    for i in (2, 3):
        atomic.write(path, [b"%d" % i], keep=kept)
        assert kept.read_bytes() == b"%d" % (i - 1) and path.read_bytes() == b"%d" % i
    assert names(tmp_path) == ["before", "file"]
