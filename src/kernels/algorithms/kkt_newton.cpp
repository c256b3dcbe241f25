// One Newton step on the KKT system (level.hpp).
#include <algorithm>
#include <cmath>

#include "algorithms/cholesky.hpp"
#include "algorithms/level.hpp"
#include "algorithms/projection.hpp"

namespace levelprox {
namespace {

constexpr double RIDGE = 1e-10;        // where the Hessian has a unit diagonal,
constexpr double BENT = -1e-8;         // and far more than its rounding
constexpr double LEAST_WITHIN = 1e-6;  // of the square of a direction, within the level
using Vector = std::vector<double>;

double dot(const Vector &a, const Vector &b) {
    return simd().dense<double>().dot(std::int64_t(a.size()), a.data(), b.data());
}

bool is_finite(const Vector &v) {
    return std::all_of(v.begin(), v.end(), [](double value) { return std::isfinite(value); });
}

// The level over some features, those of `places`: sizes t_j, directions u_j = x_j / t_j, omega_j phi'(t_j).
struct LevelPart {
    Vector t, u, weights, slope;

    LevelPart(const LevelSet &set, const std::vector<std::int64_t> &places, const Vector &x) {
        const auto width = std::size_t(set.width);
        for (std::size_t k = 0; k < places.size(); k += width) {
            const std::int64_t j = places[k] / set.width;
            const double size = set.size(x.data(), j);
            t.push_back(size);
            weights.push_back(set.weight(j));
            for (std::size_t c = 0; c < width; ++c)
                u.push_back(x[std::size_t(places[k + c])] / (size > 0 ? size : 1.0));
        }
        slope.resize(t.size());
        set.penalty->slope(std::int64_t(t.size()), t.data(), slope.data());
        for (std::size_t j = 0; j < t.size(); ++j) slope[j] = weights[j] == 0 ? 0.0 : weights[j] * slope[j];
    }

    // a = dg/dx = omega_j phi'(t_j) u_j
    Vector normal() const {
        const std::size_t width = t.empty() ? 1 : u.size() / t.size();
        Vector a(u.size());
        for (std::size_t k = 0; k < u.size(); ++k) a[k] = slope[k / width] * u[k];
        return a;
    }

