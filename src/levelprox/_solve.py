"""solve() and minimize(): check the arguments and call the driver."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._runtime import limited, one_blas_thread
from levelprox._typing import RandomState, Vector
from levelprox._validation import did_you_mean, generator, of_a_model
from levelprox._validation import nonnegative as at_least_zero
from levelprox.constraints import Constraint
from levelprox.driver import drive
from levelprox.driver.checkpoint import SavedState
from levelprox.driver.run_identity import identity_of
from levelprox.exceptions import InvalidInputError
from levelprox.io.checkpoint import Checkpoint
from levelprox.methods import Limits
from levelprox.methods.lcpp import Levels
from levelprox.methods.level_method import LevelMethod
from levelprox.methods.level_options import LevelOptions
from levelprox.methods.subsolvers import SUBSOLVERS, Subsolver
from levelprox.objectives import Function, Model
from levelprox.objectives.user import ValueAndGradient
from levelprox.problem import Problem
from levelprox.result import Record, Result

Callback = Callable[[Record, Vector], "bool | None"]


@of_a_model(
    "a Problem",
    "solve(Problem(LinearModel(X, y), MCP.from_threshold(0.5), level)); or SparseRegressor(level=level).fit(X, y) and "
    "SparseClassifier(level=level).fit(X, y), which take arrays",
)
def solve(
    problem: Problem,
    *,
    subsolver: str | Subsolver = "auto",
    levels: str | Levels = "constant",
    gamma: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    start: str = "auto",
    x0: ArrayLike | None = None,
    random_state: RandomState = None,
    surrogate: str = "auto",
    working_set: bool | None = None,
    stopping: str = "kkt",
    preset: str | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | SavedState | None = None,
    resume: bool | str | os.PathLike[str] = False,
    **unknown: object,
) -> Result:
    """Minimise ψ(x) subject to g(x) ≤ η by LCPP, and certify the result.

    The returned x satisfies the level for every reason of stopping: convergence, a limit, Ctrl-C or the callback. If
    the run is solved, features that tol cannot distinguish from zero are removed before x is certified: as many as
    leave ψ within 1e-2 tol of the gain of all features, and the KKT residual within tol.

    Parameters
    ----------
    problem : Problem
        ψ, φ and η.
    subsolver : str or Subsolver, default="auto"
        One of "auto", "newton", "spectral", "smoothing", "nesterov", "acsa", "svrg", "sgd": how subproblems are solved.
        "auto" chooses the first that supports the objective: "newton" for models of smooth losses, "spectral" for other
        differentiable ψ and for levels that allow more than 1000 features, "smoothing" for linear models with kinks,
        "acsa" for all others.
    levels : {"constant", "geometric", "harmonic"} or Levels, default="constant"
        The schedule η_k. "harmonic" is the paper's; `Harmonic(eta0=…)` sets its start. Different schedules may end at
        different KKT points; "constant" is the fastest.
    gamma : float, optional
        The proximal weight γ, above the weak-convexity constant μ of ψ. The default is γ = 3μ for nonconvex ψ (as in
        the paper) and 1e-3 · c for convex ψ, where c is a typical curvature of ψ: sup ℓ'' (a typical ℓ'' if that is
        infinite) times the mean over the columns of Σ s_i X_ij² / Σ s_i. If "spectral" and "smoothing" work on columns
        of very different sizes u_j and convex ψ, the proximal term is γ/2 Σ u_j² (x_j − x_j^{k−1})².
    tol : float, default=1e-6
        Tolerance of the KKT residual: that of each feature in units of its column, relative to the null fit (see
        `Certificate.kkt`).
    max_iter : int, default=1000
        Largest number of outer steps.
    time_limit : float, optional
        Wall-clock time in seconds. The run ends at most max(1 s, 5 % of it) later, unless a single evaluation of a ψ
        written in Python, or a callback, takes longer. If there is no time for a single gradient, the null fit is
        returned with a certificate that says so (`Certificate.examined`). Ctrl-C ends a run in the same way.
    callback : callable, optional
        Called as callback(record, x) after each outer step; returning True stops the run.
    start : {"auto", "continuation", "direct"}, default="auto"
        "direct" starts from the null fit. "continuation" also solves the problem through a sequence of rescaled
        problems, the first of which has an almost linear φ and a solution that does not depend on the start, and
        continues from the lower of both results: a few times the work, and often a far better KKT point. "auto" is
        "continuation" for nonconvex constraints, except with `x0`, increasing levels, the paper's stopping rule, a
        subsolver that samples, or many classes (more than 50, with ten features or more), for which it is "direct". For
        nonconvex losses ("cauchy", "sigmoid"), all except "direct" first solve the problem with a convex loss
        (`Loss.convex_start`), and start there if this gives a lower ψ than the null fit.
    x0 : array-like of shape (d,), optional
        A feasible start. The default is the null fit: zero, except for unpenalized coordinates, which are fitted.
    random_state : int, RandomState, Generator or None
        For stochastic subsolvers, and k̂ of the preset: the same seed gives the same bits for any number of threads.
    surrogate : {"auto", "paper", "concave"}, default="auto"
        How g is replaced by a convex function: by linearising h (the paper's), or by majorising the concave φ, which
        gives a larger convex set if a coefficient changes sign. "auto" is "concave" for "newton" and for features with
        several coefficients, otherwise "paper". `Result.surrogate` is the one that was used.
    working_set : bool, optional
        Whether to solve over a few features at a time, with full gradient passes only to choose the next features. The
        default is True for "newton"; every subsolver that uses all of a differentiable ψ supports it.
    stopping : {"kkt", "change"}, default="kkt"
        "kkt": stop if the residual of the certificate is at most tol. "change": the paper's rule,
        ‖x^k − x^{k−1}‖ ≤ tol ‖x^k‖.
    preset : {"paper"}, optional
        "paper" runs the method under the assumptions of the paper's complexity theorem and its corollaries: levels η_k
        = (kη + η_0)/(k+1), the paper's surrogate, AC-SA with T_k steps, γ = 3μ (or L/10 for convex ψ, or `gamma`), K =
        `max_iter` fixed in advance, and the result x^k̂ with k̂ drawn from {⌊(K+1)/2⌋, …, K}. It determines `levels`,
        `surrogate` and `stopping`; `subsolver` may be an `ACSA` without steps. See `theory` for the bounds. The paper
        has no surrogate for features with several coefficients, as for several classes: the group surrogate is used,
        and `Result.message` says so.
    checkpoint : path-like or Checkpoint, optional
        File for the state of the run. It is written every minute (or as set by `Checkpoint`), and when the run ends for
        any reason, Ctrl-C and SIGTERM included. See docs/checkpoints.md.
    resume : bool or path-like, default=False
        Whether to resume from the state in `checkpoint`, if there is one; or a path to resume from another file. The
        run then ends with the same bits as an uninterrupted one. `max_iter`, `time_limit` and `callback` may change;
        `max_iter` counts the steps of all calls, `time_limit` applies to each call.

    Returns
    -------
    Result
        x, its certificate, the status and the history.

    Raises
    ------
    InvalidInputError, InfeasibleError
        Before any work is done.
    CheckpointError
        Before any work is done, if the state cannot be written, or not be resumed: other data, other options.
    NumericalError
        If ψ raises an exception or is not finite; its `result` has the last finite point.

    Warns
    -----
    ConvergenceWarning
        If the run ended without reaching tol, except by Ctrl-C or the callback: with the residual, tol and the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> problem = Problem(LinearModel(X, X[:, 3] - 2 * X[:, 7]), constraints.MCP.from_threshold(0.1), 2.5)
    >>> result = solve(problem)
    >>> str(result.status), np.flatnonzero(result.x).tolist(), result.g <= 2.5
    ('solved', [3, 7], True)
    """
    if unknown:
        raise TypeError(_unknown_option(next(iter(unknown))))
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a Problem, got {type(problem).__name__}")
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of (record, x), got {callback!r}")
    seconds, rng = math.inf if time_limit is None else at_least_zero("time_limit", time_limit), generator(random_state)
    if preset is not None and checkpoint is not None and not isinstance(random_state, int | np.integer):
        raise InvalidInputError("preset='paper' draws k̂: with a checkpoint, random_state must be an integer")
    with limited(seconds), one_blas_thread(isinstance(problem.objective, Model)):
        options = LevelOptions(
            subsolver=subsolver,
            levels=levels,
            gamma=gamma,
            tol=tol,
            max_iter=max_iter,
            start=start,
            x0=x0,  # type: ignore[arg-type]  # it is converted
            random_state=random_state,
            surrogate=surrogate,
            working_set=working_set,
            stopping=stopping,
            preset=preset,
        )
        method = options.method(problem, rng)
        result: Result = drive(
            method,
            problem,
            limits=Limits(seconds, method.max_iter),
            callback=callback,
            checkpoint=checkpoint,
            resume=resume,
            identity=lambda: _identity(problem, options, method),
            rng=rng,
        )
        return result


def _identity(problem: Problem, options: LevelOptions, method: LevelMethod) -> dict[str, str]:
    """Return what a run is a function of, as text."""
    given = {"x0": None, "random_state": None, **vars(options)}  # in the order of files of 0.1
    given |= {"x0": method.x0, "subsolver": method.subsolver, "levels": method.levels, "tol": method.tol}
    del given["max_iter"]  # it may change
    return identity_of(problem, **given)


def minimize(
    fun: ValueAndGradient,
    constraint: Constraint,
    level: float,
    x0: ArrayLike | None = None,
    *,
    n: int | None = None,
    weak_convexity: float = 0.0,
    smoothness: float = math.inf,
    nonsmoothness: float = 0.0,
    weights: ArrayLike | None = None,
    nonnegative: bool | NDArray[np.bool_] | None = None,
    **options: Any,
) -> Result:
    """Minimise a function given as x ↦ (value, gradient) subject to g(x) ≤ η.

    Parameters
    ----------
    fun : callable
        x ↦ (ψ(x), ∇ψ(x)).
    constraint : Constraint
    level : float
        η.
    x0 : array-like of shape (d,), optional
        A feasible start. Give this or `n`.
    n : int, optional
        Number of coordinates; the start is then the origin.
    weak_convexity : float, default=0.0
        μ such that ψ + μ/2 ‖·‖² is convex.
    smoothness, nonsmoothness : float
        L and M, as in `Function`; a positive M says that ψ has kinks, and needs L, too (0 if there is no smooth part).
    weights, nonnegative
        As in `Problem`.
    **options
        As in `solve`.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import constraints, minimize
    >>> b = np.array([3.0, -2.0, 0.1, 0.0])
    >>> fit = minimize(lambda x: (0.5 * np.sum((x - b) ** 2), x - b), constraints.L1(), 4.0, n=4)
    >>> fit.x.round(4).tolist()
    [2.5, -1.5, 0.0, 0.0]
    """
    if (x0 is None) == (n is None):
        raise InvalidInputError("give either x0 or n, the number of coordinates")
    dimension = np.size(x0) if x0 is not None else n
    objective = Function(fun, dimension, weak_convexity, smoothness, nonsmoothness)  # type: ignore[arg-type]  # checks n itself
    return solve(Problem(objective, constraint, level, weights, nonnegative), x0=x0, **options)  # type: ignore[arg-type]  # it converts


def _unknown_option(name: str) -> str:
    for kind in SUBSOLVERS.values():
        if name in {field.name for field in fields(kind)}:
            return f"{name!r} is a setting of a subsolver: subsolver=subsolvers.{kind.__name__}({name}=...)"
    return f"unknown option {name!r}{did_you_mean(name, inspect.signature(solve).parameters, n=3)}"
