"""The tests of levelprox."""
