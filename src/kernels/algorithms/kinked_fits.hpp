// A loss with kinks, minimised over a few columns exactly, with a bound on the error of the result.
//
//     psi(x) = sum_i p_i max(lo_i s_i, hi_i s_i),      s_i = <a_i, x> + o_i - b_i,      p_i = sample weight / sum
//
// is minimised by the simplex method (kinked_simplex.hpp), in coordinates in which the columns are orthonormal
// (kinked_columns.hpp). Rows x_j are added to the samples: with slope 0, to begin with; or, where x_j >= 0 is required,
// with a slope below 0 that is steeper than psi. The coefficients of the last vertex are then computed from the columns
// as they are, with residuals in extended precision.
//
// **Many samples.** The vertex of a part of them is near to that of all. Samples whose residuals are far from 0 there
// keep their signs, and enter the gradient only; the simplex method runs over the others. Then the signs are checked
// with all samples, and samples with wrong ones join. Portnoy and Koenker (1997), Statistical Science 12(4).
//
// **Degenerate vertices.** Kinks are moved by a little, each by another amount, so that no two are met at once. u is
// feasible wherever the kinks are.
//
// **Error.** For any u within its bounds and any x*,
//
//     psi(x) - psi(x*) <= sum_i (p_i l_i(s_i) - u_i s_i) + <A'u, x - x*>.
//
// Every term of the sum is at least 0, and A'u is 0 up to rounding. What is left of it, r = T'A'u, costs at most
// max_i |<q_i, r>| sum_i p_i |s_i - s*_i|, q_i the rows in the coordinates w; and sum_i p_i |s*_i| <= psi(x) /
// min(|lo|, hi). For the hinge loss, where that minimum is 0, sum_i p_i |s_i - s*_i| is taken to be at most 16 times
// the mean of |s| and |b|: u is then feasible for columns that differ from these by rounding. A refit whose error is
// not small is repeated with smaller moves of the kinks.
//
// **Nearly dependent columns.** Their coefficients may be so large that the rounding of their products with the columns
// changes psi. The margins are then summed in extended precision, and the refit is repeated without columns of which
// little is left after projection on the others. The vertex with the lower psi, its rounding included, is returned. Its
// error is computed from the bound on psi over all columns. For the hinge loss the margins of the basis are also put a
// little beyond their kinks, where the loss is flat: their rounding then costs nothing.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/interrupt.hpp"
#include "algorithms/kinked_columns.hpp"
#include "algorithms/loss.hpp"

namespace levelprox {

struct KinkedFit {
    std::vector<double> x, margins;
    std::vector<double> slopes;  // elements of the subdifferential of l, one for each sample
    double psi = 0;
    double error = std::numeric_limits<double>::infinity();  // psi is at most so much above the minimum, with rounding
    double rounding = 0;                                     // how far psi may be off by rounding
    std::vector<double> removal;  // what the minimum rises by at least where a coefficient is 0
};

// How many edges a descent may take.
struct EdgeLimits {
    std::size_t least, per_coordinate;
};

// The samples: arrays of n numbers, the caller's.
struct KinkedSamples {
    KinkedSamples(std::int64_t n, LossKind loss, double parameter, const double *target, const double *weight,
                  const double *origin, const double *low, const double *high);
    double value(const double *margins) const;  // psi

    std::int64_t n;
    std::shared_ptr<const Loss> loss;
    const double *target, *weight;  // null weights are all 1
    const double *origin;           // margins at x = 0
    const double *low, *high;       // slopes of the loss on both sides of each kink
    double total;                   // of the weights
    double steepest = 0, flattest = std::numeric_limits<double>::infinity();  // slopes
    double mean_size = 0;                                                     // of |b| + |o|
};

class KinkedFits {
public:
    explicit KinkedFits(KinkedSamples samples) : samples_(std::move(samples)) {}

    const KinkedSamples &samples() const { return samples_; }

    // From the vertex whose kinks are near x. `noise` is what rounding a coefficient of 1 does to margins besides, one
    // number for each column. With `slopes`, one for each sample, these are tried as the dual solution, too.
    KinkedFit fit(KinkedColumns &columns, const std::vector<double> &x, const std::vector<double> &noise,
                  EdgeLimits limits, const double *slopes, Poll &poll) const;

private:
    KinkedSamples samples_;
};

}  // namespace levelprox
