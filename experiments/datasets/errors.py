"""What goes wrong with data sets, in a sentence for the person who asked for them."""

from __future__ import annotations


class DataError(Exception):
    """A data set cannot be had, or is not what it should be; the message says which, why, and what to do."""
