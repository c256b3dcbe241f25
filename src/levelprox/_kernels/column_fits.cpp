#include "column_fits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cholesky.hpp"
#include "exact.hpp"
#include "simd.hpp"

namespace levelprox {
namespace {

constexpr std::int64_t BLOCK = 256;  // rows
constexpr int MOST_STEPS = 100;           // many only where classes are separated
constexpr double SHOWS = 1e-12;           // of psi
constexpr double PERFECT = 1e-12;         // of psi at 0: nothing is left to explain
constexpr double MUCH = 1e-3;             // of psi: a small gradient promises so much only where psi itself is going to 0
constexpr double RIDGE = 1e-9;            // of the curvature at the start, and less as psi falls
constexpr double FAR = 20.0;              // by how much the log of the curvature may change in a step
constexpr double ARMIJO = 1e-4;
constexpr double SHORTEST = 1.0 / 1024;   // of a Newton step
constexpr double SHORTEST_OF_FAR = 0x1p-60;  // the same where a step may lead anywhere
constexpr double LAST_DIGITS = 4 * std::numeric_limits<double>::epsilon();

double largest(const std::vector<double> &v) {
    double most = 0;
    for (const double entry : v) most = std::max(most, std::abs(entry));
    return most;
}

// Not every loss is bounded by 0: where one is below, nothing is perfect, and shares mean nothing.
bool is_perfect(double psi, double origin) { return psi >= 0 && psi <= PERFECT * origin; }
double share_left(double psi, double start) { return psi >= 0 && psi < start ? psi / start : 1.0; }

// -(H + share diag(ridge))^-1 g, H's lower triangle given; empty where H is not positive definite.
std::vector<double> newton_step(std::vector<double> H, double share, const std::vector<double> &ridge, const std::vector<double> &g) {
    const std::size_t m = g.size();
    std::vector<double> unit(m), step(m);
    for (std::size_t j = 0; j < m; ++j) {
        H[j * m + j] += share * ridge[j];
        if (!(H[j * m + j] > 0)) return {};
        unit[j] = std::sqrt(H[j * m + j]);
    }
    for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t k = 0; k < j; ++k) H[j * m + k] /= unit[j] * unit[k];
        H[j * m + j] = 1;
        step[j] = -g[j] / unit[j];
    }
    if (!factorise(m, H)) return {};
    solve_factorised(m, H, step);
    for (std::size_t j = 0; j < m; ++j) {
        step[j] /= unit[j];
        if (!std::isfinite(step[j])) return {};
    }
    return step;
}

// What the second-order model says psi falls by, twice.
double fall_along(const std::vector<double> &step, const std::vector<double> &gradient) {
    double fall = 0;
    for (std::size_t j = 0; j < step.size(); ++j) fall -= step[j] * gradient[j];
    return fall;
}

double lowest(double psi, double foretold, double change) {
    return change < 1 ? psi - 0.5 * foretold / (1 - change) : -std::numeric_limits<double>::infinity();
}

void mirror(std::size_t m, std::vector<double> &H) {
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < j; ++k) H[k * m + j] = H[j * m + k];
}

}  // namespace

ColumnFits::ColumnFits(std::int64_t n, std::unique_ptr<Loss> loss, double concordance, const double *target, const double *weight, const double *offset,
                       bool convex, bool attained)
    : n_(n), loss_(std::move(loss)), concordance_(concordance), total_(double(n)), target_(target), weight_(weight), offset_(offset),
      falls_(!convex && !attained), bends_both_ways_(!convex && attained) {
    if (!weight) return;
    const HeadTail sum = compensated_sum(n, weight);
    total_ = sum.head + sum.tail;
}

std::vector<double> ColumnFits::combined(const Columns &columns, const std::vector<double> &x) const {
    std::vector<double> z(n_);
    for (std::size_t j = 0; j < x.size(); ++j) {
        const Column &column = columns[j];
        if (x[j] == 0) continue;
        if (!column.rows) simd().dense<double>().add(n_, x[j], column.values, z.data());
        else
            for (std::int64_t p = 0; p < column.count; ++p) z[column.rows[p]] += x[j] * column.values[p];
    }
    return z;
}

