"""Threads, time limits and rounding, used by every layer."""
