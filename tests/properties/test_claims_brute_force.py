"""What answers claim is true by brute force: thousands of small problems, every swap and every addition refitted.

2,000 problems by default, 100,000 with --long; `python -m tests.support.brute_force` searches others.
Wrong claims that are planted must be found, and the refits agree with others that are computed in another way.
"""

from __future__ import annotations

import itertools
import math
import threading
import warnings
from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

from levelprox import LinearModel, Status, best_subset, certify_model
from tests.support import brute_force
from tests.support.brute_force import Answer, Outcome
from tests.support.independent_losses import loss_slope, loss_value
from tests.support.independent_refits import SPANNED, Oracle
from tests.support.long_runs import LONG
from tests.support.subset_problems import CLASSES, KINDS, KINKED, LOSSES, MARGINS, NOT_CONVEX, Case, case

TOGETHER = 5  # problems of one test
# How many problems of each loss; those whose searches take longest have fewest.
SHARES = {
    "squared": 500,
    "logistic": 240,
    "poisson": 240,
    "gamma": 240,
    "huber": 240,
    "squared_hinge": 160,
    "absolute": 70,
    "quantile": 70,
    "hinge": 50,
    "multinomial": 50,
    "one_vs_rest": 50,
    "cauchy": 50,
    "sigmoid": 40,
}
PARTS = [(loss, part) for loss, share in SHARES.items() for part in range(share * (50 if LONG else 1) // TOGETHER)]


def test_there_are_two_thousand_problems_and_every_kind_with_every_loss():
    assert set(SHARES) == set(LOSSES) and len(PARTS) * TOGETHER >= (100_000 if LONG else 2_000)
    assert set(KINDS) == {case(seed, "squared").kinds[0] for seed in range(SHARES["squared"])}


@pytest.mark.cpu_budget(30, "five problems, some of which are hard")
@pytest.mark.parametrize(("loss", "part"), PARTS)
def test_claims_hold_by_brute_force(loss, part):
    wrong = []
    for seed in range(part * TOGETHER, (part + 1) * TOGETHER):
        problem = case(seed, loss)
        outcome = brute_force.examined(problem)
        if outcome.broken:
            wrong.append(f"--only {seed} --loss {loss}: {problem}\n  " + "\n  ".join(outcome.words))
    assert not wrong, "python -m tests.support.brute_force " + "\n".join(wrong)


@pytest.mark.parametrize(
    ("seed", "loss", "kind"),
    [
        (710049, "logistic", None),
        (510192, None, "spanned"),
        (32282, None, None),  # nothing was said of one more feature, as the fit of all of them was not proved
        (510075, None, "spanned"),
        (510042, None, "powers"),
        *((seed, None, None) for seed in (102942, 126136, 124017, 327203, 328313, 332305, 340468, 369247)),
        *((seed, "logistic", None) for seed in (700164, 700227, 710195)),
        (386728, None, None),  # a fit with coefficients of 1e9 was chosen that those of the data do not have
        (323583, None, None),  # the best nonnegative fit was dropped where one with another feature failed
        # Losses with kinks over centred columns: rounding of coefficients that multiply means was not counted.
        *((seed, None, None) for seed in (604105, 504888, 608420)),
        (619868, None, None),
        (385839, None, None),  # bounds did not count the rounding of columns that are centred
        (381210, None, None),  # a gain below the rounding of an exact fit refuted a model
        # Fits by these refits that are not proved, or rounding of their coefficients, said that gains are too high.
        *((seed, None, None) for seed in (500486, 513105, 366896)),
        (400145, "quantile", "signs"),
        # Steps with a ridge came to a standstill; in the last one along a ray that separates the samples.
        *((seed, None, None) for seed in (358998, 311862, 506104, 802667)),
        # A gain that float64 cannot have: margins of 30 whose terms are 1e17.
        (700423, None, None),
        # Centred columns had lost the digits of their means, and with them the fits over nearly dependent ones.
        *((seed, None, None) for seed in (703428, 808593)),
        (701646, None, None),  # softmax steps followed the rounding errors of their basis
        (818197, None, None),  # a gain below the rounding of the fit that has it was believed
        # Hinge: rounding of margins at their kinks hid gains, though the flat side of a kink is next to it.
        *((1039359, None, None), (900074, "hinge", "extreme_weights"), (70343, None, "large_mean")),
        (1024918, None, None),  # coefficients of 1e7 gained 1e-10, and lost 1e-5 by rounding of the intercept
        (1031901, None, None),  # a gain was the rounding of a softmax fit with coefficients that cancel
        (1035792, None, None),  # kinks were moved by less than their last digits, and the vertex stayed degenerate
        (814436, None, None),  # slopes of samples with little weight were taken for rounding
        # A false gain was confirmed, as rounding of margins is larger than what is false.
        *((seed, None, None) for seed in (3010658, 3063577)),
        # True gains of columns whose last digits alone are not spanned were called too high.
        *((seed, None, None) for seed in (3005101, 3013865)),
        (3032991, None, None),  # a residual was refuted by 20 ulps of the loss
        # Steps followed the rounding errors of a basis, where columns differ in a few samples: coefficients of 1e15.
        *((seed, None, None) for seed in (5000130, 5036287)),
        # Columns that nearly depend on each other hid the descent of a feature with a sign: a false bound refuted it.
        (10012783, None, None),
        (11016304, None, None),  # rounding of coefficients to the units of the data made another feature better
        (8201249, None, None),  # a bound left out what the ridge in the inverse of the Hessian changes
        (12032226, None, None),  # a continuation to a threshold of 1e-164
        (6012751, None, None),  # last digits of columns with a large mean were taken for rounding
        (6007893, None, None),  # a correct gamma model was refuted by a gain of 1e-12 of the null loss
        (5031842, None, None),  # a correct model with a loss of 2e-23, all of it rounding, was refuted
        (800175, None, None),  # a false loss was confirmed, as that without features is 1e14 times as large
        # Samples of weight 0 limited Newton steps; rounding of means was not counted for several classes.
        *((seed, None, None) for seed in (120246, 310275, 108561, 368086, 607768, 615464, 607250, 610962, 502433)),
    ],
)
def test_problems_that_longer_searches_found(seed, loss, kind):
    outcome = brute_force.examined(case(seed, loss, kind))
    assert not outcome.broken, "\n".join(outcome.words)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "huber", "poisson"])
