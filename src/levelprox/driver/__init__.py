"""Limits, interrupts, callbacks, checkpoints, statuses and messages of every run."""
