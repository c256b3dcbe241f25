#include "algorithms/class_fits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cholesky.hpp"
#include "algorithms/exact.hpp"
#include "algorithms/multinomial.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr std::int64_t BLOCK = 256;  // rows at a time
constexpr int STEPS = 40;
constexpr double EPS = std::numeric_limits<double>::epsilon(), INF = std::numeric_limits<double>::infinity();
constexpr double LAST_DIGITS = 4 * EPS, ARMIJO = 1e-4, SHORTEST = 1.0 / 1024;
constexpr double RIDGE = 1e-9;             // of the curvature at the start
constexpr double SHOWS = 1e-12;            // of psi
constexpr double WELL_CONDITIONED = 1e-7;  // least eigenvalue of a Hessian with a unit diagonal

// Divides rows and columns by the roots of the diagonal; empty where an entry of it is not positive.
std::vector<double> to_unit_diagonal(std::size_t N, std::vector<double> &matrix) {
    std::vector<double> unit(N);
    for (std::size_t q = 0; q < N; ++q) {
        const double own = matrix[q * N + q];
        if (!(own > 0) || !std::isfinite(own)) return {};
        unit[q] = 1 / std::sqrt(own);
    }
    for (std::size_t q = 0; q < N; ++q)
        for (std::size_t p = 0; p <= q; ++p) matrix[q * N + p] *= unit[q] * unit[p];
    return unit;
}