@pytest.mark.parametrize("intercept", [False, True])
def test_columns_that_differ_in_two_samples_have_moderate_coefficients(loss, intercept):
    """Beyond the kink of the loss their difference has neither slope nor curvature, up to rounding errors."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        first = rng.integers(-5, 6, 12).astype(float)
        second = first.copy()
        second[:2] += [1.0, -1.0]
        b = np.sign(rng.standard_normal(12)) if loss in ("squared_hinge", "logistic") else rng.poisson(2.0, 12) * 1.0
        b[:2] = [-1.0, 1.0] if loss in ("squared_hinge", "logistic") else [0.0, 3.0]
        model = LinearModel(np.column_stack([first, second]), b, loss, fit_intercept=intercept)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = best_subset(model, 2)
        assert np.max(np.abs(found.x)) < 1e4
        if loss == "squared_hinge":
            end = minimize(model.value_and_gradient, np.zeros(model.dimension), jac=True, tol=1e-12)
            assert found.psi <= end.fun + 1e-9


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss not in NOT_CONVEX])
def test_fits_to_ordinary_data_are_proved_to_be_optimal(loss):
    assert "not proved" not in best_subset(brute_force.objective_of(ordinary(loss)), 2).message


def test_messages_say_where_a_fit_is_not_proved_to_be_optimal():
    hard = case(323583)  # powers of a year with signs
    assert hard.nonnegative is not None
    found = best_subset(brute_force.objective_of(hard), hard.k, nonnegative=np.append(hard.nonnegative, False))
    assert "not proved to be the best" in found.message and not found.swaps.examined


# --- planted faults


def ordinary(loss: str, k: int = 2) -> Case:
    """A problem with an overlap of classes and with features that matter."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 5))
    signal = X @ np.array([1.0, -0.8, 0.6, 0.3, 0.0]) + 0.3
    b = signal + 0.5 * rng.standard_normal(40)
    if loss in MARGINS:
        b = np.where(b + rng.logistic(size=40) > 0, 1.0, -1.0)
    elif loss in CLASSES:
        b = np.digitize(b + rng.logistic(size=40), [-1.0, 1.0])
    elif loss == "poisson":
        b = rng.poisson(np.exp(signal)).astype(float)
    elif loss == "gamma":
        b = np.exp(b)
    parameter = {"huber": 1.35, "cauchy": 1.0, "quantile": 0.7}.get(loss, 0.0)
    return Case(0, ("plain",), loss, parameter, X, b, k, intercept=True)


