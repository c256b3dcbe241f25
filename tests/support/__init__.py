"""What several test files share: data, reference implementations, registries, child processes."""

from __future__ import annotations

from pathlib import Path

#: The repository.
ROOT = Path(__file__).parents[2]
#: Model files and checkpoints of earlier versions.
FIXTURES = ROOT / "tests" / "fixtures"
