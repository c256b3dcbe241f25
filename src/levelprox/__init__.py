"""levelprox."""
