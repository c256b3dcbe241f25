// The cost phi(t) of one feature of size t >= 0: concave, phi(0) = 0, phi'(0) = lambda. The level constraint is
// g(x) = sum_j omega_j phi(|x_j|) <= eta.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace levelprox {

class Penalty {
public:
    virtual ~Penalty() = default;

    // phi, phi' and h'' = -phi'' of n sizes.
    virtual void phi(std::int64_t n, const double *t, double *out) const = 0;
    virtual void slope(std::int64_t n, const double *t, double *out) const = 0;
    virtual void curvature(std::int64_t n, const double *t, double *out) const = 0;

    double lam = 0;  // phi'(0)
    double cap = 0;  // sup phi; inf where there is none

    // sum of omega_j phi(t_j) over the sizes that are not zero, by a compensated sum; null omega: 1.
    double total(std::int64_t n, const double *t, const double *omega) const;
};

enum class PenaltyKind { l1, mcp, scad, exponential, logarithm, lp, negative_lp };

// phi(t / factor) for the penalty of this kind. Parameters, with those that constraints/ derives from them:
//   l1           lambda
//   mcp          lambda, theta, threshold, cap
//   scad         lambda, knee, threshold, cap, curvature
//   exponential  lambda
//   logarithm    theta, lambda
//   lp           p, epsilon, lambda
//   negative_lp  p, theta
// Throws std::invalid_argument for another number of parameters.
std::unique_ptr<Penalty> make_penalty(PenaltyKind kind, const std::vector<double> &parameters, double factor);

}  // namespace levelprox
