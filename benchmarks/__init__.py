"""Ratios measured in the same run, against other programs (`python -m benchmarks`) and against earlier kernels."""