// psi, and what each sample adds to the gradient and to the Hessian of the margins.
double ColumnFits::derivatives(const double *margins, bool convex, double *slope, double *bend, Poll &poll) const {
    HeadTail sum{0, 0};
    double value[BLOCK];
    for (std::int64_t begin = 0; begin < n_; begin += BLOCK) {
        const std::int64_t rows = std::min(BLOCK, n_ - begin);
        loss_->evaluate(rows, margins + begin, target_ + begin, value, slope + begin, bend + begin);
        for (std::int64_t i = 0; i < rows; ++i) {
            const double weight = weight_ ? weight_[begin + i] : 1.0;
            // A sample without weight is not there, even where its loss is infinite.
            value[i] = weight == 0 ? 0.0 : weight * value[i];
            slope[begin + i] = weight == 0 ? 0.0 : slope[begin + i] * (weight / total_);
            bend[begin + i] = weight == 0 ? 0.0 : (convex ? std::abs(bend[begin + i]) : bend[begin + i]) * (weight / total_);
        }
        const HeadTail part = compensated_sum(rows, value);
        add_to(sum, part.head);
        add_to(sum, part.tail);
        poll.check();
    }
    return (sum.head + sum.tail) / total_;
}

// The dense columns among themselves.
void ColumnFits::add_dense(const Columns &columns, const double *slope, const double *bend, Look &seen, Poll &poll) const {
    const std::size_t m = columns.size();
    std::vector<std::size_t> places;
    for (std::size_t j = 0; j < m; ++j)
        if (!columns[j].rows) places.push_back(j);
    const std::size_t dense = places.size();
    std::vector<double> gradient(dense), hessian(dense * dense);
    std::vector<const double *> here(dense);
    for (std::int64_t begin = 0; dense && begin < n_; begin += BLOCK) {
        for (std::size_t j = 0; j < dense; ++j) here[j] = columns[places[j]].values + begin;
        simd().normal(std::min(BLOCK, n_ - begin), std::int64_t(dense), here.data(), slope + begin, bend + begin, gradient.data(), hessian.data());
        poll.check();
    }
    for (std::size_t j = 0; j < dense; ++j) {
        seen.gradient[places[j]] = gradient[j];
        for (std::size_t k = 0; k <= j; ++k) seen.hessian[places[j] * m + places[k]] = hessian[j * dense + k];
    }
}

// Each sparse column with all others: bent, and spread over all rows while the others look up theirs.
void ColumnFits::add_sparse(const Columns &columns, const double *slope, const double *bend, Look &seen, Poll &poll) const {
    const std::size_t m = columns.size();
    std::vector<double> bent(n_);
    const auto dot = [](const Column &column, const double *other) {
        double sum[4] = {}, rest = 0;
        std::int64_t p = 0;
        for (; p + 4 <= column.count; p += 4)
            for (int k = 0; k < 4; ++k) sum[k] += column.values[p + k] * other[column.rows[p + k]];
        for (; p < column.count; ++p) rest += column.values[p] * other[column.rows[p]];
        return ((sum[0] + sum[2]) + (sum[1] + sum[3])) + rest;
    };
    for (std::size_t j = 0; j < m; ++j) {
        const Column &column = columns[j];
        if (!column.rows) continue;
        seen.gradient[j] = dot(column, slope);
        for (std::int64_t p = 0; p < column.count; ++p) bent[column.rows[p]] = bend[column.rows[p]] * column.values[p];
        for (std::size_t k = 0; k < m; ++k) {
            const bool both = columns[k].rows != nullptr;
            if (both && k > j) continue;
            double sum = 0;
            if (both) sum = dot(columns[k], bent.data());
            else
                for (std::int64_t p = 0; p < column.count; ++p) sum += bent[column.rows[p]] * columns[k].values[column.rows[p]];
            seen.hessian[std::max(j, k) * m + std::min(j, k)] = sum;
        }
        for (std::int64_t p = 0; p < column.count; ++p) bent[column.rows[p]] = 0;
        poll.check();
    }
}

ColumnFits::Look ColumnFits::look(const Columns &columns, const double *margins, Poll &poll) const {
    if (bends_both_ways_) {
        Look seen = look(columns, margins, false, poll);
        const std::vector<double> no_ridge(columns.size());
        if (!newton_step(seen.hessian, 0.0, no_ridge, seen.gradient).empty()) return seen;
    }
    return look(columns, margins, true, poll);
}

ColumnFits::Look ColumnFits::look(const Columns &columns, const double *margins, bool convex, Poll &poll) const {
    const std::size_t m = columns.size();
    Look seen{0, std::vector<double>(m), std::vector<double>(m * m)};
    std::vector<double> slope(n_), bend(n_);
    seen.psi = derivatives(margins, convex, slope.data(), bend.data(), poll);
    add_dense(columns, slope.data(), bend.data(), seen, poll);
    add_sparse(columns, slope.data(), bend.data(), seen, poll);
    return seen;
}