@cache
def honest(loss: str, k: int = 2) -> tuple[Case, Oracle, Answer]:
    """A problem and its answer by enumeration, in which nothing is wrong."""
    problem = ordinary(loss, k)
    oracle = Oracle(problem)
    best = min(itertools.combinations(range(oracle.d), k), key=oracle.value)
    return problem, oracle, answer_over(problem, oracle, best)


def answer_over(problem: Case, oracle: Oracle, features: tuple[int, ...]) -> Answer:
    """The correct result over a set, which says that all swaps were examined."""
    fit = oracle.refits([features])[0]
    outside = [j for j in range(oracle.d) if j not in features]
    gains = [fit.psi - oracle.value((*features, j)) for j in outside]
    best = int(np.argmax(gains))
    addition = outside[best] if gains[best] > 0 else None
    total = len(features) * len(outside)
    return Answer(fit.x, fit.psi, tuple(features), max(gains[best], 0.0), addition, total, total, 0.0, Status.SOLVED)


def found_wrong(problem: Case, oracle: Oracle, answer: Answer) -> dict[str, float]:
    outcome = Outcome(problem.seed, problem.loss, problem.kinds)
    brute_force.judge(problem, answer, oracle, outcome)
    return outcome.failures


@pytest.mark.parametrize("loss", LOSSES)
class TestPlantedFaults:
    """Each fault is found, and a correct answer passes."""

    def test_an_honest_answer_passes(self, loss):
        assert not found_wrong(*honest(loss))

    def test_a_set_that_a_swap_improves(self, loss):
        problem, oracle, answer = honest(loss)
        swaps = [tuple(sorted({*answer.support, j} - {i})) for i in answer.support for j in range(oracle.d)]
        swaps = [features for features in swaps if len(features) == problem.k and features != answer.support]
        worst = answer_over(problem, oracle, max(swaps, key=oracle.value))
        assert worst.psi - answer.psi > 2 * oracle.tolerance
        assert set(found_wrong(problem, oracle, worst)) == {"false"}
        assert not found_wrong(problem, oracle, replace(worst, examined=worst.total - 1))

    def test_a_gain_of_one_more_that_is_too_low_or_too_high(self, loss):
        problem, oracle, answer = honest(loss, k=1)
        assert answer.multiplier > 4 * oracle.tolerance
        low = replace(answer, multiplier=answer.multiplier - 2 * oracle.tolerance)
        assert "low" in found_wrong(problem, oracle, low)
        assert not found_wrong(problem, oracle, replace(low, all_additions=False))
        assert "low" in found_wrong(problem, oracle, replace(answer, multiplier=0.0, addition=None))
        assert "high" in found_wrong(problem, oracle, replace(answer, addition=answer.support[0]))
        assert "status" in found_wrong(problem, oracle, replace(answer, multiplier=math.nan, addition=None))
        others = [j for j in range(oracle.d) if j not in (*answer.support, answer.addition)]
        weakest = max(others, key=lambda j: oracle.value((*answer.support, j)))
        assert "low" in found_wrong(problem, oracle, replace(answer, multiplier=0.0, addition=weakest))
        if loss not in NOT_CONVEX:  # there a refit may be better than all of ours
            high = replace(answer, multiplier=answer.multiplier + 2 * oracle.tolerance)
            assert "high" in found_wrong(problem, oracle, high)
            assert "high" in found_wrong(problem, oracle, replace(answer, addition=weakest))

    def test_room_that_is_left(self, loss):
        problem, oracle, answer = honest(loss, k=1)
        assert "room" in found_wrong(replace(problem, k=2), oracle, answer)

    def test_coefficients_that_are_not_the_best(self, loss):
        problem, oracle, answer = honest(loss)
        for size in 1e-3, 1e-2, 0.1, 0.3, 1.0:
            x = answer.x.copy()
            x[answer.support[0], 0] *= 1 + size
            psi = float(oracle.psi(x))
            if psi > answer.psi + 2 * oracle.tolerance:
                break
        assert "refit" in found_wrong(problem, oracle, replace(answer, x=x, psi=psi))

    def test_figures_that_are_not_those_of_x(self, loss):
        problem, oracle, answer = honest(loss)
        assert "point" in found_wrong(problem, oracle, replace(answer, psi=answer.psi + 1e-6 * oracle.scale))
        assert "point" in found_wrong(problem, oracle, replace(answer, support=answer.support[:1]))
        assert "point" in found_wrong(replace(problem, k=1), oracle, answer)
        assert "point" in found_wrong(problem, oracle, replace(answer, examined=answer.total + 1))
        assert "point" in found_wrong(problem, oracle, replace(answer, x=np.full_like(answer.x, np.nan)))
        assert "status" in found_wrong(problem, oracle, replace(answer, stationarity=1e-3))
        assert "status" in found_wrong(problem, oracle, replace(answer, status=Status.STALLED))

    def test_a_sign_that_is_not_allowed(self, loss):
        if loss in CLASSES:
            pytest.skip("several classes have no signs")
        problem, oracle, answer = honest(loss)
        j = answer.support[0]
        x = answer.x.copy()
        x[j] = -abs(x[j])
        signs = replace(problem, nonnegative=np.arange(oracle.d) == j)
        assert "point" in found_wrong(signs, Oracle(signs), replace(answer, x=x, psi=float(oracle.psi(x))))


