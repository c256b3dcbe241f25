#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/column_fits.hpp"
#include "algorithms/newton_step.hpp"

namespace levelprox {
namespace {

constexpr int MOST_STEPS = 100;    // many only where classes are separated
constexpr double SHOWS = 1e-12;    // of psi
constexpr double PERFECT = 1e-12;  // of psi at 0: nothing is left to explain
constexpr double MUCH = 1e-3;      // of psi: a small gradient promises so much only where psi itself is going to 0
constexpr double RIDGE = 1e-9;     // of the curvature at the start, and less as psi falls
constexpr int PATIENCE = 50;       // steps over many rows, of a bounded loss, before they are doubled
constexpr double FAR = 20.0;       // by how much the log of the curvature may change in a step
constexpr double ARMIJO = 1e-4;
constexpr double SHORTEST = 1.0 / 1024;      // of a Newton step
constexpr double SHORTEST_OF_FAR = 0x1p-60;  // the same where a step may lead anywhere
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double LAST_DIGITS = 4 * std::numeric_limits<double>::epsilon();

// Not every loss is bounded by 0: where one is below, nothing is perfect, and shares mean nothing.
bool is_perfect(double psi, double origin) { return psi >= 0 && psi <= PERFECT * origin; }
double share_left(double psi, double start) { return psi >= 0 && psi < start ? psi / start : 1.0; }

// Twice the decrease that the second-order model predicts.
double decrease_along(const std::vector<double> &step, const std::vector<double> &gradient) {
    double decrease = 0;
    for (std::size_t j = 0; j < step.size(); ++j) decrease -= step[j] * gradient[j];
    return decrease;
}

// A lower bound on psi.
double lowest(double psi, double predicted, double change) { return psi - predicted * self_concordant_factor(change); }

}  // namespace

// l'(z) + l''(z) A step is orthogonal to all columns, hence feasible in the dual of this fit, and there the curvature
// 1/l'' of the conjugate has grown by at most 1/(1 - change). This holds for Newton's step without a ridge
// only: with one, the model predicts too little for nearly dependent columns.
bool ColumnFits::stays_above(const Columns &columns, const Derivatives &at, double below) const {
    const std::vector<double> step =
        ridged_newton_step(at.hessian, 0.0, std::vector<double>(at.gradient.size()), at.gradient);
    return !step.empty() &&
           lowest(at.psi, decrease_along(step, at.gradient), change_along(combined(columns, step))) >= below;
}

// Newton's method for a loss that is not convex, from x or, where that is far from where it leads, from 0.
ColumnFit ColumnFits::descend(const Columns &columns, std::vector<double> x, double tolerance, double below,
                              Poll &poll) const {
    const std::size_t m = columns.size();
    const std::vector<double> origin = this->origin();
    std::vector<double> z = combined(columns, x), trial(n_);
    for (std::int64_t i = 0; i < n_; ++i) z[i] += origin[i];

    Derivatives at;
    std::vector<double> ridge(m);
    double psi_of_start = 0;
    const double much = infimum_at_infinity_ ? SHOWS : MUCH,
                 shortest = infimum_at_infinity_ ? SHORTEST_OF_FAR : SHORTEST;
    const auto set_ridge = [&] {
        for (std::size_t j = 0; j < m; ++j) ridge[j] = RIDGE * at.hessian[j * m + j];
    };
    const auto begin = [&] {
        at = differentiate(columns, z.data(), poll);
        psi_of_start = at.psi;
        set_ridge();
    };
    begin();
    const double psi_of_origin = value(origin.data(), poll);
    const auto ended = [&](FitEnd how) {
        mirror(m, at.hessian);
        const double rounding = resolution(at, z);
        return ColumnFit{how, std::move(x), std::move(z), std::move(at.hessian), at.psi, INFINITE, rounding};
    };

    for (int steps = 0; steps < MOST_STEPS; ++steps) {
        if (!std::isfinite(at.psi) || !std::isfinite(largest_magnitude(at.gradient))) break;
        const bool flat = largest_magnitude(at.gradient) <= tolerance;
        if (flat && (m == 0 || is_perfect(at.psi, psi_of_origin))) return ended(FitEnd::fitted);
        const std::vector<double> step =
            ridged_newton_step(at.hessian, share_left(at.psi, psi_of_start), ridge, at.gradient);
        if (step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
        const double predicted = decrease_along(step, at.gradient);
        if (flat && !(predicted > much * std::abs(at.psi))) return ended(FitEnd::fitted);
        if (!(predicted > 0)) break;
        const std::vector<double> along = combined(columns, step);
        const double change = change_along(along);
        if (lowest(at.psi, predicted, change) >= below && stays_above(columns, at, below))
            return ended(FitEnd::not_below);

        // No more to gain: a last step for the digits of x, unless coefficients grow without limit, as where classes
        // are separated.
        const bool last = predicted <= SHOWS * std::abs(at.psi);
        if (last && change >= 1 && !nonconvex_attained_) return ended(FitEnd::fitted);

        const bool far = change > FAR && std::isfinite(change);
        if (steps == 0 && far && largest_magnitude(x) > 0) {
            // Large coefficients held each other; without one of them, samples lie far out where psi hardly bends.
            std::fill(x.begin(), x.end(), 0.0);
            z = origin;
            begin();
            continue;
        }
        double t = far ? FAR / change : 1.0;
        if (infimum_at_infinity_ && n_ >= MANY_ROWS && steps >= PATIENCE && !last) {  // |l''| shortens each step
            const auto moved = [&](double length) {
                for (std::int64_t i = 0; i < n_; ++i) trial[i] = z[i] + length * along[i];
                return value(trial.data(), poll);
            };
            if (moved(2 * t) < moved(t)) t *= 2;
        }
        for (Derivatives next;; t /= 2) {
            if (t < shortest) return ended(FitEnd::failed);
            for (std::int64_t i = 0; i < n_; ++i) trial[i] = z[i] + t * along[i];
            next = differentiate(columns, trial.data(), poll);
            if (last && !(largest_magnitude(next.gradient) < 0.5 * largest_magnitude(at.gradient)))
                return ended(FitEnd::fitted);
            if (next.psi <= at.psi - ARMIJO * t * predicted + LAST_DIGITS * std::abs(at.psi)) {
                at = std::move(next);
                break;
            }
        }
        z.swap(trial);
        for (std::size_t j = 0; j < m; ++j) x[j] += t * step[j];
        if (infimum_at_infinity_) set_ridge();  // the curvature is going to 0, and psi is not
    }
    return ended(infimum_at_infinity_ && largest_magnitude(at.gradient) <= tolerance ? FitEnd::fitted : FitEnd::failed);
}

}  // namespace levelprox
