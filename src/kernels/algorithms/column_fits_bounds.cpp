#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/column_fits.hpp"
#include "algorithms/newton_step.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double LAST_DIGITS = 4 * EPSILON;

// (1 + t) ln(1 + t) - t, for t >= -1.
double relative_entropy(double t) {
    if (std::abs(t) < 1e-3) return t * t * (0.5 - t * (1.0 / 6 - t * (1.0 / 12 - t * (1.0 / 20 - t / 30))));
    return t <= -1 ? 1.0 : (1 + t) * std::log1p(t) - t;
}

}  // namespace

double self_concordant_factor(double rho) {
    constexpr double UP = 1 + 1e-14;
    if (!(rho <= 1)) return INFINITE;
    if (rho == 1) return 1.0;
    if (rho >= 0.1) return UP * (rho + (1 - rho) * std::log1p(-rho)) / (rho * rho) + 4 * EPSILON / rho;
    double power = 1, sum = 0;
    int m = 0;
    for (; m < 14; ++m, power *= rho) sum += power / ((m + 1.0) * (m + 2.0));
    return UP * (sum + power / ((m + 1.0) * (m + 2.0) * (1 - rho)));  // the remainder, as a geometric series
}

// By how much the log of the curvature of a sample may change along a step. Samples without weight may lie anywhere;
// the curvature of a ridge does not change.
double ColumnFits::change_along(const std::vector<double> &along) const {
    if (concordance_ == 0) return 0.0;
    double most = 0;
    for (std::int64_t i = 0; i < samples_; ++i)
        if (!weight_ || share(i) > 0) most = std::max(most, std::abs(along[i]));
    return concordance_ * most;
}

// By how much psi may change where each margin is rounded.
double ColumnFits::resolution(const Derivatives &at, const std::vector<double> &margins) const {
    double sum = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
        const double offset = offset_ ? std::abs(offset_[i]) : 0.0;
        const double target = concordance_ == 1 ? 0.0 : std::abs(target_[i]);  // subtracted from the margin, or not
        const double rounding = LAST_DIGITS * (std::abs(margins[i]) + offset + target);
        sum += std::abs(at.slope[i]) * rounding + 0.5 * std::abs(at.bend[i]) * rounding * rounding;
    }
    return std::isfinite(sum) ? sum + EPSILON * std::max(std::abs(at.psi), at.size) : INFINITE;
}

// Whether a component of the gradient is within the rounding of its sum, or of a column whose entries have errors
// relative to its largest.
bool ColumnFits::is_noise(const Derivatives &at, const Column &column, double gradient, double error) const {
    double size = 0, most = 0, slopes = 0;
    for (std::int64_t p = 0; p < column.count; ++p) {
        const std::int64_t i = column.rows ? column.rows[p] : p;
        if (!(share(i) > 0)) continue;
        const double slope = std::abs(at.slope[i]), entry = std::abs(column.values[p]);
        size += slope * entry;
        slopes += slope;
        most = std::max(most, entry);
    }
    return std::abs(gradient) <= 64 * EPSILON * size + 4 * error * slopes * most;
}

// How far a sample's loss is above what the dual value at v = l'(z) + l''(z) move has of it, and whether v is in the
// domain of the conjugate. If it is not, v is put at the end of the domain that is next to it.
ColumnFits::SampleGap ColumnFits::sample_gap(std::int64_t i, double slope, double bend, double margin,
                                             double move) const {
    if (i >= samples_ && conjugate_ != Conjugate::none) return {move * move, true, 0.0};
    switch (conjugate_) {
        case Conjugate::none: return {INFINITE, true, 0.0};
        case Conjugate::squared: return {move * move, true, 0.0};
        case Conjugate::rising_exponential:
        case Conjugate::falling_exponential: {
            const double t = conjugate_ == Conjugate::rising_exponential ? move : -move;
            return {bend * relative_entropy(t), t >= -1,
                    conjugate_ == Conjugate::rising_exponential ? -target_[i] : 1.0};
        }
        case Conjugate::logistic: {
            const double u = std::min(1.0, std::abs(slope)), rest = u > 0.5 ? bend / u : 1 - u;
            const double first = -rest * target_[i] * move, second = u * target_[i] * move;
            if (first < -1) return {u < 0.5 ? -std::log1p(-u) : -std::log(rest), false, 0.0};
            if (second < -1) return {rest < 0.5 ? -std::log1p(-rest) : -std::log(u), false, -target_[i]};
            return {u * relative_entropy(first) + rest * relative_entropy(second), true, 0.0};
        }
        case Conjugate::huber: {
            const double residual = target_[i] - margin, to = residual - move,
                         short_of = parameter_ - std::abs(residual);
            if (std::abs(to) <= parameter_) return {0.5 * move * move, true, 0.0};
            const double end = std::copysign(parameter_, to),
                         by = to * residual < 0 ? parameter_ + std::abs(residual) : short_of;
            return {0.5 * by * by, false, -end};
        }
        case Conjugate::squared_hinge: {
            const double short_of = 1 - target_[i] * margin;
            return target_[i] * (margin + move) <= 1 ? SampleGap{move * move, true, 0.0}
                                                     : SampleGap{short_of * short_of, false, 0.0};
        }
    }
    return {INFINITE, true, 0.0};
}