def test_a_swap_that_halves_a_small_loss():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    X[:, 3] = X[:, 0] + 1e-7 * rng.standard_normal(30)
    problem = replace(ordinary("squared", k=1), X=X, b=X[:, 0] + 1e-9 * rng.standard_normal(30))
    oracle = Oracle(problem)
    answer = answer_over(problem, oracle, (3,))
    assert set(found_wrong(problem, oracle, answer)) == {"halved"}
    assert not found_wrong(problem, oracle, answer_over(problem, oracle, (0,)))


def test_a_minimiser_that_is_said_not_to_exist():
    problem, oracle, answer = honest("logistic")
    assert "status" in found_wrong(problem, oracle, replace(answer, status=Status.DIVERGING))
    separable = replace(problem, b=np.where(problem.X[:, 0] > 0, 1.0, -1.0), k=1)
    oracle = Oracle(separable)
    answer = replace(answer_over(separable, oracle, (0,)), status=Status.DIVERGING)
    assert answer.psi < 1e-9 and "status" not in found_wrong(separable, oracle, answer)


def test_gains_below_rounding_are_neither_confirmed_nor_refuted():
    """An intercept of 1e10 with a quantile loss of 0.07, which float64 has up to 1e-4."""
    problem = case(3010658)
    data = problem.given, problem.b, problem.weight
    model = brute_force.fitted_model(problem)
    assert {"loss", "one more would gain"}.isdisjoint(certify_model(model, *data).not_examined)
    model.intercept_ = model.intercept_ + 3e-4
    claims = certify_model(model, *data)
    psi = next(claim.found for claim in claims.claims if claim.name == "loss")
    assert psi > model.certificate_.psi + 5e-5
    hidden = {"loss", "one more would gain", "stationarity", "status"}
    assert claims.hold and hidden <= set(claims.not_examined), str(claims)
    model.intercept_ = model.intercept_ + 3e-3
    assert not certify_model(model, *data).hold


def test_gains_from_the_last_digits_of_a_column():
    """A column that is spanned except for its last digits: all that it can gain is possible, and no more."""
    problem = case(3005101)
    oracle, answer = Oracle(problem), brute_force.searched(problem)
    most = answer.psi - oracle.refits([(1, 2, 3, 4)])[0].least
    assert answer.addition == 4 and most > 1e-2 * oracle.scale
    assert "high" not in found_wrong(problem, oracle, replace(answer, multiplier=most))
    assert "high" in found_wrong(problem, oracle, replace(answer, multiplier=most + 2 * oracle.tolerance))


