"""The paper's claims and figures, measured: `python -m experiments.<name> [--quick] [--out DIR]` runs one of them."""
