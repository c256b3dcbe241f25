"""First-use calls and mistakes, and what each should do: the list that `python -m benchmarks.first_use` runs.

A case is a call that a new user makes in the first hour. It works, it warns, or it raises an error; then the message
must name the argument, the value and the remedy. `words` are parts of the text that must be there: of what is returned,
of the warnings, or of the error. Errors are `Exception`s of `kind`, and no case may warn unless it is said here.

    python -m benchmarks.first_use [--all]

prints the cases that do not do what is written here (`--all`: the text of each), and their number.
"""

from benchmarks.first_use.case import Case, run
from benchmarks.first_use.further import MORE
from benchmarks.first_use.working import WORKING
from benchmarks.first_use.wrong_data import DATA
from benchmarks.first_use.wrong_functions import FUNCTIONS
from benchmarks.first_use.wrong_parameters import PARAMETERS

__all__ = ["CASES", "Case", "run"]

CASES = (*WORKING, *DATA, *PARAMETERS, *FUNCTIONS, *MORE)
