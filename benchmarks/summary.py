"""PLACEHOLDER."""


def summary(rows):
    """Nothing yet."""
    return ""
