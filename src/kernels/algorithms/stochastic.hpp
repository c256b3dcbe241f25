// Projected minibatch steps on the LCPP subproblem of a linear model, with or without variance reduction:
//
//     x+ = P(x - t (mean over the batch of (l'(<a_i, x> + o_i, b_i) - r_i) a_i + q + gamma (x - c)))
//
// Stochastic gradient: r = 0, q = 0. Proximal SVRG (Xiao and Zhang 2014): r_i and q are the slopes and the
// full gradient at a snapshot. Samples and steps are the caller's; equal ones give equal bits.
#pragma once
#include <cstdint>

#include "algorithms/ball.hpp"
#include "algorithms/interrupt.hpp"
#include "algorithms/linear_model.hpp"
#include "algorithms/stop_reason.hpp"

namespace levelprox {

struct Minibatches {
    const std::int64_t *samples;  // row numbers, one batch after the other; the last may be shorter
    std::int64_t count, batch;
    const double *steps;  // t of each batch
};

struct Snapshot {
    const double *slope = nullptr;     // r
    const double *gradient = nullptr;  // q
};

// Updated at every step, so that they are correct when Ctrl-C ends the run with an exception.
struct StochasticCounts {
    std::int64_t steps = 0, rows = 0, projections = 0, listed = 0;  // listed: coordinates, over all projections
};

// Changes x in place, one feasible point after the other. `multiplier`, per unit step, is a guess that is improved.
StopReason stochastic_steps(const LinearModel &model, const Ball<double> &set, const double *center, double gamma,
                            const Minibatches &batches, const Snapshot &snapshot, double seconds, double *x,
                            double &multiplier, StochasticCounts &counts);

// out_i = l'(<a_i, x> + o_i, b_i) for every sample; rows only.
void sample_slopes(const LinearModel &model, const double *x, double *out, Poll &poll);

}  // namespace levelprox
