"""What the tests run over: every constraint, loss, design and subsolver there is."""

from __future__ import annotations

from levelprox.losses import Absolute, Cauchy, Huber, Logistic, Squared

# Every loss, those with a parameter also away from its default.
LOSSES = [Squared(), Logistic(), Huber(), Huber(delta=0.03), Absolute(), Cauchy(), Cauchy(c=7.0)]
