#include "algorithms/class_newton.hpp"

#include <cmath>
#include <utility>

#include "algorithms/cholesky.hpp"
#include "algorithms/class_system.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr int NEWTON_STEPS = 40, HALVINGS = 12, CG_ITERATIONS = 10;
constexpr double ARMIJO = 1e-4;
constexpr double CG_RESIDUAL = 1e-2;                     // of the squared residual: what is left of it
constexpr double HOPE = 1.0;                             // of twice the predicted reduction of a step
constexpr double LEAST_RIDGE = 1e-10, MOST_RIDGE = 1e4;  // of a diagonal of 1, against singular systems

double dot(const std::vector<double> &a, const std::vector<double> &b) {
    return simd().dense<double>().dot(std::int64_t(a.size()), a.data(), b.data());
}

// out = M v for a matrix of K x K
void multiply(std::size_t K, const double *matrix, const double *v, double *out) {
    for (std::size_t a = 0; a < K; ++a) {
        double sum = 0;
        for (std::size_t b = 0; b < K; ++b) sum += matrix[a * K + b] * v[b];
        out[a] = sum;
    }
}

}  // namespace

std::vector<double> NearInverse::apply(std::size_t classes, const std::vector<double> &v) const {
    const std::size_t K = classes, left_out = out < 0 ? order : std::size_t(out) * K;
    const std::size_t rest = order - (out < 0 ? 0 : K);
    std::vector<double> full(order), solved(order), block(K), result(v.size());
    for (std::size_t q = 0; q < rest; ++q) full[q < left_out ? q : q + K] = v[q];
    for (std::size_t q = 0; q < order; ++q)
        solved[q] = simd().dense<double>().dot(std::int64_t(order), inverse + q * order, full.data());
    if (out >= 0) {  // solved -= K_.i K_ii^-1 (K v)_i
        multiply(K, stiffness, &solved[left_out], block.data());
        for (std::size_t a = 0; a < K; ++a)
            simd().dense<double>().add(std::int64_t(order), -block[a], inverse + (left_out + a) * order, solved.data());
    }
    if (across) {
        std::vector<double> added(K), own(v.end() - std::ptrdiff_t(K), v.end());
        for (std::size_t a = 0; a < K; ++a)
            own[a] -= simd().dense<double>().dot(std::int64_t(order), across + a * order, full.data());
        multiply(K, schur_inverse, own.data(), added.data());
        for (std::size_t a = 0; a < K; ++a) {
            simd().dense<double>().add(std::int64_t(order), -added[a], across + a * order, solved.data());
            result[rest + a] = added[a];
        }
    }
    for (std::size_t q = 0; q < rest; ++q) result[q] = solved[q < left_out ? q : q + K];
    return result;
}

void NewtonSteps::use(std::vector<double> factor, std::vector<double> unit) {
    factor_ = std::move(factor);
    unit_ = std::move(unit);
    near_ = nullptr;
}

void NewtonSteps::factorise_hessian(const std::vector<double> &hessian) {
    const std::vector<double> whole = with_means(K(), hessian);
    const auto N = std::size_t(std::llround(std::sqrt(double(hessian.size()))));
    for (double ridge = LEAST_RIDGE; ridge < MOST_RIDGE; ridge *= 100) {
        std::vector<double> factor = whole, unit = to_unit_diagonal(N, factor);
        if (unit.size() != N) break;
        for (std::size_t q = 0; q < N; ++q) factor[q * N + q] += ridge;
        if (factorise(N, factor)) return use(std::move(factor), std::move(unit));
    }
    std::vector<double> diagonal(N * N);
    for (std::size_t q = 0; q < N; ++q) {
        const double own = whole[q * N + q];
        diagonal[q * N + q] = own > 0 && std::isfinite(own) ? std::sqrt(own) : 1.0;
    }
    use(std::move(diagonal), std::vector<double>(N, 1.0));
}

std::vector<double> NewtonSteps::solve(const std::vector<double> &v) const {
    if (near_) return near_->apply(K(), v);
    std::vector<double> x = v;
    for (std::size_t q = 0; q < x.size(); ++q) x[q] *= unit_[q];
    solve_factorised(x.size(), factor_, x);
    for (std::size_t q = 0; q < x.size(); ++q) x[q] *= unit_[q];
    return x;
}

