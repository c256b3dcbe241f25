"""Fuzz every reader of files and say how far it got.

    python -m fuzz [--inputs 1000000] [--seed 1]

The exit status is 1 where a reader crashes, hangs, disagrees with its twin, raises anything but the named error, or
where a line or a branch of the compiled parser was not reached.
"""

from __future__ import annotations

import argparse
import sys
import traceback

from fuzz import container, libsvm, plain, unpacking


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--inputs", type=int, default=1_000_000, help="texts for the LIBSVM parser; a tenth for the others"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    share = {libsvm: 1, container: 10, plain: 10, unpacking: 50}
    failed = []
    for reader, part in share.items():
        try:
            reader.fuzz(arguments.inputs // part, arguments.seed)
        except Exception:
            traceback.print_exc()
            failed.append(reader.__name__)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
