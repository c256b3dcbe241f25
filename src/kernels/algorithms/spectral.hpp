// Spectral projected gradient on the LCPP subproblem (Algorithm 1, line 5):
//
//     min  psi(x) + gamma/2 |x - c|^2   s.t.   sum omega_i (|x_i| + u_i x_i) <= tau,
//
// Barzilai-Borwein steps with a nonmonotone line search (Gong et al. 2013; the paper's default).
#pragma once
#include <chrono>
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/objective.hpp"
#include "algorithms/stop_reason.hpp"

namespace levelprox {

struct SpectralSettings {
    int max_steps = 10;
    int memory = 5;          // the line search compares with the largest of this many values
    double decrease = 1e-5;  // sigma of the sufficient decrease
    double relative = 0.1;   // stop once the residual has fallen by this factor,
    double absolute = 0;     // or below this
    double seconds = 1e300;  // or after this long
};

struct SpectralState {
    std::vector<double> x, gradient;  // in: the start and grad psi there; out: the answer
    double psi = 0;
    double step = 1;
    double multiplier = 0;  // of the projection, per unit step
    double residual = 0;    // |x - P(x - t grad)|_inf / t at the last step
    int steps = 0, evaluations = 0, projections = 0;
    StopReason stop = StopReason::steps;
};

void spectral(const Objective &objective, Ball<double> set, const double *center, double gamma,
              const SpectralSettings &settings, SpectralState &state);

}  // namespace levelprox
