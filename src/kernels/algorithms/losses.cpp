// The losses of loss.hpp: one functor of (z, b) each, and one class that loops over a block;
// the logistic loss, whose loops are vectorised (simd_logistic.inl), is a class of its own.
//
// Derivatives are with respect to the margin z. Each formula is arranged so that an intermediate
// result overflows only if the answer does, and so that small answers keep their digits. The one
// exception is the residual r = b - z itself: it is infinite when |b - z| exceeds the largest double
// (b = -1e308, z = 1e308), and every loss then takes its limit for r -> +-inf, never NaN.
// NaN in z or b gives NaN.
#include "algorithms/loss.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "simd/simd.hpp"

namespace levelprox {
namespace {

// NaN where the residual is NaN, `constant` otherwise: branches on r alone would lose it.
double unless_nan(double r, double constant) { return std::isnan(r) ? r : constant; }

// slope * x, where a slope of 0 makes nothing of an infinite x, and something of NaN
double times_slope(double slope, double x) { return slope == 0.0 ? unless_nan(x, 0.0) : slope * x; }

// r^2, without the 1/2
struct Squared {
    double value(double z, double b) const {
        const double r = b - z;
        return r * r;
    }
    double derivative(double z, double b) const { return -2.0 * (b - z); }
    double curvature(double z, double b) const { return unless_nan(b - z, 2.0); }
};

// r^2 / 2 up to |r| = delta, delta (|r| - delta / 2) beyond
struct Huber {
    double delta;
    double value(double z, double b) const {
        const double r = std::abs(b - z);
        return r > delta ? delta * (r - 0.5 * delta) : r * (0.5 * r);
    }
    double derivative(double z, double b) const {
        const double r = b - z;
        return std::abs(r) > delta ? -std::copysign(delta, r) : -r;
    }
    double curvature(double z, double b) const {
        const double r = b - z;
        return unless_nan(r, std::abs(r) > delta ? 0.0 : 1.0);
    }
};

// 1 / (1 + exp(m)), m = b z, the smooth count of errors. Only e = exp(-|m|) <= 1 is ever formed.
struct Sigmoid {
    double value(double z, double b) const {
        const double m = b * z, e = std::exp(-std::abs(m));
        return (m > 0 ? e : 1.0) / (1.0 + e);
    }
    double derivative(double z, double b) const {
        const double e = std::exp(-std::abs(b * z));
        return -b * std::min(e / ((1.0 + e) * (1.0 + e)), 0.25);  // at most 1/4, rounded or not; NaN stays NaN
    }
    // e (1 - e) / (1 + e)^3 with the sign of m; 1 - e is never a difference.
    double curvature(double z, double b) const {
        const double m = b * z, e = std::exp(-std::abs(m));
        const double size = e * -std::expm1(-std::abs(m)) / ((1.0 + e) * (1.0 + e) * (1.0 + e));
        return std::copysign(size, m);
    }
    // All three of them, bit for bit: exp is what they cost.
    void evaluate(double z, double b, double *value, double *derivative, double *curvature) const {
        const double m = b * z, e = std::exp(-std::abs(m)), whole = 1.0 + e;
        if (value) *value = (m > 0 ? e : 1.0) / whole;
        if (derivative) *derivative = -b * std::min(e / (whole * whole), 0.25);
        if (!curvature) return;
        const double rest = e < 0x1p-54 ? 1.0 : -std::expm1(-std::abs(m));
        *curvature = std::copysign(e * rest / (whole * whole * whole), m);
    }
};

// max(0, 1 - m)^2, m = b z
struct SquaredHinge {
    double value(double z, double b) const {
        const double lack = std::max(1.0 - b * z, 0.0);  // in this order NaN stays NaN
        return lack * lack;
    }
    double derivative(double z, double b) const { return -2.0 * b * std::max(1.0 - b * z, 0.0); }
    double curvature(double z, double b) const { return unless_nan(z, b * z < 1.0 ? 2.0 : 0.0); }
};

// exp(z) - b z. Like every difference of large numbers it has the digits of the larger one.
struct Poisson {
    double value(double z, double b) const { return exp_minus(z, b, z); }
    double derivative(double z, double b) const { return exp_minus(z, b, 1.0); }
    double curvature(double z, double) const { return std::exp(z); }

private:
    // exp(z) - b x for x = z or 1, b >= 0; where a term is out of range the difference may still be in it.
    static double exp_minus(double z, double b, double x) {
        const double e = std::exp(z), product = times_slope(b, x);
        if (std::isfinite(e) && std::isfinite(product)) return e - product;
        if (z > 720.0) return e;  // beyond z times the largest double: infinite
        constexpr double E10 = 22026.465794806718;
        return E10 * (std::exp(z - 10.0) - times_slope(b, x / E10));
    }
};

// z + b exp(-z)
struct Gamma {
    double value(double z, double b) const {
        const double ratio = curvature(z, b);
        return std::isinf(ratio) ? ratio : z + ratio;
    }
    double derivative(double z, double b) const { return 1.0 - curvature(z, b); }
    // b exp(-z), the target over its expectation; exp(-z) alone may leave the range where the product does not.
    double curvature(double z, double b) const {
        if (std::abs(z) < 700.0) return b * std::exp(-z);
        const double root = std::exp(-0.5 * z);
        return b * root * root;
    }
};

// (c^2 / 2) log(1 + q^2), q = r / c. Every formula has two forms: in q for |q| <= 1 and in
// p = c / r beyond, so that neither square overflows.
struct Cauchy {
    double c;
    double value(double z, double b) const {
        const double r = std::abs(b - z), q = r / c;
        if (q > 1.0) return c * (0.5 * c * log1p_square(r, q));
        // r^2 / 2 times log(1 + s) / s: c^2, which may overflow, has cancelled.
        const double s = q * q;
        return r * (0.5 * r * (s > 0.0 ? std::log1p(s) / s : 1.0));
    }
    double derivative(double z, double b) const {
        const double r = b - z, q = r / c;
        if (!(std::abs(q) > 1.0)) return -r / (1.0 + q * q);
        const double p = c / r;
        return -c * p / (1.0 + p * p);
    }
    // (1 - q^2) / (1 + q^2)^2; its sign change at |r| = c is taken from c - |r|, which is exact there.
    double curvature(double z, double b) const {
        const double r = std::abs(b - z), q = r / c;
        if (!(q > 1.0)) {
            const double s = 1.0 + q * q;
            return (c - r) / c * (1.0 + q) / (s * s);
        }
        const double p = c / r, s = 1.0 + p * p;
        // Far out 1 - p is as exact as (r - c) / r, and has a limit when r is infinite.
        const double factor = p < 0.5 ? 1.0 - p : (r - c) / r;
        return -(p * p) * factor * (1.0 + p) / (s * s);
    }

private:
    // log(1 + q^2) for q = r / c > 1, where q may have overflowed although r and c have not
    double log1p_square(double r, double q) const {
        if (q < 0x1p27) return std::log1p(q * q);  // beyond, the 1 is below the last digit
        return 2.0 * (std::isinf(q) ? std::log(r) - std::log(c) : std::log(q));
    }
};

// The losses with a kink are two lines through 0 at z = b: l = max(low s, high s), s = z - b, low <= 0 <= high.
struct Slopes {
    double low, high;
};

// |r|
struct Absolute {
    Slopes slopes(double) const { return {-1.0, 1.0}; }
};

// max(q r, (q - 1) r)
struct Quantile {
    double q;
    Slopes slopes(double) const { return {-q, 1.0 - q}; }
};

// max(0, 1 - b z), whose kink bz = 1 is z = b, since b = +-1
struct Hinge {
    Slopes slopes(double b) const { return b > 0 ? Slopes{-1.0, 0.0} : Slopes{0.0, 1.0}; }
};

// At the kink the derivative is 0: there each of these losses is least. No curvature.
template <class Kink>
struct Kinked {
    Kink kink;
    double value(double z, double b) const {
        const double s = z - b;
        const auto [low, high] = kink.slopes(b);
        return times_slope(s < 0 ? low : high, s);
    }
    double derivative(double z, double b) const {
        const double s = z - b;
        const auto [low, high] = kink.slopes(b);
        return unless_nan(s, s < 0 ? low : s > 0 ? high : 0.0);
    }
};

// The Moreau envelope min_w l(w, b) + (z - w)^2 / (2 width): a parabola s^2 / (2 width) around the kink, out to where
// its slope s / width, which may overflow, is that of a line.
template <class Kink>
struct Smoothed {
    Kink kink;
    double width;
    double value(double z, double b) const {
        const double s = z - b, slope = s / width;
        const auto [low, high] = kink.slopes(b);
        if (slope < low) return line(low, s);
        return slope > high ? line(high, s) : s * (0.5 * slope);
    }
    double derivative(double z, double b) const {
        const auto [low, high] = kink.slopes(b);
        return std::clamp((z - b) / width, low, high);  // NaN stays NaN
    }
    double curvature(double z, double b) const {
        const double s = z - b, slope = s / width;
        const auto [low, high] = kink.slopes(b);
        return unless_nan(s, slope < low || slope > high ? 0.0 : 1.0 / width);
    }

private:
    // slope s - width slope^2 / 2; |s| >= width |slope|, so that the difference costs one bit at most
    double line(double slope, double s) const { return times_slope(slope, s - 0.5 * width * slope); }
};

template <class F>
class Block final : public Loss {
public:
    explicit Block(F loss) : loss_(loss) {}