double ColumnFits::change_along(const std::vector<double> &along) const { return concordance_ == 0 ? 0.0 : concordance_ * largest(along); }

// l'(z) + l''(z) A step is orthogonal to all columns, hence feasible in the dual of this fit, and there the curvature 1/l''
// of the conjugate has grown by at most 1/(1 - change). That is so for Newton's own step alone: with a ridge, columns that
// all but depend on each other are promised far less than they gain.
bool ColumnFits::stays_above(const Columns &columns, const Look &at, double below) const {
    const std::vector<double> step = newton_step(at.hessian, 0.0, std::vector<double>(at.gradient.size()), at.gradient);
    return !step.empty() && lowest(at.psi, fall_along(step, at.gradient), change_along(combined(columns, step))) >= below;
}

ColumnFit ColumnFits::fit(const Columns &columns, std::vector<double> x, double tolerance, double below, Poll &poll) const {
    const std::size_t m = columns.size();
    std::vector<double> origin(n_);
    if (offset_) std::copy_n(offset_, n_, origin.data());
    std::vector<double> z = combined(columns, x), trial(n_);
    for (std::int64_t i = 0; i < n_; ++i) z[i] += origin[i];

    Look at;
    std::vector<double> ridge(m);
    double psi_of_start = 0;
    const double much = falls_ ? SHOWS : MUCH, shortest = falls_ ? SHORTEST_OF_FAR : SHORTEST;
    const auto set_ridge = [&] {
        for (std::size_t j = 0; j < m; ++j) ridge[j] = RIDGE * at.hessian[j * m + j];
    };
    const auto begin = [&] {
        at = look(columns, z.data(), poll);
        psi_of_start = at.psi;
        set_ridge();
    };
    begin();
    const double psi_of_origin = look({}, origin.data(), poll).psi;
    const auto ended = [&](FitEnd how) {
        mirror(m, at.hessian);
        return ColumnFit{how, std::move(x), std::move(z), std::move(at.hessian), at.psi};
    };

    for (int steps = 0; steps < MOST_STEPS; ++steps) {
        if (!std::isfinite(at.psi) || !std::isfinite(largest(at.gradient))) break;
        const bool flat = largest(at.gradient) <= tolerance;
        if (flat && (m == 0 || is_perfect(at.psi, psi_of_origin))) return ended(FitEnd::fitted);
        const std::vector<double> step = newton_step(at.hessian, share_left(at.psi, psi_of_start), ridge, at.gradient);
        if (step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
        const double foretold = fall_along(step, at.gradient);
        if (flat && !(foretold > much * std::abs(at.psi))) return ended(FitEnd::fitted);
        if (!(foretold > 0)) break;
        const std::vector<double> along = combined(columns, step);
        const double change = change_along(along);
        if (lowest(at.psi, foretold, change) >= below && stays_above(columns, at, below)) return ended(FitEnd::not_below);

        // No more to gain: a last step for the digits of x, unless coefficients grow for ever, as where classes are separated.
        const bool last = foretold <= SHOWS * std::abs(at.psi);
        if (last && change >= 1 && !bends_both_ways_) return ended(FitEnd::fitted);

        const bool far = change > FAR && std::isfinite(change);
        if (steps == 0 && far && largest(x) > 0) {
            // Large coefficients held each other; without one of them, samples lie far out where psi hardly bends.
            std::fill(x.begin(), x.end(), 0.0);
            z = origin;
            begin();
            continue;
        }
        double t = far ? FAR / change : 1.0;
        for (Look next;; t /= 2) {
            if (t < shortest) return ended(FitEnd::failed);
            for (std::int64_t i = 0; i < n_; ++i) trial[i] = z[i] + t * along[i];
            next = look(columns, trial.data(), poll);
            if (last && !(largest(next.gradient) < 0.5 * largest(at.gradient))) return ended(FitEnd::fitted);
            if (next.psi <= at.psi - ARMIJO * t * foretold + LAST_DIGITS * std::abs(at.psi)) {
                at = std::move(next);
                break;
            }
        }
        z.swap(trial);
        for (std::size_t j = 0; j < m; ++j) x[j] += t * step[j];
        if (falls_) set_ridge();  // the curvature is going to 0, and psi is not
    }
    return ended(falls_ && largest(at.gradient) <= tolerance ? FitEnd::fitted : FitEnd::failed);
}

}  // namespace levelprox