bool all_finite(const std::vector<double> &values) {
    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

ClassFits::ClassFits(std::int64_t n, std::int64_t classes, const std::int64_t *label, const double *weight,
                     const double *offset)
    : n_(n), K_(classes), label_(label), weight_(weight), offset_(offset), total_(sum_of(n, weight)) {}

std::vector<double> ClassFits::moved(const std::vector<const double *> &columns, const std::vector<double> &step,
                                     Poll &poll) const {
    std::vector<double> along(std::size_t(n_ * K_));
    for (std::int64_t begin = 0; begin < n_; begin += BLOCK) {
        const std::int64_t end = std::min(n_, begin + BLOCK);
        for (std::size_t j = 0; j < columns.size(); ++j) {
            const double *column = columns[j], *own = &step[j * std::size_t(K_)];
            for (std::int64_t i = begin; i < end; ++i) {
                const double c = column[i];
                double *row = &along[std::size_t(i * K_)];
                for (std::int64_t k = 0; k < K_; ++k) row[k] += c * own[k];
            }
        }
        poll.check();
    }
    return along;
}

double ClassFits::value(const std::vector<double> &margins, const std::vector<double> &x,
                        const std::vector<double> &ridge, Poll &poll) const {
    std::vector<double> p(static_cast<std::size_t>(K_));
    HeadTail sum{0, 0};
    for (std::int64_t i = 0; i < n_; ++i) {
        const double s = weight_ ? weight_[i] : 1.0;
        if (s == 0) continue;
        std::copy_n(&margins[std::size_t(i * K_)], K_, p.begin());
        const HeadTail next = two_sum(sum.head, s * softmax(K_, p.data(), label_[i]));
        sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
        if (i % 4096 == 0) poll.check();
    }
    double psi = (sum.head + sum.tail) / total_;
    for (std::size_t q = 0; !ridge.empty() && q < x.size(); ++q) psi += ridge[q / std::size_t(K_)] * x[q] * x[q];
    return psi;
}

// psi, its gradient and Hessian. What couples classes is a Gram matrix of columns sqrt(s) p_a X_j; what belongs to one
// class is summed by itself, with 1 - p_a as the sum of the others: the difference has no digits where p_a is nearly 1.
ClassFits::Derivatives ClassFits::differentiate(const std::vector<const double *> &columns,
                                                const std::vector<double> &margins, const std::vector<double> &x,
                                                const std::vector<double> &ridge, Poll &poll) const {
    const std::size_t m = columns.size(), K = std::size_t(K_), N = m * K, panels = (N + PANEL - 1) / PANEL;
    Derivatives at;
    at.gradient.assign(N, 0.0);
    at.hessian.assign(N * N, 0.0);
    at.slope.assign(K, 0.0);
    std::vector<double> packed(panels * BLOCK * PANEL), slope(K * BLOCK), bend(K * BLOCK), rooted(K),
        product(PANEL * PANEL);
    std::vector<double> gradient(K * m), own(K * m * m);
    std::vector<const double *> part(m);
    HeadTail sum{0, 0};
    for (std::int64_t begin = 0; begin < n_; begin += BLOCK) {
        const std::int64_t rows = std::min(BLOCK, n_ - begin);
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t i = begin + r;
            const double s = weight_ ? weight_[i] : 1.0, counts = s / total_;
            const double *z = &margins[std::size_t(i * K_)];
            std::copy_n(z, K_, rooted.begin());
            const double loss = softmax(K_, rooted.data(), label_[i]);
            const auto top = std::size_t(std::max_element(rooted.begin(), rooted.end()) - rooted.begin());
            double others = 0, wrong = 0;
            for (std::size_t k = 0; k < K; ++k) {
                if (k != top) others += rooted[k];
                if (std::int64_t(k) != label_[i]) wrong += rooted[k];
            }
            for (std::size_t k = 0; k < K; ++k) {
                const double p = rooted[k];
                const double own_slope = s == 0 ? 0.0 : counts * (std::int64_t(k) == label_[i] ? -wrong : p);
                slope[k * BLOCK + std::size_t(r)] = own_slope;
                bend[k * BLOCK + std::size_t(r)] = counts * p * (k == top ? others : 1 - p);
                if (s != 0) {
                    at.slope[k] += std::abs(own_slope);
                    at.size += std::abs(own_slope * z[k]);
                }
                rooted[k] = std::sqrt(counts) * p;
            }
            std::size_t q = 0;
            for (std::size_t j = 0; j < m; ++j) {
                const double c = columns[j][i];
                for (std::size_t k = 0; k < K; ++k, ++q)
                    packed[(q / PANEL) * BLOCK * PANEL + std::size_t(r) * PANEL + q % PANEL] = c * rooted[k];
            }
            if (s == 0) continue;
            const HeadTail next = two_sum(sum.head, s * loss);
            sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
        }
        for (std::size_t a = 0; a < panels; ++a)
            for (std::size_t b = 0; b <= a; ++b) {
                simd().panel_product(rows, &packed[a * BLOCK * PANEL], &packed[b * BLOCK * PANEL], product.data());
                for (std::size_t t = 0; t < PANEL && a * PANEL + t < N; ++t)
                    for (std::size_t u = 0; u < PANEL && b * PANEL + u < N; ++u)
                        at.hessian[(a * PANEL + t) * N + b * PANEL + u] -= product[t * PANEL + u];
            }
        for (std::size_t j = 0; j < m; ++j) part[j] = columns[j] + begin;
        for (std::size_t k = 0; k < K; ++k)
            simd().normal(rows, std::int64_t(m), part.data(), &slope[k * BLOCK], &bend[k * BLOCK], &gradient[k * m],
                          &own[k * m * m]);
        poll.check();
    }
    at.psi = (sum.head + sum.tail) / total_;
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < K; ++k) {
            at.gradient[j * K + k] = gradient[k * m + j];
            for (std::size_t l = 0; l <= j; ++l) at.hessian[(j * K + k) * N + l * K + k] = own[(k * m + j) * m + l];
        }
    for (std::size_t q = 0; !ridge.empty() && q < N; ++q) {
        const double r = ridge[q / K];
        at.psi += r * x[q] * x[q];
        at.size += 2 * r * x[q] * x[q];
        at.gradient[q] += 2 * r * x[q];
        at.hessian[q * N + q] += 2 * r;
    }
    for (std::size_t q = 0; q < N; ++q)
        for (std::size_t p = 0; p < q; ++p) at.hessian[p * N + q] = at.hessian[q * N + p];
    return at;
}

