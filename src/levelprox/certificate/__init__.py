"""KKT residuals, the possible gain in loss, degenerate levels, and the null model that sets their scale."""

from levelprox.certificate._certify import Certificate, assemble, certify, not_examined

__all__ = ["Certificate", "assemble", "certify", "not_examined"]
