// What swapping one feature of a fit for each of others gains at most (subset/swap_bounds.py has the derivation).
#pragma once
#include <cstdint>

#include "algorithms/interrupt.hpp"

namespace levelprox {

// An exact fit and the feature that leaves it; newcomers are rows of B, and entries of the other arrays.
struct SwapGains {
    std::int64_t size;  // of the fit
    std::int64_t leaving;
    double x;              // its coefficient
    const double *across;  // row `leaving` of K
    const double *inside;  // magnitudes of the features of the fit
    const double *B;       // `size` numbers of each feature
    const double *gradient, *left, *magnitude, *error;
    double concordance;  // sup |l'''|/l''
    double psi, gap;
};

// bound[k] = what newcomer newcomers[k] gains at most, with the best of some lengths of the step; infinite where none
// of them gives a bound.
void bound_gains(const SwapGains &swap, std::int64_t count, const std::int64_t *newcomers, double *bound, Poll &poll);

}  // namespace levelprox
