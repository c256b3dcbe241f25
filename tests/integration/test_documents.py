"""Every code block of README.md and docs/*.md runs as it stands, with what is installed before it and no more.

The Python blocks of a page run one after another, in an empty folder; so do the lines of its shell blocks, except for
those that `documents.NOT_RUN` lists with a reason. Packages that no `pip install` line of the page has brought cannot
be imported, and warnings are errors. Blocks that need torch are left out where it is not installed.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.documents import NOT_RUN, PAGES, ROOT, Block, blocks_of, commands_of, optional_modules

BEGIN = f"""
import sys, warnings
missing = set()
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"{{name}} is not installed by a line before this block", name=name)
sys.meta_path.insert(0, NotInstalled())
sys.path.insert(0, {str(ROOT)!r})
for kind in (UserWarning, RuntimeWarning):
    warnings.simplefilter("error", kind)
"""

PYTHON = {page: [block for block in blocks_of(page) if block.language == "python"] for page in PAGES}
SHELL = {page: [block for block in blocks_of(page) if block.language == "sh"] for page in PAGES}


def ended(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder to its end."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "COLUMNS": "120"}
    environment.pop("LEVELPROX_DATA", None)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=170, check=False
    )


def program(blocks: list[Block]) -> str:
    """The Python blocks of a page as one script, each with what is installed by then."""
    parts = [BEGIN]
    for block in blocks:
        if "import torch" in block.code and importlib.util.find_spec("torch") is None:
            continue
        missing, place = sorted(optional_modules() - block.installed), f"{block.page}, line {block.line}"
        parts.append(f"missing = set({missing!r})\nexec(compile({block.code!r}, {place!r}, 'exec'))\n")
    return "".join(parts)


@pytest.mark.process
@pytest.mark.extended
@pytest.mark.cpu_budget(60, "all blocks of a page, in a process of its own")
@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON[page]])
def test_python_blocks_run(page, tmp_path):
    done = ended([sys.executable, "-c", program(PYTHON[page])], tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.process
@pytest.mark.extended
@pytest.mark.cpu_budget(60, "programs of their own")
@pytest.mark.parametrize("page", [page for page in PAGES if any(map(commands_of, SHELL[page]))])
def test_shell_blocks_run(page, tmp_path):
    lines = [line for block in SHELL[page] for line in commands_of(block)]
    done = ended([shutil.which("bash") or "bash", "-e", "-c", "\n".join(lines)], tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.process
@pytest.mark.extended
@pytest.mark.cpu_budget(60, "a process of its own")
def test_a_package_that_no_line_installs_is_missed(tmp_path):
    """The check itself: without its install line, README's first block lacks pandas."""
    first = replace(PYTHON["README.md"][0], installed=frozenset())
    done = ended([sys.executable, "-c", program([first])], tmp_path)
    assert done.returncode != 0 and "pandas" in done.stderr


def test_install_lines_and_their_packages():
    assert {"pandas", "polars", "matplotlib", "dask"} <= optional_modules()
    assert not {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl"} & optional_modules()
    first = PYTHON["README.md"][0]
    assert "pandas" in first.installed and "polars" not in first.installed
    assert {"dask", "distributed", "polars"} <= PYTHON["docs/scale.md"][0].installed


def test_every_block_is_code_that_runs_or_output():
    assert sum(map(len, PYTHON.values())) >= 15 and sum(map(len, SHELL.values())) >= 8
    for page in PAGES:
        for block in blocks_of(page):
            first = block.code.split(maxsplit=1)[0] if block.code.strip() else ""
            command = first in ("levelprox", "make", "python", "pip", "import", "from")
            assert block.language in ("python", "sh") or (block.language == "" and not command), (page, block.line)


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"])
def test_files_of_tests_that_are_named_exist(page):
    named = re.findall(r"\btests/[\w/]+\.\w+", (ROOT / page).read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert page != "docs/reliability.md" or len(named) > 50


def test_commands_that_are_not_run_exist_and_have_a_reason():
    lines = [line for blocks in SHELL.values() for block in blocks for line in block.code.splitlines()]
    for beginning, reason in NOT_RUN.items():
        assert reason and any(line.startswith(beginning) for line in lines), beginning