// The Hessian with the mean curvature of each feature added along a common shift of its coefficients: there psi is
// constant, except for the ridge.
std::vector<double> ClassFits::with_means(const std::vector<double> &hessian) const {
    std::vector<double> matrix = hessian;
    const std::size_t K = std::size_t(K_), N = std::size_t(std::llround(std::sqrt(double(hessian.size()))));
    for (std::size_t j = 0; j < N / K; ++j) {
        double mean = 0;
        for (std::size_t k = 0; k < K; ++k) mean += hessian[(j * K + k) * N + j * K + k] / double(K);
        for (std::size_t a = 0; a < K; ++a)
            for (std::size_t b = 0; b < K; ++b) matrix[(j * K + a) * N + j * K + b] += mean;
    }
    return matrix;
}

ClassFits::Step ClassFits::newton_step(const Derivatives &at, const std::vector<double> &reference) const {
    const std::size_t N = at.gradient.size();
    std::vector<double> matrix = at.hessian;
    for (std::size_t q = 0; q < N; ++q) matrix[q * N + q] += RIDGE * reference[q];
    matrix = with_means(matrix);
    const std::vector<double> unit = to_unit_diagonal(N, matrix);
    if (unit.size() != N || !factorise(N, matrix)) return {};
    Step found;
    found.step.resize(N);
    for (std::size_t q = 0; q < N; ++q) found.step[q] = -unit[q] * at.gradient[q];
    solve_factorised(N, matrix, found.step);
    for (std::size_t q = 0; q < N; ++q) {
        found.step[q] *= unit[q];
        found.gain -= found.step[q] * at.gradient[q];
    }
    if (!all_finite(found.step) || !(found.gain > 0)) return {};
    return found;
}

double ClassFits::largest_change(const std::vector<double> &along) const {
    double largest = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
        const auto [least, most] = std::minmax_element(&along[std::size_t(i * K_)], &along[std::size_t(i * K_)] + K_);
        largest = std::max(largest, *most - *least);
    }
    return largest;
}

// What is left to gain is at most g'H^-1 g times a factor of how far the Newton step changes differences between the
// margins of a sample. Infinite where H is nearly singular.
double ClassFits::gap(const std::vector<const double *> &columns, const Derivatives &at,
                      const std::vector<double> &ridge, Poll &poll) const {
    const std::size_t N = at.gradient.size(), K = std::size_t(K_);
    std::vector<double> matrix = with_means(at.hessian);
    const std::vector<double> unit = to_unit_diagonal(N, matrix);
    if (unit.size() != N) return INF;
    std::vector<double> shifted = matrix;
    for (std::size_t q = 0; q < N; ++q) shifted[q * N + q] -= WELL_CONDITIONED;
    if (!factorise(N, shifted) || !factorise(N, matrix)) return INF;
    std::vector<double> contrast = at.gradient;
    double decrement = 0;
    for (std::size_t j = 0; j < N / K; ++j) {
        double mean = 0;
        for (std::size_t k = 0; k < K; ++k) mean += contrast[j * K + k] / double(K);
        for (std::size_t k = 0; k < K; ++k) contrast[j * K + k] -= mean;
        if (!ridge.empty() && ridge[j] > 0) decrement += double(K) * mean * mean / (2 * ridge[j]);
    }
    std::vector<double> step(N);
    for (std::size_t q = 0; q < N; ++q) step[q] = unit[q] * contrast[q];
    solve_factorised(N, matrix, step);
    for (std::size_t q = 0; q < N; ++q) {
        step[q] *= unit[q];
        decrement += step[q] * contrast[q];
    }
    const double factor = self_concordant_factor(largest_change(moved(columns, step, poll)));
    return decrement >= 0 && std::isfinite(factor) ? factor * decrement : INF;
}

