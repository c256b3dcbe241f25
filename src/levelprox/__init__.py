"""levelprox."""
from levelprox.projection import project
