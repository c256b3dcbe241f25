"""Slow reference implementations of the compiled kernels, written as plainly as possible."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

# --- designs: X is any matrix that indexes like a list of rows. Every sum is exact, rounded once.


def matvec(X: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(float(v) * float(w) for v, w in zip(row, x, strict=True)) for row in X])


def rmatvec(X: np.ndarray, r: np.ndarray) -> np.ndarray:
    return matvec(X.T, r)


def column_squares(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(w * float(v) ** 2 for v, w in zip(col, weight, strict=True)) for col in X.T])


def gram(X: np.ndarray, D: np.ndarray) -> np.ndarray:
    d = X.shape[1]
    out = np.zeros((d, d))
    for j in range(d):
        for k in range(d):
            out[j, k] = math.fsum(w * float(v) * float(u) for w, v, u in zip(D, X[:, j], X[:, k], strict=True))
    return out


def columns(X: np.ndarray, W: list[int]) -> np.ndarray:
    return np.array([[row[j] for j in W] for row in X]).reshape(X.shape[0], len(W))


def rows(X: np.ndarray, B: list[int]) -> np.ndarray:
    return np.array([X[i] for i in B]).reshape(len(B), X.shape[1])


# --- losses: one sample at a time, formulas as in the docstrings, moderate margins only -------------


def loss(name, parameter, width, z, b):
    """ℓ(z, b), or its Moreau envelope if the width is not 0."""
    r = b - z
    if width != 0:
        return envelope(name, parameter, width, z, b)[0]
    if name == "squared":
        return r**2
    if name == "logistic":
        return math.log(1 + math.exp(-b * z))
    if name == "huber":
        return r**2 / 2 if abs(r) <= parameter else parameter * (abs(r) - parameter / 2)
    if name == "absolute":
        return abs(r)
    if name == "quantile":
        return max(parameter * r, (parameter - 1) * r)
    if name == "hinge":
        return max(0.0, 1 - b * z)
    if name == "sigmoid":
        return 1 / (1 + math.exp(b * z))
    if name == "squared_hinge":
        return max(0.0, 1 - b * z) ** 2
    if name == "poisson":
        return math.exp(z) - b * z
    if name == "gamma":
        return z + b * math.exp(-z)
    assert name == "cauchy"
    return parameter**2 / 2 * math.log(1 + (r / parameter) ** 2)


def loss_slope(name, parameter, width, z, b):
    """dℓ/dz."""
    r = b - z
    if width != 0:
        return envelope(name, parameter, width, z, b)[1]
    if name == "squared":
        return -2 * r
    if name == "logistic":
        return -b / (1 + math.exp(b * z))
    if name == "huber":
        return -r if abs(r) <= parameter else -parameter * r / abs(r)
    if name == "absolute":
        return 0.0 if r == 0 else -r / abs(r)
    if name == "quantile":
        return 0.0 if r == 0 else -parameter if r > 0 else 1 - parameter
    if name == "hinge":
        return -b if b * z < 1 else 0.0
    if name == "sigmoid":
        return -b * math.exp(b * z) / (1 + math.exp(b * z)) ** 2
    if name == "squared_hinge":
        return -2 * b * max(0.0, 1 - b * z)
    if name == "poisson":
        return math.exp(z) - b
    if name == "gamma":
        return 1 - b * math.exp(-z)
    assert name == "cauchy"
    return -r / (1 + (r / parameter) ** 2)


def loss_bend(name, parameter, width, z, b):
    """d²ℓ/dz²."""
    r = b - z
    if width != 0:
        return envelope(name, parameter, width, z, b)[2]
    if name == "squared":
        return 2.0
    if name == "logistic":
        p = 1 / (1 + math.exp(-z))
        return p * (1 - p)
    if name == "huber":
        return 1.0 if abs(r) <= parameter else 0.0
    if name == "sigmoid":
        p = 1 / (1 + math.exp(b * z))
        return p * (1 - p) * (1 - 2 * p)
    if name == "squared_hinge":
        return 2.0 if b * z < 1 else 0.0
    if name == "poisson":
        return math.exp(z)
    if name == "gamma":
        return b * math.exp(-z)
    assert name == "cauchy"
    q = r / parameter
    return (1 - q**2) / (1 + q**2) ** 2


def envelope(name, parameter, width, z, b):
    """Value, slope and second derivative of min_w ℓ(w, b) + (z - w)²/(2 width), for ℓ with a kink at w = b.

    The minimiser w is the kink, or z minus width times one of the slopes of ℓ: the best of the three.
    """
    candidates = [(z - b) ** 2 / (2 * width)]
    slopes = [loss_slope(name, parameter, 0.0, b + side, b) for side in (-1, 1)]
    for slope in slopes:
        candidates.append(loss(name, parameter, 0.0, z - width * slope, b) + width * slope**2 / 2)
    best = candidates.index(min(candidates))
    return min(candidates), [(z - b) / width, *slopes][best], 1 / width if best == 0 else 0.0


def loss_value(name, parameter, width, z, b, weight):
    """Σ s_i ℓ(z_i, b_i) / Σ s_i."""
    total = math.fsum(s * loss(name, parameter, width, zi, bi) for zi, bi, s in zip(z, b, weight, strict=True))
    return total / math.fsum(weight)


def loss_derivative(name, parameter, width, z, b, weight):
    """Gradient of `loss_value` with respect to z."""
    total = math.fsum(weight)
    return [s * loss_slope(name, parameter, width, zi, bi) / total for zi, bi, s in zip(z, b, weight, strict=True)]


def loss_curvature(name, parameter, width, z, b, weight):
    """Diagonal of the Hessian of `loss_value` with respect to z."""
    total = math.fsum(weight)
    return [s * loss_bend(name, parameter, width, zi, bi) / total for zi, bi, s in zip(z, b, weight, strict=True)]


# --- projection: rational arithmetic, one breakpoint after another -----------------------------------


def exact_level(x, u, weights):
    """Σ ω(|x| + ux) without rounding."""
    return sum(
        (
            Fraction(float(w)) * (abs(Fraction(float(a))) + Fraction(float(b)) * Fraction(float(a)))
            for a, b, w in zip(x, u, weights, strict=True)
        ),
        Fraction(0),
    )


def project(v, u, tau, weights, nonnegative):
    """The projection and its multiplier in rational arithmetic: try every piece of the piecewise linear l."""
    v, u, weights = ([Fraction(float(a)) for a in array] for array in (v, u, weights))
    tau = Fraction(float(tau))

    def point(y):
        x = []
        for a, b, w, only_positive in zip(v, u, weights, nonnegative, strict=True):
            plus, minus = a - w * (1 + b) * y, -a - w * (1 - b) * y
            x.append(plus if plus > 0 else -minus if minus > 0 and not only_positive else Fraction(0))
        return x

    def level(y):
        return sum((w * (abs(a) + b * a) for a, b, w in zip(point(y), u, weights, strict=True)), Fraction(0))

    if level(Fraction(0)) <= tau:
        return [float(a) for a in point(Fraction(0))], 0.0
    turns = {a / (w * (1 + b)) for a, b, w in zip(v, u, weights, strict=True) if w * (1 + b) != 0}
    turns |= {-a / (w * (1 - b)) for a, b, w in zip(v, u, weights, strict=True) if w * (1 - b) != 0}
    ends = [Fraction(0), *sorted(t for t in turns if t > 0)]
    for left, right in zip(ends, [*ends[1:], 2 * ends[-1] + 1], strict=True):
        high, low = level(left), level(right)
        last = right > ends[-1]
        if high > tau and (low <= tau or last):
            y = left + (high - tau) * (right - left) / (high - low)
            return [float(a) for a in point(y)], float(y)
    raise AssertionError("no piece holds the level")


# --- groups: features of several coordinates, x row by row ------------------------------------------


def rows_of(x, width):
    return [[float(a) for a in x[j : j + width]] for j in range(0, len(x), width)]


def norm(row):
    return math.hypot(*row)


def is_norm_above(row, size):
    """Whether `size` is the smallest float64 that is not below the norm of the row, in rational arithmetic."""
    square = sum((Fraction(a) ** 2 for a in row), Fraction(0))
    below = Fraction(float(np.nextafter(size, 0))) ** 2 < square or size == 0
    return Fraction(float(size)) ** 2 >= square and below


def project_groups(v, tau, weights, width):
    """The projection onto Σ ω‖x_j‖ <= τ and its multiplier, by bisection on the multiplier."""
    rows, weights = rows_of(v, width), [float(w) for w in weights]

    def shortened(y):
        return [max(norm(row) - w * y, 0.0) for row, w in zip(rows, weights, strict=True)]

    def level(y):
        return math.fsum(w * r for w, r in zip(weights, shortened(y), strict=True))

    low, high = 0.0, max((norm(row) / w for row, w in zip(rows, weights, strict=True) if w > 0), default=0.0)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if level(middle) > tau else (low, middle)
    y = 0.0 if level(0.0) <= tau else high
    x = [a * (r / norm(row) if norm(row) else 0.0) for row, r in zip(rows, shortened(y), strict=True) for a in row]
    return x, y


def multinomial(X, labels, B, weight, offset):
    """ψ and its gradient, of shape (d, K): one sample at a time, moderate margins only."""
    n, d, K = len(X), len(B), len(B[0])
    losses, gradient = [], [[[] for _ in range(K)] for _ in range(d)]
    for i in range(n):
        z = [math.fsum(float(X[i][j]) * B[j][k] for j in range(d)) + offset[i][k] for k in range(K)]
        total = math.fsum(math.exp(a) for a in z)
        losses.append(weight[i] * (math.log(total) - z[labels[i]]))
        for k in range(K):
            slope = weight[i] * (math.exp(z[k]) / total - (k == labels[i]))
            for j in range(d):
                gradient[j][k].append(slope * float(X[i][j]))
    total = math.fsum(weight)
    return math.fsum(losses) / total, np.array([[math.fsum(g) / total for g in row] for row in gradient])


# --- spectral projected gradient on psi + gamma/2 |x - center|^2 -------------------------------------


def spectral(fun, center, gamma, project_onto, step, max_steps, memory=5, decrease=1e-5):
    """Barzilai-Borwein steps with a nonmonotone line search, as in the module docstring."""

    def value_and_slope(x):
        value, slope = fun(x)
        return value + gamma / 2 * float(np.sum((x - center) ** 2)), slope + gamma * (x - center)

    x = center
    value, slope = value_and_slope(x)
    values, best = [value], (value, x)
    for _ in range(max_steps):
        t = step
        while True:
            trial = np.array(project_onto(x - t * slope))
            moved = trial - x
            if not np.any(moved):
                return best[1]
            trial_value, trial_slope = value_and_slope(trial)
            if trial_value <= max(values[-memory:]) - decrease / (2 * t) * float(moved @ moved):
                break
            t /= 2
        curvature = float(moved @ (trial_slope - slope))
        step = float(moved @ moved) / curvature if curvature > 0 else 10 * t
        x, slope = trial, trial_slope
        values.append(trial_value)
        if trial_value <= best[0]:
            best = (trial_value, x)
    return best[1]


# --- a parabola over a set: projected gradient steps as short as the largest eigenvalue requires -------------


def quadratic(Q, gradient, center, project_onto, steps=20_000):
    """argmin <g, x - c> + (x - c)'Q(x - c)/2 over the set; up to `steps` steps, fewer where x no longer moves."""
    longest = 1 / float(np.linalg.eigvalsh(Q)[-1])
    x = center
    for _ in range(steps):
        following = np.array(project_onto(x - longest * (gradient + Q @ (x - center))))
        if np.max(np.abs(following - x)) <= 1e-15 * np.max(np.abs(x), initial=0.0):
            break
        x = following
    return x


