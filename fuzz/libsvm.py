"""The LIBSVM parser: fuzzed on its own under sanitizers, measured by gcov, and held against its twin in Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.support.libsvm_cases import PIECES, SEEDS, kernel, twin

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "src/kernels"
FOLDER = ROOT / "build/fuzz/libsvm"
MEASURED = ("libsvm.cpp", "libsvm.hpp", "decimal.hpp")
_COMPILER = os.environ.get("CXX", "g++")
_STRICT = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def fuzz(inputs: int, seed: int) -> None:
    """So many mutated texts; then coverage and twin on all that reached something new."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    _write("seeds", SEEDS)
    _write("pieces", PIECES)
    fuzzer = _built("fuzz", [*_STRICT, "-fsanitize-coverage=trace-pc"], _STRICT)
    limits = {"ASAN_OPTIONS": "hard_rss_limit_mb=2048", "UBSAN_OPTIONS": "print_stacktrace=1"}
    begin = time.perf_counter()
    said = _run([fuzzer, "fuzz", FOLDER, str(inputs), str(seed)], env={**os.environ, **limits})
    seconds = time.perf_counter() - begin
    found = json.loads(said)
    print(
        f"libsvm: {found['inputs']} inputs in {seconds:.0f} s, "
        f"{found['edges']} edges, corpus of {found['corpus']} texts"
    )
    print("libsvm: each read at once, in pieces and in batches, under AddressSanitizer and UndefinedBehaviorSanitizer")
    _measure()
    _compare()


def _measure() -> None:
    """Which lines and branches of the parser the corpus reaches."""
    replay = _built("replay", ["-std=c++20", "-O0", "--coverage"], ["-std=c++20", "-O1"])
    _run([replay, "replay", FOLDER])
    gcov = ["gcov", "--json-format", "--branch-probabilities", "--stdout", "replay-parser.o"]
    files = {Path(file["file"]).name: file["lines"] for file in json.loads(_run(gcov))["files"]}
    lines = [(name, line) for name in MEASURED for line in files[name]]
    # Branches to what happens on an exception are the compiler's, not the parser's.
    branches = [(name, line, b) for name, line in lines for b in line["branches"] if not b["throw"]]
    missed = {f"{name}:{line['line_number']}" for name, line in lines if not line["count"]}
    missed |= {f"{name}:{line['line_number']}" for name, line, branch in branches if not branch["count"]}
    print(
        f"libsvm: {len(lines)} lines and {len(branches)} branches of {', '.join(MEASURED)}, not reached: {len(missed)}"
    )
    if missed:
        raise AssertionError("not reached, or only one way: " + ", ".join(sorted(missed)))


def _compare() -> None:
    texts = [path.read_bytes() for path in sorted((FOLDER / "corpus").iterdir())]
    settings = [(features, zero, single) for features in (3, 20, 2**40) for zero in (0, 1) for single in (0, 1)]
    for text in texts:
        for features, zero_based, single in settings:
            asked = features, bool(zero_based), bool(single)
            if kernel([text], *asked) != twin(text, *asked):
                raise AssertionError(f"libsvm: parser and twin disagree on {text[:200]!r} with {asked}")
    print(f"libsvm: {len(texts) * len(settings)} readings of the corpus agree with the twin in Python")


def _write(name: str, texts: list[bytes]) -> None:
    (FOLDER / name).mkdir(parents=True)
    for number, text in enumerate(texts):
        (FOLDER / name / f"{number:04d}").write_bytes(text)


def _built(name: str, parser_flags: list[str], driver_flags: list[str]) -> Path:
    parser, program = FOLDER / f"{name}-parser.o", FOLDER / name
    _run([_COMPILER, *parser_flags, f"-I{KERNELS}", "-c", KERNELS / "algorithms/libsvm.cpp", "-o", parser])
    linked = ["--coverage"] if "--coverage" in parser_flags else []
    driver = FOLDER / f"{name}-driver.o"
    _run([_COMPILER, *driver_flags, f"-I{KERNELS}", "-c", ROOT / "fuzz/libsvm.cpp", "-o", driver])
    _run([_COMPILER, *driver_flags, *linked, driver, parser, "-o", program])
    return program


def _run(command: list[str | Path], **more: object) -> str:
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise AssertionError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-5000:]}")
    return str(done.stdout)
