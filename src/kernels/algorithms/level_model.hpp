// LCPP on a second-order model of psi, which needs no data:
//
//     min  q(x) = psi + <gradient, x - c> + 1/2 (x - c)'H(x - c)   s.t.   g(x) <= eta.
//
// Each step minimises q over the convex surrogate of the level at the last point (quadratic.hpp); where the level
// binds, Newton steps on the KKT system follow. Every point satisfies the level.
#pragma once
#include <functional>
#include <vector>

#include "algorithms/interrupt.hpp"
#include "algorithms/level.hpp"

namespace levelprox {

// The residual at which to stop, for a multiplier y.
struct Tolerance {
    double least = 0, offset = 0, slope = 0;
    double at(double y) const { return std::max(least, offset - slope * y); }
};

struct LevelModelSettings {
    std::function<SurrogateSet(const double *)> surrogate;  // at x; empty: `majorise`
    double gamma = 0;                                       // of the proximal term
    double accuracy = 0.1;            // the factor by which the residual of a convex subproblem falls
    int max_steps = 1;                // of each surrogate
    double scale = 1, curvature = 0;  // of the null model
    Tolerance enough;
};

struct LevelModelState {
    std::vector<double> x;         // in: c, which satisfies the level
    double psi = 0;                // q(x)
    std::vector<double> gradient;  // of q at x
    double multiplier = 0;         // of the last subproblem
    double residual = 0, y = 0;    // of the KKT system
    int steps = 0, projections = 0;
};

void solve_level_model(const LevelSet &set, const FeatureUnits &units, const double *hessian,
                       const LevelModelSettings &settings, LevelModelState &state, Poll &poll);

}  // namespace levelprox