# --- AC-SA on psi + gamma/2 |x - center|^2 -------------------------------------------------------------


def acsa(gradient, center, steps, project_onto, gamma, mu, L):
    """Accelerated stochastic approximation; `gradient` may be random. The better of center and x^ag is up to others."""
    m, smoothness = gamma - mu, L + gamma
    x = x_ag = center
    for t in range(1, steps + 1):
        alpha, gamma_t = 2 / (t + 1), 4 * smoothness / (t * (t + 1))
        x_md = (1 - alpha) * (m + gamma_t) * x_ag + alpha * ((1 - alpha) * m + gamma_t) * x
        x_md = x_md / (gamma_t + (1 - alpha**2) * m)
        slope = gradient(x_md) + gamma * (x_md - center)
        x = project_onto((alpha * m * x_md + ((1 - alpha) * m + gamma_t) * x - alpha * slope) / (m + gamma_t))
        x_ag = alpha * x + (1 - alpha) * x_ag
    return project_onto(x_ag)


# --- the paper's other subsolvers on psi + gamma/2 |x - center|^2 --------------------------------------


def nesterov(fun, center, gamma, project_onto, smoothness, strong_convexity, steps):
    """Accelerated projected gradient with restarts, as in the module docstring; the better of its end and its start."""

    def value(x):
        return fun(x)[0] + gamma / 2 * float(np.sum((x - center) ** 2))

    x = ahead = center
    alpha, q = 1.0, strong_convexity / smoothness
    for _ in range(steps):
        slope = fun(ahead)[1] + gamma * (ahead - center)
        following = np.array(project_onto(ahead - slope / smoothness))
        if float((ahead - following) @ (following - x)) > 0:
            alpha = 1.0
        # the positive root of a^2 = (1 - a) alpha^2 + q a
        following_alpha = max(np.roots([1.0, alpha**2 - q, -(alpha**2)]).real)
        momentum = alpha * (1 - alpha) / (alpha**2 + following_alpha)
        x, ahead, alpha = following, following + momentum * (following - x), following_alpha
    return x if value(x) <= value(center) else center


