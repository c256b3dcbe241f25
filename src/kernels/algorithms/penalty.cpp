#include "algorithms/penalty.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double INF = std::numeric_limits<double>::infinity();

// log(1 + theta t), also where theta t overflows: there it is log theta + log t to the last digit.
double log1p_product(double theta, double t) {
    const double product = theta * t;
    return std::isinf(product) ? std::log(theta) + std::log(std::max(t, 1.0)) : std::log1p(product);
}

struct L1 {
    double lambda;
    double lam() const { return lambda; }
    double cap() const { return INF; }
    double lipschitz() const { return 0; }
    double phi(double t) const { return lambda * t; }
    double slope(double) const { return lambda; }
    double curvature(double) const { return 0; }
};

// lambda t - t^2 / (2 theta) up to the threshold theta lambda, the cap from there on.
struct Mcp {
    double lambda, theta, threshold, most;
    double lam() const { return lambda; }
    double cap() const { return most; }
    double lipschitz() const { return 1 / theta; }
    // From the nearer end, 0 or the cap: nothing cancels, and phi never exceeds the cap.
    double phi(double t) const {
        if (t < threshold / 2) return t * (lambda - t / theta / 2);
        const double short_by = std::max(threshold - t, 0.0);
        return most - short_by * (short_by / theta) / 2;
    }
    double slope(double t) const { return t >= threshold ? 0.0 : std::max(lambda - t / theta, 0.0); }
    double curvature(double t) const { return t < threshold ? lipschitz() : 0.0; }
};

// Linear up to the knee, then as MCP with curvature `bend` up to the threshold, the cap from there on.
struct Scad {
    double lambda, knee, threshold, most, bend;
    double lam() const { return lambda; }
    double cap() const { return most; }
    double lipschitz() const { return bend; }
    double past_knee(double t) const { return std::clamp(t - knee, 0.0, threshold - knee); }
    double phi(double t) const {
        if (t < (knee + threshold) / 2) {
            const double past = past_knee(t);
            return std::min(lambda * t - past * (past * bend) / 2, most);
        }
        const double short_by = std::max(threshold - t, 0.0);
        return most - short_by * (short_by * bend) / 2;
    }
    double slope(double t) const { return t >= threshold ? 0.0 : std::max(lambda - past_knee(t) * bend, 0.0); }
    double curvature(double t) const { return t > knee && t < threshold ? bend : 0.0; }
};

// 1 - exp(-lambda t)
struct Exponential {
    double lambda;
    double lam() const { return lambda; }
    double cap() const { return 1; }
    double lipschitz() const { return lambda * lambda; }
    double phi(double t) const { return -std::expm1(-lambda * t); }
    double slope(double t) const { return lambda * std::exp(-lambda * t); }
    double curvature(double t) const { return lipschitz() * std::exp(-lambda * t); }
};

// log(1 + theta t) / log(1 + theta)
struct Logarithm {
    double theta, lambda;
    double lam() const { return lambda; }
    double cap() const { return INF; }
    double lipschitz() const { return theta * lambda; }
    // 1 / (1 + theta t), without overflow.
    double remaining(double t) const {
        if (theta <= 1) return 1 / (1 + theta * t);
        const double half = 1 / theta;  // where the slope is half of lambda
        return half / (half + t);
    }
    double phi(double t) const { return log1p_product(theta, t) / std::log1p(theta); }
    double slope(double t) const { return lambda * remaining(t); }
    double curvature(double t) const { return lipschitz() * (remaining(t) * remaining(t)); }
};

// (t + epsilon)^p - epsilon^p, 0 < p < 1
struct Lp {
    double p, epsilon, lambda;
    double lam() const { return lambda; }
    double cap() const { return INF; }
    double lipschitz() const { return (1 - p) * lambda / epsilon; }
    // (1 + t/epsilon)^p = e^growth. For small growth the difference of powers cancels; for large growth e^growth may
    // overflow although phi does not.
    double phi(double t) const {
        const double growth = p * std::log1p(t / epsilon), at_zero = std::pow(epsilon, p);
        return growth < 1 ? at_zero * std::expm1(growth) : std::pow(t + epsilon, p) - at_zero;
    }
    double slope(double t) const {
        const double ratio = t / epsilon;
        const double falling =
            ratio < 1 ? lambda * std::pow(1 + ratio, p - 1) : p * (std::pow(t + epsilon, p) / (t + epsilon));
        return std::min(falling, lambda);
    }
    double curvature(double t) const { return (1 - p) * slope(t) / (t + epsilon); }
};

