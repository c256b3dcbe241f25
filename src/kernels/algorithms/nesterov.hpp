// Nesterov's accelerated projected gradient on the LCPP subproblem:
//
//     min  psi(x) + gamma/2 |x - c|^2   s.t.   sum omega_i (|x_i| + u_i x_i) <= tau,
//
// for differentiable psi with known L. Steps of length 1/(L + gamma), momentum for strong convexity
// m = gamma - mu (Nesterov 2004, scheme 2.2.19), begun afresh where it points uphill (O'Donoghue and Candes 2015).
#pragma once
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/objective.hpp"
#include "algorithms/stop_reason.hpp"

namespace levelprox {

struct NesterovSettings {
    std::int64_t max_steps = 100;
    double strong_convexity = 0;  // m
    double smoothness = 0;        // L + gamma
    double gamma = 0;
    double relative = 0.1;   // stop once the residual has fallen by this factor,
    double absolute = 0;     // or below this,
    double seconds = 1e300;  // or after this long
};

struct NesterovState {
    std::vector<double> x, gradient;  // in: the start and grad psi there; out: the answer
    double multiplier = 0;            // of the last projection, per unit step
    std::int64_t steps = 0, evaluations = 0, projections = 0;
    StopReason stop = StopReason::steps;
};

void nesterov(const Objective &objective, Ball<double> set, const double *center, const NesterovSettings &settings,
              NesterovState &state);

}  // namespace levelprox
