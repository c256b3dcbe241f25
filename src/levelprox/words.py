"""Numbers and nouns in messages."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """Return "1 feature", "2 features"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
