#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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
// Far out along a descent of a bounded loss, at most about so much is left to gain: what a step predicts, times this,
constexpr double LEFT = 32.0;
constexpr double LEFT_NEAR = 16.0, LEFT_SHARE = 0.01;  // or times this, and a share of psi
constexpr double ROUGH = 1e-10;                        // accuracy from which on less is enough
constexpr double ALONG = 1e-6;                         // accuracy of psi along one column
constexpr double GROWTH = 4.0;                         // of coefficients, between two looks at all rows
constexpr int FEW_ROWS = 4;                            // of so many, one
constexpr double NO_SLOPE = 0x1p-36;                   // relative to the largest
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

// Whether a descent of a bounded loss will hardly come to a value: a rule, not a bound.
bool stays_far_above(double psi, double predicted, double below) {
    return psi - std::min(LEFT * predicted, LEFT_NEAR * predicted + LEFT_SHARE * std::abs(psi)) >= below;
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

// Newton's method for a loss that is not convex, from x or, where that is far from where it leads, from 0. Ends,
// `failed`, where a coefficient is beyond `reach`.
ColumnFit ColumnFits::descend(const Columns &columns, std::vector<double> x, double tolerance, double below,
                              double reach, Poll &poll) const {
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

    for (int steps = 0; steps < (is_far_ ? 4 : 1) * MOST_STEPS; ++steps) {
        if (!std::isfinite(at.psi) || !std::isfinite(largest_magnitude(at.gradient))) break;
        if (largest_magnitude(x) > reach) return ended(FitEnd::failed);
        const bool flat = largest_magnitude(at.gradient) <= tolerance;
        if (flat && (m == 0 || is_perfect(at.psi, psi_of_origin))) return ended(FitEnd::fitted);
        const std::vector<double> step =
            ridged_newton_step(at.hessian, share_left(at.psi, psi_of_start), ridge, at.gradient);
        if (step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
        const double predicted = decrease_along(step, at.gradient);
        if (flat && !(predicted > much * std::abs(at.psi))) return ended(FitEnd::fitted);
        if (!(predicted > 0)) break;
        if (is_far_ && stays_far_above(at.psi, predicted, below)) return ended(FitEnd::not_below);
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
        const bool long_run = is_far_ || (infimum_at_infinity_ && n_ >= MANY_ROWS);
        if (long_run && steps >= PATIENCE && !last) {  // |l''| shortens each step
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

// Some of the rows, side by side.
struct ColumnFits::SomeRows {
    SomeRows(const ColumnFits &fits, const Columns &given, const std::vector<std::int64_t> &rows);
    std::vector<double> target, weight, offset;
    Columns columns;

private:
    std::vector<std::vector<double>> values_;
};

ColumnFits::SomeRows::SomeRows(const ColumnFits &fits, const Columns &given, const std::vector<std::int64_t> &rows) {
    const auto gathered = [&](const double *from, double otherwise) {
        std::vector<double> values(rows.size(), otherwise);
        for (std::size_t p = 0; from && p < rows.size(); ++p) values[p] = from[rows[p]];
        return values;
    };
    target = gathered(fits.target_, 0.0);
    weight = gathered(fits.weight_, 1.0);
    offset = gathered(fits.offset_, 0.0);
    std::vector<double> whole;
    for (const Column &column : given) {
        if (column.rows) {
            whole.assign(std::size_t(fits.n_), 0.0);
            for (std::int64_t p = 0; p < column.count; ++p) whole[std::size_t(column.rows[p])] = column.values[p];
        }
        values_.push_back(gathered(column.rows ? whole.data() : column.values, 0.0));
    }
    for (const std::vector<double> &values : values_)
        columns.push_back({values.data(), nullptr, std::int64_t(values.size())});
}

// The mean is still that over all rows: psi is what these add to it.
ColumnFits::ColumnFits(const ColumnFits &other, const SomeRows &rows) : ColumnFits(other) {
    n_ = samples_ = std::int64_t(rows.target.size());
    target_ = rows.target.data();
    weight_ = rows.weight.data();
    offset_ = rows.offset.data();
    equal_samples_.reset();
}

// The least psi along each column by itself for a bounded loss and many samples: only rows that a column changes count.
std::vector<double> ColumnFits::least_along_far(const Columns &columns, const double *margins, Poll &poll) const {
    const ColumnFits here(*this, margins);
    const double psi = value(margins, poll);
    std::vector<double> least;
    for (const Column &column : columns) {
        std::vector<std::int64_t> rows(std::size_t(column.count));
        if (column.rows) std::copy_n(column.rows, column.count, rows.data());
        else std::iota(rows.begin(), rows.end(), std::int64_t(0));
        const SomeRows some(here, {column}, rows);
        const ColumnFits part(here, some);
        const double before = part.value(some.offset.data(), poll);
        const ColumnFit found = part.n_ >= FAR_ROWS ? part.descend_far(some.columns, {0.0}, 0.0, ALONG, INFINITE, poll)
                                                    : part.descend(some.columns, {0.0}, 0.0, INFINITE, INFINITE, poll);
        least.push_back(std::isfinite(found.psi) ? psi + (found.psi - before) : INFINITE);
    }
    return least;
}

// The same for many rows of a bounded loss, where psi falls as coefficients grow. Once only few rows have a slope,
// steps are over these, until coefficients have grown by so much that others count.
ColumnFit ColumnFits::descend_far(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                                  double below, Poll &poll) const {
    const std::size_t m = columns.size();
    const double shows = accuracy >= ROUGH ? std::sqrt(accuracy) : SHOWS;
    std::vector<double> trial(n_);
    const auto margins_of = [&](const std::vector<double> &coefficients) {
        std::vector<double> margins = combined(columns, coefficients);
        for (std::int64_t i = 0; offset_ && i < n_; ++i) margins[i] += offset_[i];
        return margins;
    };
    std::vector<double> z = margins_of(x);
    Derivatives at = differentiate(columns, z.data(), poll);
    const auto ended = [&](FitEnd how) {
        mirror(m, at.hessian);
        const double rounding = resolution(at, z);
        return ColumnFit{how, std::move(x), std::move(z), std::move(at.hessian), at.psi, INFINITE, rounding};
    };
    double t = 1.0;
    for (int steps = 0; steps < MOST_STEPS; ++steps) {
        if (!std::isfinite(at.psi) || !std::isfinite(largest_magnitude(at.gradient))) return ended(FitEnd::failed);
        const bool flat = largest_magnitude(at.gradient) <= tolerance;
        if (flat && m == 0) return ended(FitEnd::fitted);
        const double size = largest_magnitude(x);
        std::vector<double> ridge(m);
        for (std::size_t j = 0; j < m; ++j) ridge[j] = RIDGE * at.hessian[j * m + j];
        std::vector<double> step = ridged_newton_step(at.hessian, 1.0, ridge, at.gradient);
        if (step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
        const double predicted = decrease_along(step, at.gradient);
        if (!(predicted > shows * std::abs(at.psi))) return ended(FitEnd::fitted);
        if (stays_far_above(at.psi, predicted, below)) return ended(FitEnd::not_below);

        const std::vector<std::int64_t> rows = rows_with_slope(at);
        if (std::int64_t(rows.size()) <= n_ / FEW_ROWS) {
            const SomeRows some(*this, columns, rows);
            const double reach = size > 0 ? GROWTH * size : INFINITE;
            const ColumnFits part(*this, some);
            std::vector<double> there(rows.size());
            for (std::size_t p = 0; p < rows.size(); ++p) there[p] = z[rows[p]];
            const double others = at.psi - part.value(there.data(), poll);
            ColumnFit found = part.descend(some.columns, x, tolerance, below - others, reach, poll);
            if (found.end == FitEnd::not_below) return ended(FitEnd::not_below);
            std::vector<double> margins = margins_of(found.x);
            Derivatives next = differentiate(columns, margins.data(), poll);
            if (!(next.psi < at.psi)) return ended(flat ? FitEnd::fitted : FitEnd::failed);
            at = std::move(next);
            z = std::move(margins);
            x = std::move(found.x);
            continue;
        }
        const std::vector<double> along = combined(columns, step);
        const auto moved = [&](double length) {
            for (std::int64_t i = 0; i < n_; ++i) trial[i] = z[i] + length * along[i];
            return value(trial.data(), poll);
        };
        const double most = size > 0 ? size / largest_magnitude(step) : 1.0;  // by how much |l''| shortens a step
        t = std::max(std::min(t, most), 1.0);
        double here = moved(t);
        while (here > at.psi - ARMIJO * t * predicted) {
            t /= 2;
            if (t < SHORTEST_OF_FAR) return ended(FitEnd::failed);
            here = moved(t);
        }
        for (double next; 2 * t <= most && (next = moved(2 * t)) < here; here = next) t *= 2;
        for (std::int64_t i = 0; i < n_; ++i) z[i] += t * along[i];
        for (std::size_t j = 0; j < m; ++j) x[j] += t * step[j];
        at = differentiate(columns, z.data(), poll);
    }
    return ended(FitEnd::failed);
}

// The rows whose slope is not negligible.
std::vector<std::int64_t> ColumnFits::rows_with_slope(const Derivatives &at) const {
    std::vector<std::int64_t> rows;
    const double least = NO_SLOPE * largest_magnitude(at.slope);
    for (std::int64_t i = 0; i < n_; ++i)
        if (std::abs(at.slope[i]) > least) rows.push_back(i);
    return rows;
}

}  // namespace levelprox