// 1 - (1 + theta t)^p, p < 0
struct NegativeLp {
    double p, theta;
    double lam() const { return -p * theta; }
    double cap() const { return 1; }
    double lipschitz() const { return (1 - p) * theta * lam(); }
    double phi(double t) const { return -std::expm1(p * log1p_product(theta, t)); }
    double slope(double t) const { return lam() * std::exp((p - 1) * log1p_product(theta, t)); }
    double curvature(double t) const { return lipschitz() * std::exp((p - 2) * log1p_product(theta, t)); }
};

// phi(t / c), with the slope lambda / c at 0.
template <class Function>
class Rescaled final : public Penalty {
public:
    Rescaled(Function function, double factor)
        : function_(function), factor_(factor),
          linear_below_(function.lipschitz() > 0 ? EPS * function.lam() / function.lipschitz() : INF) {
        lam = function.lam() / factor;
        cap = function.cap();
    }

    // phi(t) = lambda t (1 - delta) with delta <= L_h t / (2 lambda). Where delta is below rounding, lambda t is more
    // accurate: terms such as theta t underflow for tiny t.
    void phi(std::int64_t n, const double *t, double *out) const override {
        for (std::int64_t i = 0; i < n; ++i) {
            const double s = t[i] / factor_;
            out[i] = s < linear_below_ ? function_.lam() * s : function_.phi(s);
        }
    }
    void slope(std::int64_t n, const double *t, double *out) const override {
        for (std::int64_t i = 0; i < n; ++i) out[i] = function_.slope(t[i] / factor_) / factor_;
    }
    void curvature(std::int64_t n, const double *t, double *out) const override {
        for (std::int64_t i = 0; i < n; ++i) out[i] = function_.curvature(t[i] / factor_) / factor_ / factor_;
    }

private:
    Function function_;
    double factor_, linear_below_;
};

template <class Function>
std::unique_ptr<Penalty> make(Function function, double factor) {
    return std::make_unique<Rescaled<Function>>(function, factor);
}

}  // namespace

double Penalty::total(std::int64_t n, const double *t, const double *omega) const {
    std::vector<double> sizes, weights;
    for (std::int64_t j = 0; j < n; ++j) {
        if (t[j] == 0 || (omega && !(omega[j] > 0))) continue;  // the cost of what is free may be inf
        sizes.push_back(std::fabs(t[j]));
        if (omega) weights.push_back(omega[j]);
    }
    std::vector<double> cost(sizes.size());
    phi(std::int64_t(sizes.size()), sizes.data(), cost.data());
    double sum = 0, lost = 0;
    for (std::size_t k = 0; k < cost.size(); ++k) {
        const double term = omega ? weights[k] * cost[k] : cost[k];
        const double next = sum + term;
        if (std::isinf(next)) return next;
        lost += sum >= term ? (sum - next) + term : (term - next) + sum;
        sum = next;
    }
    return sum + lost;
}

std::unique_ptr<Penalty> make_penalty(PenaltyKind kind, const std::vector<double> &p, double factor) {
    const auto require = [&](std::size_t count) {
        if (p.size() != count) throw std::invalid_argument("a penalty has another number of parameters");
    };
    switch (kind) {
        case PenaltyKind::l1: require(1); return make(L1{p[0]}, factor);
        case PenaltyKind::mcp: require(4); return make(Mcp{p[0], p[1], p[2], p[3]}, factor);
        case PenaltyKind::scad: require(5); return make(Scad{p[0], p[1], p[2], p[3], p[4]}, factor);
        case PenaltyKind::exponential: require(1); return make(Exponential{p[0]}, factor);
        case PenaltyKind::logarithm: require(2); return make(Logarithm{p[0], p[1]}, factor);
        case PenaltyKind::lp: require(3); return make(Lp{p[0], p[1], p[2]}, factor);
        case PenaltyKind::negative_lp: require(2); return make(NegativeLp{p[0], p[1]}, factor);
    }
    throw std::invalid_argument("unknown penalty");
}

}  // namespace levelprox
