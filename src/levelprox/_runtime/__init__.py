"""Threads, time limits and rounding: what every layer uses of the machine."""
