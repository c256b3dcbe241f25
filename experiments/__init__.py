"""The paper's claims and figures, measured: each module runs by `python -m experiments.<name> [--quick] [--out DIR]`."""
