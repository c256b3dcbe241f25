"""The slow, obvious twin of every compiled kernel. Nothing here is clever on purpose."""

from __future__ import annotations
