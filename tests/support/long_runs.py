"""Whether tests run in their long versions: the option ``--long`` of pytest.

conftest.py sets `LONG` before any test file is imported. Import it with ``from``: parameters of tests depend on it.
"""

from __future__ import annotations

#: More examples, seeds and cases of randomised tests: `make test-long`, `make test-faults`.
LONG = False