# --- minibatch steps: dense rows, and a whole projection at every step ------------------------------


def stochastic_steps(rows, slope, x, center, gamma, project_onto, samples, batch, lengths, snapshot=None):
    """All points of x⁺ = P(x − t(mean of (ℓ' − r) a + q + γ(x − c))); slope(i, z) is ℓ', snapshot is (r, q) or None."""
    r, q = (np.zeros(len(rows)), np.zeros_like(x)) if snapshot is None else snapshot
    points = []
    for k, t in enumerate(lengths):
        chosen = samples[k * batch : (k + 1) * batch]
        mean = sum((slope(i, float(rows[i] @ x)) - r[i]) * rows[i] for i in chosen) / len(chosen)
        x = np.array(project_onto(x - t * (mean + q + gamma * (x - center))))
        points.append(x)
    return points


def screened_projection(v, weights, tau, kappa, project, checked):
    """The projection of what |v| > κω leaves; where `checked`, κ is lowered until the multiplier is not below it."""
    while True:
        kept = np.abs(v) > kappa * weights
        x = np.zeros_like(v)
        x[kept], y = project(v[kept], 0.0, tau, weights=weights[kept]) if np.any(kept) else (0.0, 0.0)
        if y >= kappa or not checked:
            return x
        kappa = y * (1 - 1e-9)


