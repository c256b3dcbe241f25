"""Models that are updated from batches of samples."""
