"""Docstrings of the public names: their sections, and that their examples print what they say."""

from __future__ import annotations

import dataclasses
import doctest
import enum
import importlib
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import levelprox

PACKAGES = ("constraints", "losses", "designs", "objectives", "subsolvers", "levels", "theory", "report")


def public_objects() -> dict[str, object]:
    """Return the public classes and functions by name."""
    found = {name: getattr(levelprox, name) for name in levelprox.__all__}
    for package in PACKAGES:
        module = getattr(levelprox, package)
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        ]
        found |= {f"{package}.{name}": getattr(module, name) for name in names if not name.startswith("_")}
    chosen: dict[str, object] = {}
    for name, value in found.items():
        if (inspect.isclass(value) or inspect.isfunction(value)) and value not in chosen.values():
            chosen[name] = value
    return chosen


def takes_parameters(value: object) -> bool:
    """Return whether a class or function is called with named parameters."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return False
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:  # an exception with the constructor of `Exception`
        return False
    return any(one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def missing_sections(value: object) -> Iterator[str]:
    """Yield the sections that the docstring of a public object lacks."""
    text = inspect.cleandoc(value.__doc__ or "")  # its own, not that of a base class
    lines = text.splitlines()
    sections = {title for title, line in pairwise(lines) if set(line) == {"-"}}
    fields = {"Parameters", "Attributes"} if dataclasses.is_dataclass(value) else {"Parameters"}
    if takes_parameters(value) and not fields & sections:
        yield "Parameters"
    if inspect.isfunction(value) and inspect.signature(value).return_annotation not in (None, "None"):
        yield from {"Returns"} - sections
    if ">>>" not in text:
        yield "Examples"


OBJECTS = public_objects()


@pytest.mark.parametrize("name", OBJECTS)
def test_sections(name):
    """Each public class and function documents parameters and result, and has an example."""
    assert not list(missing_sections(OBJECTS[name]))


def has_examples(text: str) -> bool:
    """Return whether a file has a line that doctest runs."""
    return any(">>> " in line and "+SKIP" not in line for line in text.splitlines())


def modules_with_examples() -> list[str]:
    """Return the modules of the package that have examples in docstrings."""
    root = Path(levelprox.__file__).parent
    files = [file for file in sorted(root.rglob("*.py")) if has_examples(file.read_text(encoding="utf-8"))]
    parts = [file.relative_to(root.parent).with_suffix("").parts for file in files]
    return [".".join(one for one in names if one != "__init__") for names in parts]


@pytest.mark.cpu_budget(5, "examples fit models")
@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_print_what_they_say(module):
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried > 0 and failed == 0
