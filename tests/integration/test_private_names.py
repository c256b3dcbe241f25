"""A name with a leading underscore is used only inside the package of levelprox that defines it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import levelprox

ROOT = Path(levelprox.__file__).parent


def package_of(path: Path) -> str:
    """Return the package of a file: the first folder below levelprox, or the module itself at the top level."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def private_definitions(tree: ast.Module) -> set[str]:
    """Return the private names that a module defines: functions, classes, variables, fields and attributes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            names.add(node.attr)
    return {name for name in names if is_private(name)}


def is_own(receiver: ast.expr) -> bool:
    """Return whether an attribute is one of self, cls or super()."""
    if isinstance(receiver, ast.Call):
        return isinstance(receiver.func, ast.Name) and receiver.func.id == "super"
    return isinstance(receiver, ast.Name) and receiver.id in ("self", "cls")


def imported_private_names(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield private modules and names that are imported from other packages.

    The private modules at the top level (`_typing`, `_validation`, `_kernels`, ...) belong to the whole of levelprox.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            assert not node.level, "imports are absolute"
            modules = [[*node.module.split("."), alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for first, *rest in modules:
            if first == "levelprox" and rest and rest[0] != package:
                yield from filter(is_private, rest[1:])


def used_private_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield private attributes of anything but self, cls and super()."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            yield node.attr


def test_no_private_name_of_another_package_is_used() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    defined: dict[str, set[str]] = {}
    for path, tree in trees.items():
        defined.setdefault(package_of(path), set()).update(private_definitions(tree))
    found: dict[tuple[str, str], str] = {}
    for path, tree in trees.items():
        package = package_of(path)
        elsewhere = set().union(*(names for other, names in defined.items() if other != package))
        foreign = {name for name in used_private_attributes(tree) if name in elsewhere - defined[package]}
        for name in (*foreign, *imported_private_names(tree, package)):
            found[package, name] = str(path.relative_to(ROOT))
    uses = {f"{place}: {name}" for (_, name), place in found.items()}
    assert not uses, f"private names of other packages are used: {sorted(uses)}"


def test_the_package_itself_is_imported_only_by_the_command_line() -> None:
    """Import-linter does not follow names that `levelprox` imports at first use, so only the top layer uses them."""
    files = [path.relative_to(ROOT).with_suffix("") for path in ROOT.rglob("*.py")]
    modules = {str(path.parent if path.name == "__init__" else path).replace("/", ".") for path in files}
    for path in sorted(ROOT.rglob("*.py")):
        if package_of(path) in ("cli", "__init__"):  # the front end may use all public names
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "levelprox":
                names = {alias.name for alias in node.names} - modules
                assert not names, f"{path.relative_to(ROOT)}: {names}"
            elif isinstance(node, ast.Import):
                assert "levelprox" not in [alias.name for alias in node.names], path
