"""Threads and time limits, used by every layer."""
