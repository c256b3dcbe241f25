// AC-SA (Ghadimi and Lan 2012) on the LCPP subproblem, for the Proposition "AC-SA" of the paper:
//
//     min  psi(x) + gamma/2 |x - c|^2   s.t.   sum omega_i (|x_i| + u_i x_i) <= tau,
//
// psi seen through full or sampled (sub)gradients. With m = gamma - mu and Lambda = L + gamma, after T steps
// E[psi_k(x) - psi_k(xbar)] <= 2 Lambda/(T(T+1)) |c - xbar|^2 + 8 (M^2 + sigma^2)/(m (T+1)).
#pragma once
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/interrupt.hpp"
#include "algorithms/stop_reason.hpp"
#include "algorithms/touched.hpp"

namespace levelprox {

// A source of (sub)gradients of psi, exact or random.
class Sampler {
public:
    virtual ~Sampler() = default;
    // Adds one at x to `gradient`, zero on entry, and collects in `touched` where it is not zero.
    virtual void add(const double *x, double *gradient, Touched &touched, Poll &poll) = 0;
};

struct AcsaSettings {
    std::int64_t steps = 1;
    double strong_convexity = 0;  // m = gamma - mu
    double smoothness = 0;        // Lambda = L + gamma
    double gamma = 0;
    double seconds = 1e300;
};

struct AcsaState {
    std::vector<double> x;  // in: the start; out: the answer
    double multiplier = 0;  // of the last step's projection, per unit step
    std::int64_t steps = 0, projections = 0;
    StopReason stop = StopReason::steps;
};

void acsa(Sampler &sampler, Ball<double> set, const double *center, const AcsaSettings &settings, AcsaState &state);

}  // namespace levelprox
