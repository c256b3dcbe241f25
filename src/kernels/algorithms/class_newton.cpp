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

// What solves about the Newton system: a factorised Hessian, or an inverse from before.
class Preconditioner {
public:
    Preconditioner(std::size_t classes, const NearInverse *near) : K_(classes), near_(near) {}

    bool known() const { return near_ != nullptr || !unit_.empty(); }

    // Factorises H; of a singular one a larger matrix, and of what is not finite its diagonal.
    void factorise_of(const std::vector<double> &hessian) {
        const std::vector<double> whole = with_means(K_, hessian);
        const auto N = std::size_t(std::llround(std::sqrt(double(hessian.size()))));
        near_ = nullptr;
        for (double ridge = LEAST_RIDGE; ridge < MOST_RIDGE; ridge *= 100) {
            factor_ = whole;
            unit_ = to_unit_diagonal(N, factor_);
            if (unit_.empty()) break;
            for (std::size_t q = 0; q < N; ++q) factor_[q * N + q] += ridge;
            if (factorise(N, factor_)) return;
        }
        factor_.assign(N * N, 0.0);
        unit_.assign(N, 1.0);
        for (std::size_t q = 0; q < N; ++q) {
            const double own = whole[q * N + q];
            factor_[q * N + q] = own > 0 && std::isfinite(own) ? std::sqrt(own) : 1.0;
        }
    }

    std::vector<double> apply(const std::vector<double> &v) const {
        if (near_) return near_->apply(K_, v);
        std::vector<double> x = v;
        for (std::size_t q = 0; q < x.size(); ++q) x[q] *= unit_[q];
        solve_factorised(x.size(), factor_, x);
        for (std::size_t q = 0; q < x.size(); ++q) x[q] *= unit_[q];
        return x;
    }

private:
    std::size_t K_;
    const NearInverse *near_;
    std::vector<double> factor_, unit_;
};

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

std::optional<ClassNewtonFit> newton_fit(const ClassSamples &samples, const ColumnPointers &columns,
                                         std::vector<double> x, const std::vector<double> &ridge, double accuracy,
                                         double below, double gone, const NearInverse *near, Poll &poll) {
    const auto K = std::size_t(samples.classes());
    const std::size_t N = x.size();
    const auto held = [&](std::size_t q) { return ridge.empty() ? 0.0 : 2 * ridge[q / K]; };
    std::vector<double> margins = samples.origin(), after(N), tried(margins.size()), along, step;
    samples.move(columns, x, margins, poll);
    ClassPoint point = samples.at(margins, poll);
    double psi = with_ridge(point.loss, K, x, ridge);
    Preconditioner preconditioner(K, near);

    // Conjugate gradients for H step = -gradient; false where many iterations are needed.
    const auto conjugate = [&](const std::vector<double> &gradient) {
        std::vector<double> rest(N), solved, direction;
        for (std::size_t q = 0; q < N; ++q) rest[q] = -gradient[q];
        direction = preconditioner.apply(rest);
        double size = dot(rest, direction);
        const double begin = size;
        step.assign(N, 0.0);
        for (int iteration = 0; iteration < CG_ITERATIONS; ++iteration) {
            std::vector<double> bent = samples.hessian_product(columns, point, direction, poll);
            for (std::size_t q = 0; q < N; ++q) bent[q] += held(q) * direction[q];
            const double curvature = dot(bent, direction);
            if (!(curvature > 0)) return !(begin > 0);
            const double length = size / curvature;
            for (std::size_t q = 0; q < N; ++q) {
                step[q] += length * direction[q];
                rest[q] -= length * bent[q];
            }
            solved = preconditioner.apply(rest);
            const double before = std::exchange(size, dot(rest, solved));
            if (!(size > CG_RESIDUAL * begin)) return true;
            for (std::size_t q = 0; q < N; ++q) direction[q] = solved[q] + size / before * direction[q];
        }
        return false;
    };
    for (int count = 0; count < NEWTON_STEPS; ++count) {
        std::vector<double> gradient = samples.gradient(columns, point, poll);
        for (std::size_t q = 0; q < N; ++q) gradient[q] += held(q) * x[q];
        if (!preconditioner.known() || !conjugate(gradient)) {
            std::vector<double> hessian = samples.hessian(columns, point, poll);
            for (std::size_t q = 0; q < N; ++q) hessian[q * N + q] += held(q);
            preconditioner.factorise_of(hessian);
            step = preconditioner.apply(gradient);
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
