// The simplex method for a sum of piecewise linear functions of a few coordinates.
//
//     f(w) = <g, w> + sum_i max(low_i s_i, high_i s_i),      s_i = <q_i, w> - kink_i
//
// has a minimiser at which as many s_i as there are coordinates are 0: the basis B, with the rows of B independent.
// With v = g + sum_{i not in B} u_i q_i, u_i = low_i or high_i, such a vertex is a minimiser if
//
//     u_B = -Q_B^-T v      has      low_i <= u_i <= high_i      for all i in B.
//
// Where u_i is beyond its bounds, f falls along the edge on which all of B but i stay at their kinks. On it f is convex
// and piecewise linear, and its minimum is a weighted median of the places where other rows meet their kinks. The one
// met there replaces i in B. This is the simplex method with long steps: Barrodale and Roberts (1973), SIAM Journal on
// Numerical Analysis 10(5).
//
// s, v and Q_B^-1 are updated along an edge, computed anew after a few edges, and before a vertex is taken to be the
// last one.
#pragma once
#include <cstddef>
#include <vector>

#include "algorithms/interrupt.hpp"

namespace levelprox {

// The inverse of a small matrix, row after row, by elimination with partial pivoting; empty where it has none.
std::vector<double> inverse_of(std::size_t m, std::vector<double> matrix);

// The rows q_i and what belongs to them. The first `samples` of them are samples, the others coordinates.
struct KinkedRows {
    std::size_t dimension = 0, count = 0, samples = 0;
    std::vector<double> q;  // coordinate after coordinate: q[r count + i]
    std::vector<double> low, high, kink, length;
    std::vector<double> gradient;  // g
    double terms = 0;              // the sum of |u_i| |q_i| that g is summed from

    // <q_i, w> for all rows.
    std::vector<double> along(const double *w) const;
    // sum_i u_i q_i
    std::vector<double> combined(const std::vector<double> &u) const;
    // Independent rows that are near their kinks at w, the nearest first, completed by any others.
    std::vector<std::size_t> basis_near(const std::vector<double> &w) const;
};

struct KinkedVertex {
    std::vector<std::size_t> basis;
    std::vector<double> w, u;
    bool bounded = true;  // false where f falls along an edge beyond all kinks
};

// Follows edges from a basis for as long as f falls by more than rounding, but no more than `most` of them. `steepest`
// is the largest slope of the loss of a sample, `n` how many samples all slopes are summed from.
KinkedVertex descend(const KinkedRows &rows, std::vector<std::size_t> basis, double steepest, std::size_t n,
                     std::size_t most, Poll &poll);

}  // namespace levelprox
