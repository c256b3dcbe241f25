"""Readers of files under texts and bytes that nobody would write: `make fuzz`."""