def largest_residual(lines: list[tuple[float, float]], y: float) -> float:
    """max(0, offset + slope·y) over lines (offset, slope); |·| is two of them."""
    return max([0.0, *(offset + slope * y for offset, slope in lines)])


def complementarity(
    features: list[tuple[float, float, float]], slack: float, level: float, curvature: float, y: float
) -> float:
    """The largest part of a force that the level holds back although the slack would pay for following it.

    `features` are force, price and the room that is left below the cap.
    """
    most = 0.0
    for force, price, room in features:
        held = min(price * y, force)
        if held <= 0 or slack <= 0:
            continue
        cost = min(level, room, price * held / curvature if curvature > 0 else float("inf"))
        most = max(most, held * min(1.0, slack / cost) if cost > 0 else held)
    return most


def most_stationary(lines: list[tuple[float, float]]) -> float:
    """The smallest y ≥ 0 minimising largest_residual(y): the best of all crossings of two lines."""
    all_lines = [*lines, (0.0, 0.0)]
    crossings = [0.0]
    for offset, slope in all_lines:
        crossings += [(offset - other) / (steeper - slope) for other, steeper in all_lines if steeper != slope]
    height = {y: largest_residual(all_lines, y) for y in crossings if 0 <= y < float("inf")}
    least = min(height.values())
    return min(y for y in height if height[y] <= least * (1 + 1e-12))


# --- fingerprints ------------------------------------------------------------------------------------


def fingerprint(X: np.ndarray) -> tuple[int, int]:
    """How many entries are not zero, and Σ mix(i, j, bits of X_ij) mod 2^64 over them."""
    count, total = 0, 0
    for i, row in enumerate(X):
        for j, value in enumerate(row):
            if value == 0:
                continue
            bits = int(np.float64(value).view(np.uint64))
            product = (bits ^ ((i + 1) * 0x9E3779B97F4A7C15 % 2**64)) * ((2 * j + 1) * 0xD6E8FEB86659FD93 % 2**64)
            count, total = count + 1, (total + (product % 2**64 ^ product >> 64)) % 2**64
    return count, total
