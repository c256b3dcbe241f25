"""Fuzzing of the readers of files: `make fuzz`."""