    // Adds y d2g = y omega_j [phi'(t_j)/t_j (I - uu') - h''(t_j) uu'] to a matrix.
    void bend(const LevelSet &set, double y, Vector &matrix) const {
        const std::size_t m = u.size(), width = std::size_t(set.width);
        Vector h(t.size());
        set.penalty->curvature(std::int64_t(t.size()), t.data(), h.data());
        for (std::size_t j = 0; j < t.size(); ++j) {
            if (weights[j] == 0) continue;
            const double along = -y * weights[j] * h[j], across = t[j] > 0 ? y * slope[j] / t[j] : 0.0;
            for (std::size_t a = j * width; a < (j + 1) * width; ++a)
                for (std::size_t b = j * width; b < (j + 1) * width; ++b) {
                    matrix[a * m + b] += along * (u[a] * u[b]);
                    if (width > 1) matrix[a * m + b] += across * ((a == b ? 1.0 : 0.0) - u[a] * u[b]);
                }
        }
    }
};

// Whether the matrix is clearly not positive definite within a'v = 0, by the direction of an earlier one; v may be
// zero.
bool bends_down(std::size_t m, const Vector &matrix, const Vector &a, Vector v) {
    const auto &dense = simd().dense<double>();
    const double length = dot(v, v), square = dot(a, a);
    if (!(length > 0) || !(square > 0)) return false;
    dense.add(std::int64_t(m), -dot(a, v) / square, a.data(), v.data());
    double bend = 0;
    for (std::size_t i = 0; i < m; ++i) bend += v[i] * dense.dot(std::int64_t(m), &matrix[i * m], v.data());
    const double left = dot(v, v);
    return left > LEAST_WITHIN * length && bend < BENT * left;
}

// The direction (-w, 1, 0) with L'w = row i of L, whose curvature is the pivot of that row: it is not positive.
Vector bent_direction(std::size_t m, const Vector &L, std::size_t i) {
    const auto &dense = simd().dense<double>();
    Vector v(m);
    for (std::size_t k = 0; k < i; ++k) v[k] = -L[i * m + k];
    v[i] = 1;
    for (std::size_t k = i; k-- > 0;) {
        v[k] /= L[k * m + k];
        dense.add(std::int64_t(k), -v[k], &L[k * m], v.data());
    }
    return v;
}

// dx of the KKT system; empty where the matrix is not positive definite on the null space of a', which is the right
// inertia: then `bent` is a direction there along which it is not. A Householder reflection maps a to the first axis,
// and the other axes to a basis of that null space.
Vector within_level(std::size_t m, Vector &matrix, const Vector &a, const Vector &gradient, double gap, Vector &bent) {
    const auto &dense = simd().dense<double>();
    const double square = dot(a, a);
    Vector v = a;
    v[0] += std::copysign(std::sqrt(square), a[0]);
    const double length = dot(v, v);
    if (!(length > 0) || !(square > 0)) return {};  // slopes whose squares are below the smallest number
    const double twice = 2 / length;
    const auto reflect = [&](Vector &w) { dense.add(std::int64_t(m), -twice * dot(v, w), v.data(), w.data()); };

    // To the level along a, and the slope there.
    Vector step = a, slope = gradient;
    for (double &value : step) value *= -gap / square;
    for (std::size_t i = 0; i < m; ++i) slope[i] += dense.dot(std::int64_t(m), &matrix[i * m], step.data());
    if (m == 1) return step;

    // The reflected matrix without its first row and column: M - vb' - bv'.
    Vector b(m);
    for (std::size_t i = 0; i < m; ++i) b[i] = twice * dense.dot(std::int64_t(m), &matrix[i * m], v.data());
    dense.add(std::int64_t(m), -twice / 2 * dot(v, b), v.data(), b.data());
    const std::size_t n = m - 1;
    Vector inside(n * n);
    for (std::size_t i = 1; i < m; ++i) {
        for (std::size_t j = 1; j <= i; ++j)
            inside[(i - 1) * n + (j - 1)] = matrix[i * m + j] - v[i] * b[j] - b[i] * v[j];
        // Along what changes neither psi nor g, such as a constant added to the intercepts of all classes, it is
        // singular.
        inside[(i - 1) * n + (i - 1)] += RIDGE;
    }
    std::size_t failed = 0;
    if (!factorise(n, inside, 0.0, [] {}, &failed)) {
        bent = bent_direction(n, inside, failed);
        bent.insert(bent.begin(), 0.0);
        reflect(bent);
        return {};
    }
    reflect(slope);
    Vector along(n);
    for (std::size_t i = 0; i < n; ++i) along[i] = -slope[i + 1];
    solve_factorised(n, inside, along);
    along.insert(along.begin(), 0.0);
    reflect(along);
    for (std::size_t i = 0; i < m; ++i) step[i] += along[i];
    return step;
}

// Whether a penalised feature would change its sign.
bool is_turned(const LevelSet &set, const std::vector<std::int64_t> &places, const Vector &x, const Vector &to) {
    for (std::size_t k = 0; k < places.size(); k += std::size_t(set.width)) {
        if (set.weight(places[k] / set.width) == 0) continue;
        double along = 0;
        for (std::size_t c = 0; c < std::size_t(set.width); ++c)
            along += x[std::size_t(places[k + c])] * to[std::size_t(places[k + c])];
        if (!(along > 0)) return true;
    }
    return false;
}

// Corrects a point to second order along the normal of the level, and projects it onto its surrogate set, both in
// coordinates in which columns have one size. False where a sign changes, or it is not feasible.
bool retract(const LevelSet &set, const FeatureUnits &units, const std::vector<std::int64_t> &places, const Vector &x,
             Vector &to) {
    if (is_turned(set, places, x, to)) return false;
    const auto unit = [&](std::int64_t place) { return units.working ? units.working[place / set.width] : 1.0; };
    Vector a = LevelPart(set, places, to).normal();
    for (std::size_t k = 0; k < places.size(); ++k) a[k] /= unit(places[k]);
    const double square = dot(a, a);
    if (square > 0) {
        const double step = (set.level - set.g(to.data())) / square;
        for (std::size_t k = 0; k < places.size(); ++k) to[std::size_t(places[k])] += step * a[k] / unit(places[k]);
        if (is_turned(set, places, x, to)) return false;
    }
    if (!is_finite(to)) return false;

    SurrogateSet near = majorise(set, to.data());
    for (std::int64_t j = 0; j < set.n_features; ++j) {
        double &price = near.prices[std::size_t(j)];
        price /= unit(j * set.width);
        if (price > 0 && price < SMALLEST_PRICE) price = SMALLEST_PRICE;  // a larger price is a smaller set
        if (price > LARGEST_PRICE) return false;  // columns hardly bend psi where samples are far out
    }
    Vector scaled = to;
    for (std::size_t i = 0; i < to.size(); ++i) scaled[i] *= unit(std::int64_t(i));
    if (project_onto(near.ball(set), scaled.data(), 0, to.data()).status != Projected::done) return false;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] /= unit(std::int64_t(i));
    return set.is_feasible(to.data());
}

}  // namespace

std::vector<double> SaddleDirection::over(const std::vector<std::int64_t> &others) const {
    Vector out(others.size());
    for (std::size_t k = 0, j = 0; k < others.size() && j < places.size(); ++k) {
        while (j < places.size() && places[j] < others[k]) ++j;
        if (j < places.size() && places[j] == others[k]) out[k] = v[j];
    }
    return out;
}

bool kkt_newton_step(const LevelSet &set, const FeatureUnits &units, const std::vector<std::int64_t> &places,
                     std::vector<double> hessian, const double *gradient, double y, std::vector<double> &x,
                     SaddleDirection &saddle) {
    const std::size_t m = places.size();
    const LevelPart part(set, places, x);
    Vector a = part.normal();
    if (std::all_of(a.begin(), a.end(), [](double value) { return value == 0; }))
        return false;  // the level is not an equation in these coordinates

    // In units in which the Hessian has a unit diagonal, the scales of columns do not matter.
    Vector unit(m), slope(m);
    for (std::size_t k = 0; k < m; ++k) unit[k] = hessian[k * m + k] > 0 ? 1 / std::sqrt(hessian[k * m + k]) : 1.0;
    part.bend(set, y, hessian);
    for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < m; ++j) hessian[i * m + j] *= unit[i] * unit[j];
    for (std::size_t k = 0; k < m; ++k) {
        slope[k] = (gradient[places[k]] + y * a[k]) * unit[k];
        a[k] *= unit[k];
    }
    if (bends_down(m, hessian, a, saddle.over(places))) return false;
    saddle.places.clear();
    saddle.v.clear();
    const Vector step = within_level(m, hessian, a, slope, set.g(x.data()) - set.level, saddle.v);
    if (!saddle.v.empty()) saddle.places = places;
    if (step.empty() || !is_finite(step)) return false;

    Vector to = x;
    for (std::size_t k = 0; k < m; ++k) to[std::size_t(places[k])] += step[k] * unit[k];
    if (!retract(set, units, places, x, to) || to == x) return false;
    x = std::move(to);
    return true;
}

}  // namespace levelprox