    void value(std::int64_t n, const double *z, const double *b, double *out) const override {
        for (std::int64_t i = 0; i < n; ++i) out[i] = loss_.value(z[i], b[i]);
    }
    void derivative(std::int64_t n, const double *z, const double *b, double *out) const override {
        for (std::int64_t i = 0; i < n; ++i) out[i] = loss_.derivative(z[i], b[i]);
    }
    void curvature([[maybe_unused]] std::int64_t n, [[maybe_unused]] const double *z, [[maybe_unused]] const double *b,
                   [[maybe_unused]] double *out) const override {
        if constexpr (requires { loss_.curvature(0.0, 0.0); }) {
            for (std::int64_t i = 0; i < n; ++i) out[i] = loss_.curvature(z[i], b[i]);
        } else {
            throw std::domain_error("this loss has kinks and no curvature");
        }
    }
    void evaluate(std::int64_t n, const double *z, const double *b, double *values, double *derivatives,
                  double *curvatures) const override {
        if constexpr (requires { loss_.evaluate(0.0, 0.0, values, values, values); }) {
            for (std::int64_t i = 0; i < n; ++i)
                loss_.evaluate(z[i], b[i], values ? values + i : nullptr, derivatives ? derivatives + i : nullptr,
                               curvatures ? curvatures + i : nullptr);
        } else {
            Loss::evaluate(n, z, b, values, derivatives, curvatures);
        }
    }

private:
    F loss_;
};

// log(1 + exp(-m)), m = b z: the loss that most fits are made of, and the one whose exp and log cost most.
class Logistic final : public Loss {
public:
    void value(std::int64_t n, const double *z, const double *b, double *out) const override {
        evaluate(n, z, b, out, nullptr, nullptr);
    }
    void derivative(std::int64_t n, const double *z, const double *b, double *out) const override {
        evaluate(n, z, b, nullptr, out, nullptr);
    }
    void curvature(std::int64_t n, const double *z, const double *b, double *out) const override {
        evaluate(n, z, b, nullptr, nullptr, out);
    }
    void evaluate(std::int64_t n, const double *z, const double *b, double *values, double *derivatives,
                  double *curvatures) const override {
        simd().logistic(n, z, b, values, derivatives, curvatures);
    }
};

template <class F>
std::unique_ptr<Loss> block(F loss) {
    return std::make_unique<Block<F>>(loss);
}

double positive(const char *loss, double parameter) {
    if (parameter > 0.0 && std::isfinite(parameter)) return parameter;
    throw std::invalid_argument(std::string("the parameter of the loss '") + loss + "' must be positive and finite");
}

double fraction(const char *loss, double parameter) {
    if (parameter > 0.0 && parameter < 1.0) return parameter;
    throw std::invalid_argument(std::string("the parameter of the loss '") + loss + "' must be in (0, 1)");
}

template <class Kink>
std::unique_ptr<Loss> kinked(Kink kink, double width) {
    if (width == 0.0) return block(Kinked<Kink>{kink});
    if (width > 0.0 && std::isfinite(width) && std::isfinite(1.0 / width)) return block(Smoothed<Kink>{kink, width});
    throw std::invalid_argument("the width of the smoothing must be 0, or positive and finite like its inverse");
}

}  // namespace

std::unique_ptr<Loss> make_loss(LossKind kind, double parameter, double width) {
    const bool has_kinks = kind == LossKind::absolute || kind == LossKind::quantile || kind == LossKind::hinge;
    if (width != 0.0 && !has_kinks) throw std::invalid_argument("this loss has no kinks to smooth");
    switch (kind) {
        case LossKind::squared: return block(Squared{});
        case LossKind::logistic: return std::make_unique<Logistic>();
        case LossKind::huber: return block(Huber{positive("huber", parameter)});
        case LossKind::cauchy: return block(Cauchy{positive("cauchy", parameter)});
        case LossKind::sigmoid: return block(Sigmoid{});
        case LossKind::squared_hinge: return block(SquaredHinge{});
        case LossKind::poisson: return block(Poisson{});
        case LossKind::gamma: return block(Gamma{});
        case LossKind::absolute: return kinked(Absolute{}, width);
        case LossKind::quantile: return kinked(Quantile{fraction("quantile", parameter)}, width);
        case LossKind::hinge: return kinked(Hinge{}, width);
    }
    throw std::logic_error("a loss without a kernel");
}

}  // namespace levelprox