ColumnFit ClassFits::fit(const std::vector<const double *> &columns, std::vector<double> x, double tolerance,
                         double accuracy, double below, const std::vector<double> &noise,
                         const std::vector<double> &ridge, Poll &poll) const {
    const std::size_t N = x.size();
    std::vector<double> origin(std::size_t(n_ * K_));
    if (offset_) std::copy_n(offset_, n_ * K_, origin.begin());
    // The loss does not see the mean of a feature's coefficients, and a ridge is least where it is 0.
    const std::size_t K = std::size_t(K_);
    for (std::size_t j = 0; j < ridge.size(); ++j) {
        double mean = 0;
        for (std::size_t k = 0; k < K; ++k) mean += x[j * K + k] / double(K);
        for (std::size_t k = 0; ridge[j] > 0 && k < K; ++k) x[j * K + k] -= mean;
    }
    ColumnFit found;
    found.margins = moved(columns, x, poll);
    for (std::size_t p = 0; p < origin.size(); ++p) found.margins[p] += origin[p];
    const std::vector<double> zero(N);
    if (!(value(found.margins, x, ridge, poll) <= value(origin, zero, ridge, poll))) {
        x = zero;
        found.margins = origin;
    }
    Derivatives at = differentiate(columns, found.margins, x, ridge, poll);
    const double first = at.psi;
    std::vector<double> reference(N), along, tried(origin.size()), after(N);
    for (std::size_t q = 0; q < N; ++q) reference[q] = at.hessian[q * N + q];
    const auto ended = [&](FitEnd end) {
        found.end = end;
        found.gap = end == FitEnd::fitted ? gap(columns, at, ridge, poll) : INF;
        found.psi = at.psi;
        found.resolution = LAST_DIGITS * (std::abs(at.psi) + at.size);
        found.x = std::move(x);
        found.hessian = std::move(at.hessian);
        return found;
    };
    for (int count = 0; count < STEPS; ++count) {
        double steepest = 0;
        for (double g : at.gradient) steepest = std::max(steepest, std::abs(g));
        const bool flat = steepest <= tolerance;
        if (!std::isfinite(at.psi) || !all_finite(at.gradient)) return ended(FitEnd::failed);
        const Step newton = newton_step(at, reference);
        if (newton.step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
        if ((flat && newton.gain <= 2 * accuracy * std::abs(at.psi)) || newton.gain <= SHOWS * std::abs(at.psi))
            return ended(FitEnd::fitted);
        along = moved(columns, newton.step, poll);
        if (std::isfinite(below) && at.psi - self_concordant_factor(largest_change(along)) * newton.gain > below) {
            // Margins are updated, and keep the rounding of those at the start. Slopes at a minimum times these add up
            // to about 0, and the positive ones of the terms to no more than the loss at the start.
            double resolution = LAST_DIGITS * (std::abs(at.psi) + at.size + 2 * first);
            for (std::size_t q = 0; q < N; ++q) resolution += noise[q / K] * std::abs(x[q]) * at.slope[q % K];
            if (at.psi - gap(columns, at, ridge, poll) - resolution > below) return ended(FitEnd::not_below);
        }
        double t = 1, psi = 0;
        while (true) {
            for (std::size_t p = 0; p < tried.size(); ++p) tried[p] = found.margins[p] + t * along[p];
            for (std::size_t q = 0; q < N; ++q) after[q] = x[q] + t * newton.step[q];
            psi = value(tried, after, ridge, poll);
            if (psi <= at.psi - ARMIJO * t * newton.gain + LAST_DIGITS * std::abs(at.psi)) break;
            t /= 2;
            if (t < SHORTEST) return ended(FitEnd::failed);
        }
        found.margins.swap(tried);
        x.swap(after);
        at = differentiate(columns, found.margins, x, ridge, poll);
    }
    return ended(FitEnd::failed);
}

}  // namespace levelprox
