"""What the tests run over: every constraint, loss, design and subsolver there is."""

from __future__ import annotations
