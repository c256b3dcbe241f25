// The level constraint g(x) = sum_j omega_j phi(|x_j|) <= eta over the features of a problem, its convex surrogates,
// and the residual of the KKT system of min psi(x) s.t. g(x) <= eta.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/penalty.hpp"
#include "algorithms/residual.hpp"

namespace levelprox {

constexpr double SMALLEST_PRICE = 1e-100, LARGEST_PRICE = 1e100;  // of the projection, besides 0

struct LevelSet {
    const Penalty *penalty = nullptr;
    std::int64_t n_features = 0, width = 1;     // coefficients of a feature; its size is their 2-norm
    const double *weights = nullptr;            // omega; null: 1
    const std::uint8_t *nonnegative = nullptr;  // a mask of coordinates, or null
    bool all_nonnegative = false;
    double level = 0;  // eta

    std::int64_t dimension() const { return n_features * width; }
    double weight(std::int64_t j) const { return weights ? weights[j] : 1.0; }
    bool is_nonnegative(std::int64_t i) const { return all_nonnegative || (nonnegative && nonnegative[i]); }
    // |x_j|, a norm rounded up.
    double size(const double *x, std::int64_t j) const;
    double g(const double *x) const;
    bool is_feasible(const double *x) const;
    // Whether every point satisfies the level.
    bool is_vacuous() const;
};

// Units of the features (objectives/feature_scale.py); null: 1, and no means.
struct FeatureUnits {
    const double *size = nullptr;
    const double *mean = nullptr;  // that the intercept may take up
    std::int64_t intercept = -1;
    const double *working = nullptr;  // powers of two in which lengths are measured
};

// The convex set inside {g <= level} that touches it at x: omega = prices, with u in the paper's form only.
struct SurrogateSet {
    std::vector<double> prices, u;
    double tau = 0;

    Ball<double> ball(const LevelSet &set) const;
};

// phi majorised at |x|: a weighted l1 or group ball.
SurrogateSet majorise(const LevelSet &set, const double *x);

// The residuals of the KKT system at x as functions of the multiplier y: one line for each coordinate of a feature that
// is not zero, and one for each feature that is, in the units of the features.
class KktLines {
public:
    KktLines(const LevelSet &set, const FeatureUnits &units, const double *x, const double *gradient);

    double largest(double y) const { return residual().stationarity(y); }

    // The best multiplier where g(x) is g; `curvature` is that of psi along a typical column.
    Best best(double g, double curvature) const;

    // The same; y = 0 where x is clearly inside the level and stationary without it, relative to `scale`.
    Best best_or_free(double g, double scale, double curvature) const;

    std::vector<std::int64_t> support;
    std::vector<double> t;  // sizes of the features in the support
    std::vector<double> support_offset, support_slope, zero_offset, zero_slope;

private:
    Residual residual() const;

    LevelSet set_;
};

// The residual and the best multiplier at x.
inline Best kkt_residual(const LevelSet &set, const FeatureUnits &units, const double *x, const double *gradient,
                         double scale, double curvature) {
    return KktLines(set, units, x, gradient).best_or_free(set.g(x), scale, curvature);
}

// A direction within the level along which the Lagrangian bends down, over some coordinates of one Hessian.
struct SaddleDirection {
    std::vector<std::int64_t> places;  // increasing
    std::vector<double> v;             // where the Hessian has a unit diagonal

    // v at other coordinates, which increase too; zero at those it does not have
    std::vector<double> over(const std::vector<std::int64_t> &others) const;
};

// One Newton step on the KKT system of the nonzero and the unpenalised features,
//
//     [ H + y d2g   a ] [dx]     [ gradient + y a ]
//     [ a'          0 ] [dy] = - [ g(x) - eta     ],      a = dg/dx,
//
// with a second-order correction along a, retracted onto the surrogate set of the new point (Maratos effect: the step
// violates the level to second order). `places` are the coordinates, H (row after row) the Hessian of psi over them.
// False, and x unchanged, where the matrix does not have the inertia of a strict local minimum, a sign would change, or
// the new point is not feasible.
//
// `saddle` is set where the inertia is wrong. Given to the next step with this Hessian it saves a factor: while the
// Lagrangian bends down along it, the inertia is wrong.
bool kkt_newton_step(const LevelSet &set, const FeatureUnits &units, const std::vector<std::int64_t> &places,
                     std::vector<double> hessian, const double *gradient, double y, std::vector<double> &x,
                     SaddleDirection &saddle);

// The features that are not zero, and those without a price.
std::vector<std::int64_t> free_places(const LevelSet &set, const double *x);

}  // namespace levelprox
