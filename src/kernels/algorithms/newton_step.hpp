// Newton steps of fits over a few columns, from the gradient and the lower triangle of the Hessian.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace levelprox {

// -(H + share diag(ridge))^-1 g; empty where the matrix is not positive definite.
std::vector<double> ridged_newton_step(std::vector<double> H, double share, const std::vector<double> &ridge,
                                       const std::vector<double> &g);

struct NewtonStep {
    std::vector<double> step;       // empty where the matrix is not finite
    std::vector<std::size_t> flat;  // coordinates without a pivot, whose step is 0
    std::vector<double> slope;      // of the model along these, after the step
    double decrement = 0;           // g' H^-1 g
};

// -(H + mu diag(reference))^-1 g, in units in which the diagonal is 1, by Cholesky's method with diagonal pivoting.
// Coordinates whose pivots are not above `least` are left out.
NewtonStep pivoted_newton_step(std::vector<double> H, double mu, const std::vector<double> &reference,
                               const std::vector<double> &g, double least);

inline double largest_magnitude(const std::vector<double> &v) {
    double most = 0;
    for (const double entry : v) most = std::max(most, std::abs(entry));
    return most;
}

// Copies the lower triangle to the upper one.
inline void mirror(std::size_t m, std::vector<double> &H) {
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < j; ++k) H[k * m + j] = H[j * m + k];
}

}  // namespace levelprox