# --- what float64 makes of margins


@pytest.mark.parametrize("size", [30.0, 1e13, 1e17])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss not in CLASSES])
def test_rounding_bounds_what_float64_makes_of_margins_whose_terms_cancel(loss, size):
    problem, rng = ordinary(loss), np.random.default_rng(4)
    X = problem.X.copy()
    X[:, 1] = X[:, 0] + 30 / size * (np.where(problem.b > 0, 1.0, -1.0) + 0.1 * rng.standard_normal(40))
    problem = replace(problem, X=X)
    oracle = Oracle(problem)
    x = np.array([-size, size, 0.3, 0.0, 0.0, 1.0])[:, None]
    exact, allowed = float(oracle.psi(x)), oracle.rounding(x)
    A = np.column_stack([X, np.ones(40)])
    found = []
    for order in itertools.permutations((0, 1, 2, 5)):
        z = np.zeros(40)
        for j in order:
            z = z + A[:, j] * x[j, 0]
        with np.errstate(over="ignore"):
            found.append(float(np.mean(loss_value(loss, problem.parameter, z, problem.b))))
    assert np.max(np.abs(np.array(found) - exact)) <= allowed
    assert size > 30 or allowed <= 1e-11 * (1 + exact)  # no more than that


# --- the refits agree with others


def exact_fit(oracle: Oracle, features: tuple[int, ...], start: np.ndarray) -> float:
    """ψ at the minimiser near `start`, by Newton's method in 60 digits."""
    problem = oracle.case
    places = [*oracle.always, *sorted({*features, *problem.keep})]
    with mpmath.workdps(60):
        A = mpmath.matrix([[mpmath.mpf(float(v)) for v in row] for row in np.asarray(oracle.columns[:, places], float)])
        s = [
            mpmath.mpf(float(v))
            for v in (np.ones(oracle.n) if problem.weight is None else problem.weight[problem.weight > 0])
        ]
        total = mpmath.fsum(s)
        s = [v / total for v in s]
        b = [mpmath.mpf(float(v)) for v in oracle.target]
        offset = [mpmath.mpf(float(v)) for v in oracle.offset[:, 0]]
        unit = [mpmath.mpf(float(v)) for v in oracle.unit[places]]
        x = mpmath.matrix([mpmath.mpf(float(v)) for v in start[places, 0]])
        last = None
        for _ in range(60):
            z = A * x
            psi, slopes, bends = mpmath.mpf(0), [], []
            for i in range(len(b)):
                value, slope, bend = exact_loss(problem.loss, mpmath.mpf(problem.parameter), z[i] + offset[i], b[i])
                psi += s[i] * value
                slopes.append(s[i] * slope)
                bends.append(s[i] * bend)
            if last is not None and psi >= last - mpmath.mpf(10) ** -25 * abs(last):
                return float(min(psi, last))
            last = psi
            p = len(places)
            g = mpmath.matrix([mpmath.fsum(A[i, j] / unit[j] * slopes[i] for i in range(len(b))) for j in range(p)])
            H = mpmath.matrix(p, p)
            for j, m in itertools.product(range(p), repeat=2):
                H[j, m] = mpmath.fsum(A[i, j] / unit[j] * bends[i] * A[i, m] / unit[m] for i in range(len(b)))
            for j in range(p):
                H[j, j] += mpmath.mpf(10) ** -45
            step = mpmath.lu_solve(H, -g)
            x = x + mpmath.matrix([step[j] / unit[j] for j in range(p)])
        return float(last)


def exact_loss(name: str, parameter, z, b):
    """ℓ, ℓ' and ℓ'' in as many digits as there are."""
    r = b - z
    if name == "squared":
        return r * r, -2 * r, mpmath.mpf(2)
    if name == "logistic":
        e = mpmath.exp(b * z)
        return mpmath.log1p(1 / e), -b / (1 + e), e / (1 + e) ** 2
    if name == "poisson":
        e = mpmath.exp(z)
        return e - b * z, e - b, e
    if name == "gamma":
        e = b * mpmath.exp(-z)
        return z + e, 1 - e, e
    if name == "squared_hinge":
        lack = max(1 - b * z, mpmath.mpf(0))
        return lack**2, -2 * b * lack, mpmath.mpf(2 if lack > 0 else 0)
    assert name == "huber"
    if abs(r) <= parameter:
        return r * r / 2, -r, mpmath.mpf(1)
    return parameter * (abs(r) - parameter / 2), -parameter * mpmath.sign(r), mpmath.mpf(0)


