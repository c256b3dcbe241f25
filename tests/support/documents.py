"""Code blocks of README.md and docs/*.md, and what is installed before each of them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement

from tests.support import ROOT

PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")))

#: Lines of shell blocks that are not run, by their beginnings, and why. All others are.
NOT_RUN = {
    "make demo": "tests/integration/test_package.py runs the demo",
    "make test": "it is what runs this",
    "make bench": "minutes to hours, in an environment of its own; tests/studies/test_benchmarks.py runs its parts",
    "make reproduce": "minutes to hours; tests/studies/test_reproduce.py runs its parts",
    "python -m benchmarks": "needs the peers of .venv-bench, minutes; tests/studies/test_benchmarks.py runs its parts",
    "python -m experiments reproduce": "minutes to hours; tests/studies/test_reproduce.py runs its parts",
    "python -m experiments data get": "needs a network",
    "python -m experiments data check": "needs what a network brings",
}


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes
    ----------
    page : str
    line : int
        Of its fence.
    language : str
        "python", "sh", or "" for output.
    code : str
    installed : frozenset of str
        Modules beyond the core that lines before it install; a shell block's own lines count.
    """

    page: str
    line: int
    language: str
    code: str
    installed: frozenset[str]


@cache
def optional_modules() -> frozenset[str]:
    """Modules of all packages that some extra brings and `pip install .` does not."""
    extras = _project()["optional-dependencies"]
    named = frozenset().union(*(_closure(line) for lines in extras.values() for line in lines))
    return named - _core()


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found, installed, at = [], frozenset[str](), 0
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        installed |= _installed_by(text[at : match.start()])
        language, code = match.groups()
        if language == "sh":
            installed |= _installed_by(code)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, language, code, installed))
        at = match.end()
    return found


def commands_of(block: Block) -> list[str]:
    """The lines of a shell block that are commands to run, without comments."""
    lines = [re.sub(r"\s+#.*$", "", line) for line in block.code.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "pip install", *NOT_RUN))]


def _installed_by(text: str) -> frozenset[str]:
    """Modules that the `pip install` lines of a text bring, beyond the core."""
    found = frozenset[str]()
    for line in re.findall(r"pip install ([^`#\n]+)", text):
        for word in line.replace("'", "").split():
            extras = re.match(r"(?:\.|levelprox)\[([\w,]+)\]$", word)
            if extras:
                wanted = [_project()["optional-dependencies"][extra] for extra in extras.group(1).split(",")]
                found = found.union(*(_closure(line) for lines in wanted for line in lines))
            elif re.fullmatch(r"[\w-]+", word) and word != "levelprox":
                found |= _closure(word)
    return found - _core()


@cache
def _project() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@cache
def _core() -> frozenset[str]:
    return frozenset().union(*map(_closure, _project()["dependencies"]))


@cache
def _closure(line: str) -> frozenset[str]:
    """Modules of a requirement and of all that it requires."""
    return frozenset(_modules(line, set()))


def _modules(line: str, seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    requirement = Requirement(line)
    name, extras = requirement.name.lower().replace("_", "-"), frozenset(requirement.extras)
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    found = {module for module, owners in _owners().items() if name in owners} or {name.replace("-", "_")}
    try:
        needs = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return found
    for need in needs:
        marker = Requirement(need).marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            found |= _modules(need, seen)
    return found


@cache
def _owners() -> dict[str, list[str]]:
    found = metadata.packages_distributions()
    return {module: [owner.lower().replace("_", "-") for owner in owners] for module, owners in found.items()}
