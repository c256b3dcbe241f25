"""Errors about data sets, with a message for the user."""

from __future__ import annotations


class DataError(Exception):
    """A data set cannot be had, or is not what it should be; the message says which, why, and what to do."""
