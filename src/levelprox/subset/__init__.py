"""At most k features: refits, swaps, searches."""
