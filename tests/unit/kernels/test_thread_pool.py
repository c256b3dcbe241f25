"""The pool of threads by itself: `pool.cpp`, as it is and under ThreadSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

HERE = Path(__file__).parent
KERNELS = ROOT / "src/kernels"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not COMPILER or not hasattr(os, "fork"), reason="no compiler, or no fork"),
]


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMPILER), "-std=c++20", "-Wall", "-Wextra", "-pthread", *options, f"-I{KERNELS}"]
    return subprocess.run(
        [*command, HERE / "pool.cpp", KERNELS / "algorithms/threads.cpp", "-o", folder / "pool"],
        capture_output=True,
        text=True,
    )


def run(folder: Path, *arguments: str) -> list[str]:
    """The cases that held; all of them, or the test fails."""
    out = subprocess.run([folder / "pool", *arguments], capture_output=True, text=True, timeout=150)
    assert out.returncode == 0, out.stdout + out.stderr
    assert out.stderr == ""
    return out.stdout.split()


@pytest.mark.cpu_budget(3, "the compiler")
def test_the_pool(tmp_path):
    built = build(tmp_path)
    assert built.returncode == 0 and built.stderr == ""
    cases = run(tmp_path)
    assert len(cases) == 9
    assert cases[-1] == "a_forked_child_has_threads_of_its_own_if_it_asks"


@pytest.mark.extended
def test_the_pool_under_thread_sanitizer(tmp_path):
    if build(tmp_path, "-g", "-O1", "-fsanitize=thread").returncode != 0:
        pytest.skip("no ThreadSanitizer")
    assert len(run(tmp_path, "no-fork")) == 8  # its runtime has no threads after a fork


@pytest.mark.extended
def test_the_pool_under_address_sanitizer(tmp_path):
    if build(tmp_path, "-g", "-O1", "-fsanitize=address,undefined").returncode != 0:
        pytest.skip("no AddressSanitizer")
    assert len(run(tmp_path)) == 9
