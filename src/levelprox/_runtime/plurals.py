"""Numbers and nouns in messages."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return "1 feature", "2 features"; `plural` is for nouns that take no s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
