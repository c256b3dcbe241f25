"""Fuzz every reader of files and say how far it got.

    python -m fuzz [--inputs 1000000] [--seed 1]

The exit status is 1 where a reader crashes, hangs, disagrees with its twin, raises anything but the named error, or
where a line or a branch of the compiled parser was not reached.
"""

from __future__ import annotations

import argparse

from fuzz import container, libsvm, plain, unpacking


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--inputs", type=int, default=1_000_000, help="texts for the LIBSVM parser; a tenth for the others"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    libsvm.fuzz(arguments.inputs, arguments.seed)
    container.fuzz(arguments.inputs // 10, arguments.seed)
    plain.fuzz(arguments.inputs // 10, arguments.seed)
    unpacking.fuzz(arguments.inputs // 50, arguments.seed)


if __name__ == "__main__":
    main()
