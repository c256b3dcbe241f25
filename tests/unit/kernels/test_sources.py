"""The C++ sources: what may include what, and how enums cross to Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from levelprox.result import StopReason
from tests.support.registries import LOSSES

KERNELS = Path(__file__).parents[3] / "src" / "kernels"


@pytest.mark.parametrize("folder", ["algorithms", "simd"])
def test_algorithms_know_neither_nanobind_nor_python(folder):
    sources = sorted((KERNELS / folder).iterdir())
    assert sources
    for source in sources:
        included = re.findall(r"#\s*include\s*[<\"]([^>\"]+)", source.read_text())
        assert not [name for name in included if name.startswith(("nanobind", "Python", "bindings/"))], source
        assert not re.search(r"\bnanobind::|\bnb::|\bPy_?[A-Z]\w+", source.read_text()), source


def test_every_stop_reason_of_the_kernels_is_a_member_in_python():
    header = (KERNELS / "algorithms/stop_reason.hpp").read_text()
    declared = re.search(r"enum class StopReason \{(.*?)\};", header, re.S)
    table = re.findall(r'\{StopReason::(\w+), "(\w+)"\}', (KERNELS / "bindings/enums.cpp").read_text())
    assert declared is not None
    assert [name for name, _ in table] == re.findall(r"^\s*(\w+),", declared[1], re.M)
    for name, member in table:
        assert member == name.upper() and StopReason[member] == name.replace("_", " ")


def test_every_loss_of_the_kernels_has_the_name_of_its_class_in_python():
    declared = re.search(r"enum class LossKind \{(.*?)\};", (KERNELS / "algorithms/loss.hpp").read_text(), re.S)
    table = re.findall(r'\{LossKind::(\w+), "(\w+)"\}', (KERNELS / "bindings/enums.cpp").read_text())
    assert declared is not None
    assert [kind for kind, _ in table] == re.findall(r"^\s*(\w+),", declared[1], re.M)
    assert all(kind == name for kind, name in table)
    assert {name for _, name in table} >= {loss.kernel[0] for loss in LOSSES}
