"""`python -m levelprox`: the command line."""

import sys

from levelprox.cli import main

sys.exit(main())
