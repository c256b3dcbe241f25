"""Plain and compressed files as blocks: the same bytes, within the declared memory and ratio."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from levelprox import FileFormatError
from levelprox.io import libsvm_batches, opened, read_libsvm

TEXT = b"".join(b"%d %d:%.9f\n" % (i % 2, i % 50 + 1, i / 7) for i in range(3000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture(params=PACKERS)
def pack(request) -> Callable[[bytes], bytes]:
    return PACKERS[request.param]


def blocks_of(path: Path, **limits: int) -> bytes:
    return b"".join(block.tobytes() for block in opened.blocks(path, **limits))


@pytest.mark.parametrize("size", [6, 10, 1 << 20])  # the first block must hold the first bytes
def test_packed_files_are_known_by_their_first_bytes(tmp_path, monkeypatch, pack, size):
    monkeypatch.setattr(opened, "BLOCK", size)
    text = b"".join(TEXT.splitlines(keepends=True)[: 30 * size])
    path = tmp_path / "no ending says it"
    for packed in (pack(text), pack(text[:50]) + pack(text[50:]), pack(text) + b"\0" * 16, pack(b"") + pack(text)):
        path.write_bytes(packed)
        assert blocks_of(path) == text
    X, y = read_libsvm(path)
    plain = tmp_path / "plain"
    plain.write_bytes(text)
    assert (read_libsvm(plain)[0] != X).nnz == 0
    assert np.concatenate([b for _, b in libsvm_batches(path, 7, n_features=50)]).tobytes() == y.tobytes()


def test_no_block_is_longer_than_declared(tmp_path, monkeypatch, pack):
    path = tmp_path / "data"
    path.write_bytes(pack(TEXT))
    monkeypatch.setattr(opened, "BLOCK", 1000)
    assert max(block.size for block in opened.blocks(path)) <= 1000


def test_a_packed_file_cut_anywhere_is_an_error_that_says_so(tmp_path, pack):
    packed = pack(TEXT[:500])
    path = tmp_path / "data"
    for size in range(6, len(packed)):
        path.write_bytes(packed[:size])
        with pytest.raises(FileFormatError, match=r"data: the (gzip|bzip2|xz) data end too early, after \d+ bytes"):
            read_libsvm(path)


def test_damage_and_what_follows_are_errors(tmp_path, pack):
    packed = bytearray(pack(TEXT))
    path = tmp_path / "data"
    path.write_bytes(bytes(packed) + b"junk")
    with pytest.raises(FileFormatError, match=r"data (are damaged|end too early)"):
        read_libsvm(path)
    for place in range(20, len(packed) - 20, len(packed) // 20):
        packed[place] ^= 0x55
        path.write_bytes(packed)
        packed[place] ^= 0x55
        with pytest.raises(FileFormatError):
            blocks_of(path)


def test_bombs_end_at_the_declared_ratio_and_size(tmp_path, monkeypatch):
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b"#" * (80 << 20)))
    with pytest.raises(FileFormatError, match="bomb: unpacks to more than 1000 times its size, "):
        read_libsvm(path)
    path.write_bytes(lzma.compress(b"1\n" * (2 << 20), preset=0))  # rows, which every parser accepts
    with pytest.raises(FileFormatError, match="bomb: unpacks to more than max_bytes=1000000 bytes"):
        read_libsvm(path, max_bytes=10**6)
    monkeypatch.setattr(opened, "FREE", 1 << 20)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="1000 times"):
        read_libsvm(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * opened.BLOCK


def test_text_that_packs_well_is_no_bomb(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(opened, "FREE", 0)
    path = tmp_path / "data"
    path.write_bytes(pack(TEXT))
    assert blocks_of(path) == TEXT


def test_an_xz_file_that_asks_for_too_much_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(lzma.compress(TEXT))
    monkeypatch.setattr(opened, "_XZ_MEMORY", 1 << 20)
    with pytest.raises(FileFormatError, match="xz data are damaged: Memory usage limit"):
        read_libsvm(path)


def test_a_pipe_is_a_file(tmp_path):
    read, write = os.pipe()
    os.write(write, gzip.compress(b"1 1:1\n2 2:2\n"))
    os.close(write)
    try:
        assert read_libsvm(f"/dev/fd/{read}")[1].tolist() == [1, 2]
    finally:
        os.close(read)