SMOOTH = [loss for loss in LOSSES if loss not in (*KINKED, *NOT_CONVEX, *CLASSES)]


def conjugate(name: str, parameter: float, u: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u put into the domain of ℓ*, and ℓ*(u)."""

    def entropy(v):
        return np.where(v > 0, v * np.log(np.where(v > 0, v, 1)), 0)

    if name == "squared":
        return u, u * b + u * u / 4
    if name == "huber":
        u = np.clip(u, -parameter, parameter)
        return u, u * b + u * u / 2
    if name == "logistic":
        v = np.clip(-b * u, 0, 1)
        return -b * v, entropy(v) + entropy(1 - v)
    if name == "squared_hinge":
        v = np.maximum(-b * u, 0)
        return -b * v, -v + v * v / 4
    if name == "poisson":
        v = np.maximum(u + b, 0)
        return v - b, entropy(v) - v
    assert name == "gamma"
    v = np.maximum(1 - u, 0)
    return 1 - v, entropy(v) - v * np.log(b) - v


def gap(oracle: Oracle, features: tuple[int, ...]) -> float:
    """By how much the value of a set may be above the least ψ over it, relative to the null loss.

    Weak duality: u = ℓ'(z), made orthogonal to the columns, gives a lower bound. What rounding and the domain of ℓ*
    leave of A'u counts for coefficients up to 100 times as large as those found.
    """
    problem, fit = oracle.case, oracle.refits([features])[0]
    chosen = sorted({*features, *problem.keep})
    held = [j for j in chosen if problem.nonnegative is not None and problem.nonnegative[j] and fit.x[j, 0] == 0]
    Q = oracle._bases([tuple(j for j in chosen if j not in held)], SPANNED)[0][0]
    z, s, offset, b = oracle.margins(fit.x)[:, 0], oracle.s, oracle.offset[:, 0], oracle.target.astype(np.longdouble)
    with np.errstate(over="ignore"):
        u = loss_slope(problem.loss, problem.parameter, z.astype(float), oracle.target).astype(np.longdouble)
    for _ in range(3):
        u, heights = conjugate(problem.loss, problem.parameter, u - Q @ (Q.T @ (s * u)), b)
    dual = (s * (u * offset - heights)).sum()
    left = abs(Q.T @ (s * u)) @ (100 * abs(Q.T @ (s * (z - offset))))
    size = np.sqrt(s @ (z - offset) ** 2) + 1
    for j in held:
        column = oracle.columns[:, j] / max(np.sqrt(s @ oracle.columns[:, j] ** 2), np.longdouble(1e-300))
        left += max(-(column @ (s * u)), 0) * 100 * size
    return float((fit.psi - dual + left) / oracle.scale)


def some_sets(oracle: Oracle, most: int = 12) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(oracle.case.seed)
    free = [j for j in range(oracle.d) if j not in oracle.case.keep]
    sizes = rng.integers(0, min(4, len(free)) + 1, most)
    sets = [tuple(sorted(map(int, rng.choice(free, size, replace=False)))) for size in sizes]
    return [features for features in sets if not is_doubtful(oracle, features)]


def is_doubtful(oracle: Oracle, features: tuple[int, ...]) -> bool:
    """Whether a column almost depends on others, or ψ is mostly rounding."""
    chosen = tuple(sorted({*features, *oracle.case.keep}))
    left = oracle._bases([chosen], SPANNED)[2][0]
    noise = oracle.rounding(oracle.refits([features])[0].x)
    nearly = bool(np.any((left > SPANNED) & (left < 1e-9)))
    return nearly or noise > 1e-9 * oracle.scale or oracle.is_null_perfect


@pytest.mark.parametrize("loss", SMOOTH)
def test_refits_are_optimal_by_duality(loss):
    """Every refit is within half the tolerance of a lower bound."""
    for seed in range(1000, 1000 + (1000 if LONG else 15)):
        oracle = Oracle(case(seed, loss))
        allowed = oracle.tolerance / oracle.scale / 2
        for features in some_sets(oracle, 6):
            found = gap(oracle, features)
            assert -allowed <= found <= allowed, f"seed {seed}, {features}, {found}: {oracle.case}"


@pytest.mark.parametrize("loss", SMOOTH)
def test_refits_with_signs_are_optimal_by_duality(loss):
    for seed in range(1000, 1000 + (300 if LONG else 8)):
        oracle = Oracle(case(seed, loss, "signs"))
        allowed = oracle.tolerance / oracle.scale / 2
        for features in some_sets(oracle, 6):
            assert gap(oracle, features) <= allowed, f"seed {seed}, {features}: {oracle.case}"


@pytest.mark.parametrize("kind", ["plain", "twins", "large_mean", "powers", "far", "units"])
@pytest.mark.parametrize("loss", SMOOTH)
def test_refits_agree_with_sixty_digits(loss, kind):
    problem = case(7, loss, kind)
    if problem.X.shape[0] > 12:  # sixty digits are slow
        rows = slice(0, 12)
        problem = replace(
            problem,
            X=problem.X[rows],
            b=problem.b[rows],
            weight=None if problem.weight is None else problem.weight[rows],
            offset=None if problem.offset is None else problem.offset[rows],
        )
    oracle = Oracle(replace(problem, nonnegative=None, keep=()))
    for features in ((0, 1), (0, 2)):
        fit = oracle.refits([features])[0]
        exact = exact_fit(oracle, features, fit.x)
        assert -1e-12 * oracle.scale <= fit.psi - exact <= 1e-8 * oracle.scale + oracle.rounding(fit.x), features


@pytest.mark.parametrize("loss", KINKED)
def test_refits_agree_with_linear_programming(loss):
    for seed in range(1000, 1000 + (300 if LONG else 12)):
        oracle = Oracle(case(seed, loss))
        if oracle.case.nonnegative is not None:
            continue
        for features in some_sets(oracle, 3):
            fit = oracle.refits([features])[0]
            chosen = tuple(sorted({*features, *oracle.case.keep}))
            signs = replace(oracle.case, nonnegative=np.zeros(oracle.d, bool))
            program = Oracle(signs)._by_linear_program(chosen)
            assert abs(fit.psi - program.psi) <= oracle.tolerance / 10, f"seed {seed}, {features}: {oracle.case}"


@pytest.mark.parametrize("loss", CLASSES)
def test_refits_of_several_classes_agree_with_quasi_newton_steps(loss):
    for seed in range(1000, 1000 + (100 if LONG else 4)):
        oracle = Oracle(case(seed, loss))
        for features in some_sets(oracle, 2):
            fit = oracle.refits([features])[0]
            Q = np.asarray(oracle._bases([tuple(sorted({*features, *oracle.case.keep}))], 1e-9)[0][0], float)

            def height(a, Q=Q, oracle=oracle):
                return float(oracle._psi_of(oracle.offset + Q @ a.reshape(Q.shape[1], oracle.n_outputs))) / oracle.scale

            if not Q.shape[1]:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = minimize(height, np.zeros(Q.shape[1] * oracle.n_outputs), method="BFGS")
            assert fit.psi <= found.fun * oracle.scale + oracle.tolerance, f"seed {seed}, {features}: {oracle.case}"


# --- the command


def never_answers(pipe, loss, kind):
    """A worker that takes a problem and never comes back."""
    while pipe.recv() is not None:
        threading.Event().wait()


def test_a_problem_that_hangs_is_ended_and_counted():
    outcomes = list(brute_force.run(range(2), 1, limit=0.1, work=never_answers))
    assert [list(outcome.failures) for outcome in outcomes] == [["hang"], ["hang"]]


def test_the_command_counts_and_repeats(capsys):
    assert brute_force.main(["--problems", "3", "--jobs", "1", "--loss", "squared", "--kind", "plain"]) == 0
    shown = capsys.readouterr().out
    assert "together" in shown and "squared" in shown and "plain" in shown
    assert brute_force.main(["--only", "2", "--loss", "squared", "--kind", "plain"]) == 0
    assert "nothing wrong" in capsys.readouterr().out
