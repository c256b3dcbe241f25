#include "algorithms/class_fits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cholesky.hpp"
#include "algorithms/class_system.hpp"

namespace levelprox {
namespace {

constexpr int STEPS = 40;
constexpr double EPS = std::numeric_limits<double>::epsilon(), INF = std::numeric_limits<double>::infinity();
constexpr double LAST_DIGITS = 4 * EPS, ARMIJO = 1e-4, SHORTEST = 1.0 / 1024;
constexpr double CG_RESIDUAL = 1e-4;         // of the squared residual: what is left of it
constexpr std::size_t FEW_COORDINATES = 60;  // up to which every step has its own Hessian
constexpr double RIDGE = 1e-9;               // of the curvature at the start
constexpr double SHOWS = 1e-12;              // of psi
constexpr double WELL_CONDITIONED = 1e-7;    // least eigenvalue of a Hessian with a unit diagonal

bool all_finite(const std::vector<double> &values) {
    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

ClassFits::Step ClassFits::newton_step(const Derivatives &at, const std::vector<double> &reference,
                                       NewtonSteps &steps) const {
    const std::size_t N = at.gradient.size();
    std::vector<double> matrix = with_means(K(), at.hessian);
    for (std::size_t q = 0; q < N; ++q) matrix[q * N + q] += RIDGE * reference[q];
    std::vector<double> unit = to_unit_diagonal(N, matrix);
    if (unit.size() != N || !factorise(N, matrix)) return {};
    steps.use(std::move(matrix), std::move(unit));
    Step found{steps.solve(at.gradient)};
    for (double &value : found.step) value = -value;
    return std::move(found).of(at.gradient);
}

// What is left to gain is at most g'H^-1 g times a factor of how far the Newton step changes differences between the
// margins of a sample. Infinite where H is nearly singular.
double ClassFits::gap(const ColumnPointers &columns, const Derivatives &at, const std::vector<double> &ridge,
                      Poll &poll) const {
    const std::size_t N = at.gradient.size(), K = this->K();
    std::vector<double> matrix = with_means(K, at.hessian);
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
    std::vector<double> along(samples_.origin().size());
    samples_.move(columns, step, along, poll);
    const double factor = self_concordant_factor(samples_.largest_change(along));
    return decrement >= 0 && std::isfinite(factor) ? factor * decrement : INF;
}

ClassFits::Step ClassFits::Step::of(const std::vector<double> &gradient) && {
    for (std::size_t q = 0; q < step.size(); ++q) gain -= step[q] * gradient[q];
    if (!all_finite(step) || !(gain > 0)) return {};
    return std::move(*this);
}

double ClassFits::loss_of_origin(Poll &poll) const {
    double loss = loss_of_origin_.load();
    if (std::isnan(loss)) loss_of_origin_ = loss = samples_.at(samples_.origin(), poll).loss;
    return loss;
}

ColumnFit ClassFits::fit(const ColumnPointers &columns, std::vector<double> x, double tolerance, double accuracy,
                         double below, const std::vector<double> &noise, const std::vector<double> &ridge,
                         Poll &poll) const {
    const std::size_t N = x.size();
    // The loss does not see the mean of a feature's coefficients, and a ridge is least where it is 0.
    for (std::size_t j = 0; j < ridge.size(); ++j) {
        double mean = 0;
        for (std::size_t k = 0; k < K(); ++k) mean += x[j * K() + k] / double(K());
        for (std::size_t k = 0; ridge[j] > 0 && k < K(); ++k) x[j * K() + k] -= mean;
    }
    std::vector<double> margins = samples_.origin();
    samples_.move(columns, x, margins, poll);
    ClassPoint point = samples_.at(margins, poll);
    if (!(with_ridge(point.loss, K(), x, ridge) <= loss_of_origin(poll))) {
        x.assign(N, 0.0);
        margins = samples_.origin();
        point = samples_.at(margins, poll);
    }
    NewtonSteps steps(samples_, columns, ridge, nullptr);
    Derivatives at{with_ridge(point.loss, K(), x, ridge), steps.gradient(point, x, poll), steps.hessian(point, poll)};
    bool fresh = true;  // the Hessian is that at x
    const auto refresh = [&] {
        if (!fresh) at.hessian = steps.hessian(point, poll);
        fresh = true;
    };
    const double first = at.psi;
    std::vector<double> reference(N), along, tried(margins.size()), after(N);
    for (std::size_t q = 0; q < N; ++q) reference[q] = at.hessian[q * N + q];
    // The sum of |slope z|, of the samples and of the ridge.
    const auto size = [&] {
        double sum = samples_.slope_times_margins(point, margins);
        for (std::size_t q = 0; !ridge.empty() && q < N; ++q) sum += 2 * ridge[q / K()] * x[q] * x[q];
        return sum;
    };
    const auto ended = [&](FitEnd end) {
        refresh();
        ColumnFit found;
        found.end = end;
        found.gap = end == FitEnd::fitted ? gap(columns, at, ridge, poll) : INF;
        found.psi = at.psi;
        found.resolution = LAST_DIGITS * (std::abs(at.psi) + size());
        found.x = std::move(x);
        found.margins = samples_.by_sample(margins);
        found.hessian = std::move(at.hessian);
        return found;
    };
    for (int count = 0; count < STEPS; ++count) {
        double steepest = 0;
        for (double g : at.gradient) steepest = std::max(steepest, std::abs(g));
        const bool flat = steepest <= tolerance;
        if (!std::isfinite(at.psi) || !all_finite(at.gradient)) return ended(FitEnd::failed);
        const auto is_last = [&](const Step &newton) {
            return (flat && newton.gain <= 2 * accuracy * std::abs(at.psi)) || newton.gain <= SHOWS * std::abs(at.psi);
        };
        Step newton;
        if (!fresh) newton = Step{steps.conjugate(point, at.gradient, CG_RESIDUAL, poll)}.of(at.gradient);
        if (newton.step.empty() || is_last(newton)) {
            refresh();
            newton = newton_step(at, reference, steps);
            if (newton.step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
            if (is_last(newton)) return ended(FitEnd::fitted);
        }
        along.assign(margins.size(), 0.0);
        samples_.move(columns, newton.step, along, poll);
        if (std::isfinite(below) &&
            at.psi - self_concordant_factor(samples_.largest_change(along)) * newton.gain > below) {
            // Margins are updated, and keep the rounding of those at the start. Slopes at a minimum times these add up
            // to about 0, and the positive ones of the terms to no more than the loss at the start.
            refresh();
            double resolution = LAST_DIGITS * (std::abs(at.psi) + size() + 2 * first);
            const std::vector<double> slopes = samples_.slopes(point);
            for (std::size_t q = 0; q < N; ++q) resolution += noise[q / K()] * std::abs(x[q]) * slopes[q % K()];
            if (at.psi - gap(columns, at, ridge, poll) - resolution > below) return ended(FitEnd::not_below);
        }
        ClassPoint next;
        double t = 1;
        for (; t >= SHORTEST; t /= 2) {
            for (std::size_t p = 0; p < tried.size(); ++p) tried[p] = margins[p] + t * along[p];
            for (std::size_t q = 0; q < N; ++q) after[q] = x[q] + t * newton.step[q];
            next = samples_.at(tried, poll);
            const double enough = at.psi - ARMIJO * t * newton.gain + LAST_DIGITS * std::abs(at.psi);
            if (with_ridge(next.loss, K(), after, ridge) <= enough) break;
        }
        if (t < SHORTEST) {
            if (fresh) return ended(FitEnd::failed);
            refresh();
            continue;
        }
        margins.swap(tried);
        x.swap(after);
        point = std::move(next);
        at.psi = with_ridge(point.loss, K(), x, ridge);
        at.gradient = steps.gradient(point, x, poll);
        fresh = false;
        if (N <= FEW_COORDINATES) refresh();
    }
    return ended(FitEnd::failed);
}

}  // namespace levelprox
