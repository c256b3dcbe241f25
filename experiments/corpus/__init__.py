"""Small deterministic fits, to compare two versions of the code: `python -m experiments.corpus record | compare`.

`record` runs every case and writes what it returned: coefficients to the bit, status, message, loss, counts, warnings,
errors. `compare` prints where two recordings differ. The cases use public names only, so that the same script runs on
code before and after a change of its inside.
"""