std::vector<double> NewtonSteps::conjugate(const ClassPoint &point, const std::vector<double> &gradient,
                                           double residual, Poll &poll) const {
    const std::size_t N = gradient.size();
    std::vector<double> step(N), rest(N);
    for (std::size_t q = 0; q < N; ++q) rest[q] = -gradient[q];
    std::vector<double> direction = solve(rest);
    double size = dot(rest, direction);
    const double begin = size;
    for (int iteration = 0; iteration < CG_ITERATIONS && size > 0; ++iteration) {
        std::vector<double> bent = samples_.hessian_product(columns_, point, direction, poll);
        for (std::size_t q = 0; q < N; ++q) bent[q] += held(q) * direction[q];
        const double curvature = dot(bent, direction);
        if (!(curvature > 0)) return {};
        const double length = size / curvature;
        for (std::size_t q = 0; q < N; ++q) {
            step[q] += length * direction[q];
            rest[q] -= length * bent[q];
        }
        const std::vector<double> solved = solve(rest);
        const double before = std::exchange(size, dot(rest, solved));
        if (!(size > residual * begin)) return step;
        for (std::size_t q = 0; q < N; ++q) direction[q] = solved[q] + size / before * direction[q];
    }
    return begin == 0 ? step : std::vector<double>();
}

std::vector<double> NewtonSteps::hessian(const ClassPoint &point, Poll &poll) const {
    std::vector<double> hessian = samples_.hessian(columns_, point, poll);
    const std::size_t N = columns_.size() * K();
    for (std::size_t q = 0; q < N; ++q) hessian[q * N + q] += held(q);
    return hessian;
}

std::vector<double> NewtonSteps::gradient(const ClassPoint &point, const std::vector<double> &x, Poll &poll) const {
    std::vector<double> gradient = samples_.gradient(columns_, point, poll);
    for (std::size_t q = 0; q < x.size(); ++q) gradient[q] += held(q) * x[q];
    return gradient;
}

std::optional<ClassNewtonFit> newton_fit(const ClassSamples &samples, const ColumnPointers &columns,
                                         std::vector<double> x, const std::vector<double> &ridge, double accuracy,
                                         double below, double gone, const NearInverse *near, Poll &poll) {
    const auto K = std::size_t(samples.classes());
    const std::size_t N = x.size();
    std::vector<double> margins = samples.origin(), after(N), tried(margins.size()), along, step;
    samples.move(columns, x, margins, poll);
    ClassPoint point = samples.at(margins, poll);
    double psi = with_ridge(point.loss, K, x, ridge);
    if (near) {
        std::vector<double> other = samples.origin();
        samples.move(columns, near->begin, other, poll);
        ClassPoint before = samples.at(other, poll);
        if (const double value = with_ridge(before.loss, K, near->begin, ridge); !(psi <= value)) {
            x = near->begin;
            margins.swap(other);
            point = std::move(before);
            psi = value;
        }
    }
    NewtonSteps steps(samples, columns, ridge, near);
    for (int count = 0; count < NEWTON_STEPS; ++count) {
        const std::vector<double> gradient = steps.gradient(point, x, poll);
        step = steps.known() ? steps.conjugate(point, gradient, CG_RESIDUAL, poll) : std::vector<double>();
        if (step.empty()) {
            steps.factorise_hessian(steps.hessian(point, poll));
            step = steps.solve(gradient);
            for (double &value : step) value = -value;
        }
        const double gain = -dot(step, gradient);
        if (!(gain > 2 * accuracy * psi) || psi <= gone) break;
        if (psi - HOPE * gain > below) return std::nullopt;
        along.assign(margins.size(), 0.0);
        samples.move(columns, step, along, poll);
        ClassPoint next;
        double t = 1, psi_after = 0;
        int halvings = 0;
        for (; halvings < HALVINGS; ++halvings, t /= 2) {
            for (std::size_t q = 0; q < N; ++q) after[q] = x[q] + t * step[q];
            for (std::size_t i = 0; i < tried.size(); ++i) tried[i] = margins[i] + t * along[i];
            next = samples.at(tried, poll);
            psi_after = with_ridge(next.loss, K, after, ridge);
            if (psi_after <= psi - ARMIJO * t * gain) break;
        }
        if (halvings == HALVINGS) break;
        x.swap(after);
        margins.swap(tried);
        point = std::move(next);
        psi = psi_after;
    }
    return ClassNewtonFit{std::move(x), std::move(margins), psi};
}

}  // namespace levelprox
