#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/kinked_refit.hpp"

namespace levelprox {
namespace {

constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double BEYOND_KINK_FACTOR = 4.0;  // times the rounding of a margin: how far from its kink it is safe
constexpr double HINGE_REACH_FACTOR = 16.0;
constexpr double SHARE_OF_REMOVAL = 1 - 1e-9;
constexpr std::size_t MANY_SAMPLES = 2000;  // from which a simple bound on rounding is tried first
constexpr double NOT_ORTHONORMAL = 1e-3;    // of a bound: by how much coordinates may miss

// Solves a small system, with residuals in extended precision; a nearly least squares solution where it is singular.
std::vector<double> solved(std::size_t m, const std::vector<double> &matrix, const std::vector<double> &right) {
    std::vector<double> inverse = inverse_of(m, matrix), x(m);
    if (inverse.empty()) {
        std::vector<double> normal(m * m);
        double trace = 0;
        for (std::size_t r = 0; r < m; ++r)
            for (std::size_t c = 0; c < m; ++c)
                for (std::size_t k = 0; k < m; ++k) normal[r * m + c] += matrix[k * m + r] * matrix[k * m + c];
        for (std::size_t r = 0; r < m; ++r) trace += normal[r * m + r];
        for (std::size_t r = 0; r < m; ++r) normal[r * m + r] += 1e-13 * (trace > 0 ? trace : 1.0);
        const std::vector<double> pseudo = inverse_of(m, normal);
        if (pseudo.empty()) return x;
        inverse.assign(m * m, 0.0);
        for (std::size_t r = 0; r < m; ++r)
            for (std::size_t c = 0; c < m; ++c)
                for (std::size_t k = 0; k < m; ++k) inverse[r * m + c] += pseudo[r * m + k] * matrix[c * m + k];
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<double> missed(m);
        for (std::size_t r = 0; r < m; ++r) {
            long double left = right[r];
            for (std::size_t c = 0; c < m; ++c) left -= (long double)(matrix[r * m + c]) * (long double)(x[c]);
            missed[r] = double(left);
        }
        for (std::size_t r = 0; r < m; ++r)
            for (std::size_t c = 0; c < m; ++c) x[r] += inverse[r * m + c] * missed[c];
    }
    return x;
}

}  // namespace

std::vector<double> KinkedRefit::inverse(const std::vector<std::size_t> &basis) const {
    std::vector<double> matrix(dimension_ * dimension_);
    for (std::size_t p = 0; p < dimension_; ++p)
        for (std::size_t r = 0; r < dimension_; ++r) matrix[p * dimension_ + r] = row(basis[p], r);
    std::vector<double> found = inverse_of(dimension_, matrix);
    return found.empty() ? std::vector<double>(dimension_ * dimension_) : found;
}

// The vertex of a basis, with the kinks where they are, and its error by u.
KinkedFit KinkedRefit::vertex(const Dual &dual) const {
    KinkedFit fit;
    fit.x = coefficients(dual.basis, nullptr);
    evaluate(fit);
    if (samples_.flattest == 0 && fit.rounding > KINKED_ROUNDING_SHARE * fit.psi) {
        // Rounding of margins on the flat side costs nothing.
        std::vector<double> by(n_);
        for (std::size_t i = 0; i < n_; ++i) by[i] = BEYOND_KINK_FACTOR * change(i, fit.x);
        KinkedFit other;
        other.x = coefficients(dual.basis, by.data());
        evaluate(other);
        if (other.psi + other.rounding < fit.psi + fit.rounding) fit = std::move(other);
    }

    // u of the basis again, from the columns as they are.
    Dual now = dual;
    std::vector<double> products = columns_.products(now.u.data()), left = imbalance(products, now.u);
    const std::vector<double> inverse = this->inverse(now.basis);
    for (int repeat = 0; repeat < 2; ++repeat) {
        for (std::size_t p = 0; p < now.basis.size(); ++p) {
            const std::size_t i = now.basis[p];
            double slope = now.u[i];
            for (std::size_t r = 0; r < dimension_; ++r) slope -= left[r] * inverse[r * dimension_ + p];
            slope = std::clamp(slope, low_[i], high_[i]);
            for (std::size_t j = 0; i < n_ && j < m_; ++j) products[j] += (slope - now.u[i]) * columns_.column(j)[i];
            now.u[i] = slope;
        }
        left = imbalance(products, now.u);
    }
    fit.slopes.assign(std::size_t(columns_.all_rows()), 0.0);
    for (std::size_t i = 0; i < n_; ++i) fit.slopes[counted(i)] = now.u[i] / columns_.share()[i];
    const double gap = this->gap(fit, now.u, left);
    fit.removal = gap < fit.psi ? removal(fit.x, now, inverse) : std::vector<double>(m_);
    fit.error = std::min(gap, fit.psi) + fit.rounding;  // no psi is below 0
    return fit;
}

// The coefficients at which all rows of a basis are at their kinks; or beyond, where psi is flat.
std::vector<double> KinkedRefit::coefficients(const std::vector<std::size_t> &basis, const double *beyond) const {
    std::vector<std::size_t> samples, free;
    std::vector<bool> held(m_, true);
    for (const std::size_t j : at_.kept) held[j] = false;
    for (const std::size_t i : basis) {
        if (i < n_) samples.push_back(i);
        else held[at_.kept[i - n_]] = true;
    }
    for (std::size_t j = 0; j < m_; ++j)
        if (!held[j]) free.push_back(j);
    const std::size_t size = free.size();
    std::vector<double> x(m_), matrix(size * size), right(size);
    for (std::size_t p = 0; p < size; ++p) {
        const std::size_t i = samples[p];
        for (std::size_t c = 0; c < size; ++c)
            matrix[p * size + c] = columns_.column(free[c])[i] / columns_.unit(free[c]);
        right[p] = kinks_[i] + (beyond ? (low_[i] == 0 ? -beyond[i] : beyond[i]) : 0.0);
    }
    const std::vector<double> found = solved(size, matrix, right);
    for (std::size_t c = 0; c < size; ++c) x[free[c]] = found[c];
    for (std::size_t j = 0; j < m_; ++j)
        x[j] = (columns_.nonnegative(j) ? std::max(x[j], 0.0) : x[j]) / columns_.unit(j);
    return x;
}

// Margins, psi and its rounding at the x of a fit.
void KinkedRefit::evaluate(KinkedFit &fit) const {
    const auto all = std::size_t(columns_.all_rows());
    const auto measure = [&] {
        fit.psi = samples_.value(fit.margins.data());
        fit.rounding = rounding(fit);
    };
    fit.margins.assign(samples_.origin, samples_.origin + all);
    columns_.add_whole_to(fit.margins, fit.x);
    measure();
    if (!(fit.rounding > KINKED_ROUNDING_SHARE * fit.psi)) return;
    std::vector<long double> exact(samples_.origin, samples_.origin + all);
    for (std::size_t j = 0; j < m_; ++j)
        for (std::size_t i = 0; i < all; ++i) exact[i] += (long double)(fit.x[j]) * (long double)(columns_.whole(j)[i]);
    std::copy(exact.begin(), exact.end(), fit.margins.begin());
    measure();
}

// How far rounding may move the margin of a sample at x.
double KinkedRefit::change(std::size_t i, const std::vector<double> &x) const {
    double terms = std::abs(target(i)) + std::abs(samples_.origin[counted(i)]);
    for (std::size_t j = 0; j < m_; ++j)
        terms += std::abs(x[j]) * noise_[j] / EPSILON + std::abs(x[j] * columns_.column(j)[i]);
    return 2 * EPSILON * terms;
}

// How far psi may be off by rounding.
double KinkedRefit::rounding(const KinkedFit &fit) const {
    if (n_ >= MANY_SAMPLES) {
        double terms = samples_.mean_size;
        for (std::size_t j = 0; j < m_; ++j)
            terms += std::abs(fit.x[j]) * (noise_[j] / EPSILON + columns_.mean_size(j) * columns_.unit(j));
        const double most = 2 * EPSILON * samples_.steepest * terms;
        if (most <= 1e-3 * KINKED_ROUNDING_SHARE * fit.psi) return most;
    }
    double sum = 0;
    const auto value = [&](std::size_t i, double s) { return std::max(low_[i] * s, high_[i] * s); };
    for (std::size_t i = 0; i < n_; ++i) {
        const double s = fit.margins[counted(i)] - target(i), by = change(i, fit.x);
        sum += std::max(value(i, s - by), value(i, s + by)) - value(i, s);
    }
    return sum;
}

std::vector<double> KinkedRefit::residuals(const std::vector<double> &margins) const {
    std::vector<double> s(n_);
    for (std::size_t i = 0; i < n_; ++i) s[i] = margins[counted(i)] - target(i);
    return s;
}

// The sum of all rows times u, from the products of the columns with u.
std::vector<double> KinkedRefit::imbalance(const std::vector<double> &products, const std::vector<double> &u) const {
    std::vector<double> left(dimension_);
    for (std::size_t r = 0; r < dimension_; ++r) {
        for (std::size_t j = 0; j < m_; ++j) left[r] += at_.at(j, r) * (products[j] / columns_.unit(j));
        for (std::size_t i = n_; i < u.size(); ++i)
            if (u[i] != 0) left[r] += row(i, r) * u[i];
    }
    return left;
}

// A bound on psi(x) - min psi, up to the rounding of psi(x).
double KinkedRefit::gap(const KinkedFit &fit, const std::vector<double> &u, const std::vector<double> &left) const {
    const std::vector<double> s = residuals(fit.margins);
    double gap = 0, largest = 0, beside = 0;
    for (std::size_t i = 0; i < n_; ++i) gap += std::max(low_[i] * s[i], high_[i] * s[i]) - u[i] * s[i];
    for (std::size_t p = 0; p < at_.kept.size(); ++p)
        gap -= u[n_ + p] * (fit.x[at_.kept[p]] * columns_.unit(at_.kept[p])) / at_.length[p];
    for (std::size_t j = 0; j < m_; ++j) largest = std::max(largest, std::abs(fit.x[j] * columns_.unit(j)));
    for (std::size_t r = at_.rank; r < dimension_; ++r) beside += std::abs(left[r]);
    gap += 2 * beside * largest;
    const double reach = samples_.flattest > 0 ? 2 * fit.psi / samples_.flattest
                                               : HINGE_REACH_FACTOR * (mean_size(s) + mean_size(kinks_));
    double most = 0;  // max |<q_i, left>|
    if (at_.vectors.empty()) {
        for (std::size_t j = 0; j < m_; ++j) {  // entries are at most 1 in their units
            double coefficient = 0;
            for (std::size_t r = 0; r < dimension_; ++r) coefficient += at_.at(j, r) * left[r];
            most += (1 + NOT_ORTHONORMAL) * std::abs(coefficient);
        }
    } else {
        for (const double moved : along(left)) most = std::max(most, std::abs(moved));
    }
    return gap + reach * most;
}

// A bound on what min psi rises by where one coefficient is set to 0.
//
// Any u with sum_i u_i a_i = t e_j bounds psi where x_j = 0, by -t x_j more than u with t = 0. u_B is changed until the
// first of its numbers reaches a bound.
std::vector<double> KinkedRefit::removal(const std::vector<double> &x, const Dual &dual,
                                         const std::vector<double> &inverse) const {
    std::vector<double> found(m_);
    for (std::size_t j = 0; j < m_; ++j) {
        if (x[j] == 0 || at_.replaced[j]) continue;
        double room = INFINITE;
        for (std::size_t p = 0; p < dimension_; ++p) {
            const std::size_t i = dual.basis[p];
            double step = 0;
            for (std::size_t r = 0; r < dimension_; ++r) step += at_.at(j, r) * inverse[r * dimension_ + p];
            step *= x[j] > 0 ? -1.0 : 1.0;
            if (step > 0) room = std::min(room, std::max(high_[i] - dual.u[i], 0.0) / step);
            if (step < 0) room = std::min(room, std::max(dual.u[i] - low_[i], 0.0) / -step);
        }
        const double rise = std::abs(x[j]) * columns_.unit(j) * room;
        found[j] = std::isfinite(rise) ? rise * SHARE_OF_REMOVAL : 0.0;
    }
    return found;
}

}  // namespace levelprox
