"""The end of a run: its last point certified from the data, what the end is called, and in a sentence."""

from __future__ import annotations

import functools
import math
import platform
import time
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox._runtime.deadline import TimeLimitError, end_now, finishing, interrupted, seconds_to_finish
from levelprox._runtime.plurals import counted
from levelprox.certificate import Certificate, assemble, certify, not_examined
from levelprox.exceptions import BackendError
from levelprox.methods.negligible import without_negligible
from levelprox.methods.surrogate import surrogate_used
from levelprox.objectives.declared import Declared
from levelprox.result import CUT_SHORT, Iterate, Result, Status
from levelprox.theory.approximate_kkt import nearby_kkt

if TYPE_CHECKING:
    from levelprox.driver.run import Run

Vector = NDArray[np.float64]

STILL = 10  # outer steps without any movement that make a stall
_EPS = float(np.finfo(np.float64).eps)
_ACCEPTABLE = 100  # a point within this factor of tol is "solved_inaccurate"
_NEARBY = 10.0  # seconds that the (ε, δ)-KKT statement may take; it rarely takes one
_GROUP = " The paper's surrogate is not defined where a feature has several coefficients: the group surrogate was used."
_CERTIFICATE = 0.25  # seconds that a certificate may always take


class Conclusion:
    """The end of one run.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.notes: list[str] = []  # what there was no time for

    def __call__(self, status: Status) -> Result:
        """Certify the last point from the data, name the outcome, warn where it is not what was asked for."""
        assert self.run.best is not None
        if not self.run.null.examined:
            return self._without_a_look(self.run.best, status)
        if status is Status.SOLVED:
            self._leave_out(self.run.best)
        certificate, stopped = self._certificate(self.run.best)
        status = Status.INTERRUPTED if stopped or interrupted() else status
        if status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            try:
                certificate = self._with_neighbour(self.run.best, certificate)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        self.run.note_phase("certificate")
        if status in (Status.SOLVED, Status.MAX_ITER, Status.STALLED):
            acceptable = max(_ACCEPTABLE * self.run.tol, 1e3 * _EPS) if self.run.tol > 0 else -math.inf
            if certificate.kkt <= self.run.tol:
                status = Status.SOLVED
            elif status is Status.SOLVED or certificate.kkt <= acceptable:
                status = Status.SOLVED_INACCURATE  # also where only the paper's milder rule was met
        separated = self._is_separated(self.run.best.x)
        message = " ".join([self._message(status, certificate), *self.notes])
        if status not in (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED):
            advice = f"{self.run.problem.objective.advice()} {self.run.degenerate_words()}".strip()
            message = f"{message} {advice}".rstrip()
            self.run.warn(message)
        if separated:
            self.run.warn(
                "the data are separable, or the loss gains for ever, by coefficients that cost nothing more as they "
                "grow: it has no minimiser within the level, and their size is set by tol or max_iter alone. Lower "
                "the level, or take a constraint without a cap."
            )
        return self.result(status, message, certificate)

    def _without_a_look(self, best: Iterate, status: Status) -> Result:
        """The result of a run without time for a single gradient."""
        certificate = not_examined(self.run.problem, best.x, best.psi)
        self.run.note_phase("certificate")
        steps = f"after {counted(self.run.n_outer, 'outer step')}"
        ended = f"Interrupted {steps}"
        if status is Status.TIME_LIMIT:
            ended = f"Stopped {steps}, time_limit {self.run.time_limit:g} s"
        message = (
            f"{ended}: there was no time to compute a gradient, and the KKT residual is not known; "
            f"g(x) = {certificate.g:.6g} <= level = {certificate.level:.6g}."
        )
        if status is Status.TIME_LIMIT:
            message += " Raise time_limit."
        message += self.run.journal.advice
        if status is Status.TIME_LIMIT:
            self.run.warn(message)
        return self.result(status, message, certificate)

    def _leave_out(self, best: Iterate) -> None:
        """Set coefficients that cannot be seen to zero, unless the paper's rule stops the run or ψ is sampled."""
        run, objective = self.run, self.run.problem.objective
        if run.stopping != "kkt" or run.subsolver.is_random(objective):
            return
        hint = None if best.kinks is None else best.kinks.slopes
        try:
            with suppress(Exception), finishing():  # should ψ fail, its certificate tells of that
                x, gradients = without_negligible(run.problem, best.x, run.tol, run.how(), hint)
                run.n_grad += gradients * objective.evaluation_cost
                if x is not best.x:
                    psi, gradient = objective.value_and_gradient(x)
                    run.best = replace(best, x=x, psi=psi, gradient=gradient, margins=None)
        except KeyboardInterrupt:
            end_now()

    def _certificate(self, best: Iterate) -> tuple[Certificate, bool]:
        """Recomputed from the data; what the run knew, should the objective fail, the time or Ctrl-C (True) end it.

        The scale is that of the null fit, a function of the problem alone, and is not computed twice.
        """
        try:
            hint = None if best.kinks is None else best.kinks.slopes
            seconds = max(min(_CERTIFICATE, seconds_to_finish()), self.run.left())
            with finishing():
                return certify(self.run.problem, best.x, self.run.null, hint=hint, seconds=seconds), False
        except (KeyboardInterrupt, Exception) as error:
            if isinstance(error, TimeLimitError):
                self.notes.append("The certificate is the run's own: there was no time to recompute it.")
            else:
                failed = f"recomputing it failed: {type(error).__name__}: {error}"
                self.run.warn(f"the certificate is the run's own; {failed}")
            if isinstance(error, KeyboardInterrupt):
                end_now()
            known = assemble(self.run.problem, best.x, best.psi, best.gradient, self.run.null)
            return known, isinstance(error, KeyboardInterrupt)

    def _with_neighbour(self, best: Iterate, certificate: Certificate) -> Certificate:
        """The certificate with the (ε, δ)-KKT statement of the last subproblem's solution, where x itself has none."""
        objective = self.run.problem.objective
        rough = not objective.smooth or self.run.subsolver.is_random(objective)
        if not rough or certificate.kkt <= self.run.tol or self.run.came_from is None:
            return certificate
        center, eta_k = self.run.came_from
        try:
            with finishing():
                near = nearby_kkt(
                    self.run.problem,
                    best.x,
                    center=center,
                    level=eta_k,
                    gamma=self.run.gamma,
                    surrogate=self.run.surrogate,
                    seconds=min(self.run.left(), _NEARBY),
                    rng=self.run.rng,
                )
        except TimeLimitError:
            self.notes.append("There was no time to look for an (ε, δ)-KKT statement.")
            return certificate
        except Exception as error:
            self.run.warn(f"no (ε, δ)-KKT statement; looking for one failed: {type(error).__name__}: {error}")
            return certificate
        if near.epsilon >= certificate.epsilon:
            return certificate
        return replace(certificate, near_epsilon=near.epsilon, near_delta=near.delta)

    def _is_separated(self, x: Vector) -> bool:
        """Whether ψ falls for ever along the part of x that is exempt or past its threshold."""
        free = self.run.problem.free(x)
        try:
            with finishing():
                return bool(np.any(free)) and self.run.problem.objective.is_separated(np.where(free, x, 0.0))
        except TimeLimitError:
            self.notes.append("There was no time to see whether the data are separable.")
            return False
        except BackendError as error:  # the answer is there, and certified
            self.run.warn(f"whether the data are separable was not looked at: {error}")
            return False

    def _message(self, status: Status, certificate: Certificate) -> str:
        relation = "<=" if certificate.kkt <= self.run.tol else ">"
        figures = (
            f"KKT {certificate.kkt:.1e} {relation} tol {self.run.tol:.1e}{_gain(certificate)}; "
            f"g(x) = {certificate.g:.6g} <= level = {certificate.level:.6g}"
        )
        if certificate.near_epsilon is not None:
            figures += f"; an (ε, δ)-KKT point with ε = {certificate.epsilon:.1e}, δ = {certificate.delta:.1e}"
        steps = f"after {counted(self.run.n_outer, 'outer step')}"
        nearly, remedy = "Nearly solved", "Raise max_iter or tol."
        if self.run.subsolver.is_random(self.run.problem.objective):
            remedy = "Raise max_iter or tol, or lower the noise: more steps or larger batches, a larger gamma."
        if self.run.stopping == "change" and self.run.history and self.run.history[-1].change <= self.run.tol:
            nearly, remedy = "x changes by less than tol", "Lower tol, or stop by the KKT residual."
        elif self.run.still >= STILL:
            remedy = "x no longer moves in float64."
        if self.run.parameters is not None:
            nearly = f"Ran the paper's method (k̂ of K = {self.run.parameters.K}, T = {self.run.parameters.steps})"
            remedy = "Raise max_iter, which is K."
        stopped = {
            Status.SOLVED: f"Solved {steps}: {figures}."
            + ("" if certificate.active else " The constraint is inactive."),
            Status.SOLVED_INACCURATE: f"{nearly} {steps}: {figures}. {remedy}",
            Status.MAX_ITER: f"Stopped {steps}, max_iter: {figures}. {remedy}"
            if self.run.parameters is None
            else f"{nearly} {steps}: {figures}. {remedy}",
            Status.TIME_LIMIT: f"Stopped {steps}, time_limit {self.run.time_limit:g} s: {figures}. Raise it or tol.",
            Status.INTERRUPTED: f"Interrupted {steps}: {figures}.",
            Status.CALLBACK_STOP: f"Stopped by the callback {steps}: {figures}.",
            Status.STALLED: f"Stalled {steps}: {figures}. {self._why_stalled()}",
            Status.DIVERGING: f"Diverging {steps}: {figures}. The loss has no minimiser within the level; lower it.",
        }
        group = _GROUP if self.run.parameters is not None and self.run.problem.width > 1 else ""
        return stopped[status] + group + (self.run.journal.advice if status in CUT_SHORT else "")

    def _why_stalled(self) -> str:
        objective = self.run.problem.objective
        if isinstance(objective, Declared) and not objective.smooth:
            return "No step lowers the loss. Beside a kink the residual at x itself says little: look at ε and δ."
        if isinstance(objective, Declared) and self.run.best is not None and self.run.best.stop == "no decrease":
            return "No step lowers the loss: the smoothness declared for it may be too small."
        return "x no longer moves in float64; raise tol, or scale the data."

    def result(self, status: Status, message: str, certificate: Certificate) -> Result:
        best = self.run.best
        assert best is not None
        return Result(
            x=best.x,
            status=status,
            message=message,
            certificate=certificate,
            history=tuple(self.run.history),
            n_outer=self.run.n_outer,
            n_inner=self.run.n_inner,
            n_grad=self.run.n_grad,
            n_proj=self.run.n_proj,
            wall_s=time.monotonic() - self.run.began,
            phase_s=dict(self.run.phase_s),
            gamma=self.run.gamma or 0.0,
            subsolver=self.run.subsolver.name,
            parameters=self.run.parameters,
            levels=type(self.run.levels).__name__.lower(),
            start="continuation" if self.run.continuation else "direct",
            stages=tuple(self.run.stages),
            tol=self.run.tol,
            random_state=self.run.random_state,
            warnings=tuple(self.run.warned),
            environment={**_environment(), "threads": str(_kernels.thread_count())},
            surrogate=surrogate_used(self.run.surrogate, self.run.problem.width),
            null=self.run.null,
        )


def _gain(certificate: Certificate) -> str:
    return "" if certificate.possible_gain is None else f", possible gain {certificate.possible_gain:.1e}"


@functools.cache
def _environment() -> dict[str, str]:
    versions = {
        "levelprox": metadata.version("levelprox"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return {"dtype": "float64", "backend": "cpu", **versions}