// How far psi is above the dual value at v, if v is orthogonal to the columns; infinite where it is not in the domain.
double ColumnFits::gap(const Derivatives &at, const std::vector<double> &margins,
                       const std::vector<double> &along) const {
    double sum = 0;
    std::int64_t first = 0;
    if (conjugate_ == Conjugate::logistic) {
        sum = simd().logistic_gap(samples_, target_, weight_, total_, at.slope.data(), at.bend.data(), along.data());
        first = samples_;
    }
    for (std::int64_t i = first; i < n_ && sum < INFINITE; ++i) {
        const double weight = share(i);
        if (!(weight > 0) || !(at.bend[i] > 0)) continue;
        const SampleGap own = sample_gap(i, at.slope[i] / weight, at.bend[i] / weight, margins[i], along[i]);
        if (!own.inside) return INFINITE;
        sum += weight * own.gap;
    }
    return sum * (1 + 1e-12);
}

// An estimate of the error of a gap: Newton's equations are solved up to rounding, so v is orthogonal to the columns
// only up to rounding. The estimate is a multiple of |<column_j, v> step_j|, summed over the columns.
double ColumnFits::orthogonality_error(const Columns &columns, const Derivatives &at, const std::vector<double> &along,
                                       const std::vector<double> &step) const {
    constexpr double MULTIPLE = 16;
    std::vector<double> v(n_);
    for (std::int64_t i = 0; i < n_; ++i) v[i] = at.slope[i] + at.bend[i] * along[i];
    double sum = 0;
    for (std::size_t j = 0; j < columns.size(); ++j) {
        const Column &column = columns[j];
        double product = 0;
        for (std::int64_t p = 0; p < column.count; ++p)
            product += v[column.rows ? column.rows[p] : p] * column.values[p];
        sum += std::abs(product * step[j]);
    }
    return std::isfinite(sum) ? MULTIPLE * sum : INFINITE;
}

// The gap where some samples leave the domain. They are put at its end, and the others take the step that is orthogonal
// to the columns with them there. Samples with next to no loss, far out in an exponential tail, are put there at once:
// none of them can gain more than its loss, which is at most `spare` together.
double ColumnFits::gap_at_ends(const Columns &columns, const Derivatives &at, const std::vector<double> &margins,
                               std::vector<double> along, double least, double spare, Poll &poll) const {
    constexpr int ROUNDS = 4;
    constexpr double TAIL = 1e-2;  // of a slope of 1
    std::vector<double> step;
    Derivatives rest{at.psi,   at.size, std::vector<double>(columns.size()), std::vector<double>(at.hessian.size()),
                     at.slope, at.bend};
    double fixed = 0;
    const auto fix = [&](std::int64_t i, double gap, double end) {
        fixed += share(i) * gap;
        rest.slope[i] = share(i) * end;
        rest.bend[i] = 0;
    };
    if (conjugate_ == Conjugate::logistic) {
        double bound = 0;
        for (double next = std::min(spare, TAIL); next > 0 && next <= TAIL; next *= 8) {
            double sum = 0;
            for (std::int64_t i = 0; i < samples_; ++i)
                if (std::abs(at.slope[i]) <= next * share(i)) sum += std::abs(at.slope[i]);
            if (!(sum <= 0.9 * spare)) break;
            bound = next;
        }
        for (std::int64_t i = 0; i < samples_; ++i)
            if (at.bend[i] > 0 && std::abs(at.slope[i]) <= bound * share(i))
                fix(i, -std::log1p(-std::abs(at.slope[i]) / share(i)), 0.0);
    }
    if (conjugate_ == Conjugate::rising_exponential)
        for (std::int64_t i = 0; i < samples_; ++i)
            if (target_[i] == 0 && at.bend[i] > 0 && at.bend[i] <= std::min(spare, TAIL) * share(i))
                fix(i, at.bend[i] / share(i), 0.0);
    for (int round = 0; round < ROUNDS; ++round) {
        bool inside = true;
        for (std::int64_t i = 0; i < n_; ++i) {
            if (!(rest.bend[i] > 0)) continue;
            const double weight = share(i);
            const SampleGap own = sample_gap(i, at.slope[i] / weight, at.bend[i] / weight, margins[i], along[i]);
            if (own.inside) continue;
            inside = false;
            fix(i, own.gap, own.end);
        }
        if (inside && round > 0)
            return (fixed + gap(rest, margins, along)) * (1 + 1e-12) + orthogonality_error(columns, rest, along, step);
        add_dense(columns, rest, poll);
        add_sparse(columns, rest, poll);
        const NewtonStep newton = pivoted_newton_step(rest.hessian, 0.0, {}, rest.gradient, least);
        if (newton.step.empty()) return INFINITE;
        for (std::size_t p = 0; p < newton.flat.size(); ++p)
            if (!is_noise(rest, columns[newton.flat[p]], newton.slope[p], 0.0)) return INFINITE;
        step = newton.step;
        along = combined(columns, step);
    }
    return INFINITE;
}

}  // namespace levelprox
