// Sums over the entries of (X - 1c') diag(1/s), each entry centred before it is squared.
//
// Expanding the square, sum x^2 - 2c sum x + n c^2, loses all digits where |c| is large relative to the spread of a
// column. An entry that a sparse X does not store is -c/s: how much weight such entries have is what is left of
// the total, to twice the usual digits, so that it is nothing where a column is stored in full.
#pragma once
#include <cstdint>

#include "algorithms/design.hpp"
#include "algorithms/interrupt.hpp"

namespace levelprox {

// Null centers are all 0, null scales all 1.
struct Affine {
    const double *center = nullptr, *scale = nullptr;
    double of(std::int64_t j, double value) const {
        const double centred = center ? value - center[j] : value;
        return scale ? centred / scale[j] : centred;
    }
};

// Over samples of positive weight (null: all 1): sum_j = sum_i weight_i X_ij unit, compensated, and the least and
// the largest X_ij. `unit`, a power of two, keeps sums of huge numbers in range.
void column_sums(const Design &X, const double *weight, double unit, double *sum, double *low, double *high,
                 Poll &poll);

// For a_ij = (X_ij - c_j) / s_j: first_j = sum_i weight_i a_ij, second_j = sum_i weight_i a_ij^2. Weights of any sign.
void column_moments(const Design &X, const Affine &affine, const double *weight, double *first, double *second,
                    Poll &poll);

// out_i = sum_j a_ij^2
void affine_row_squares(const Design &X, const Affine &affine, double *out, Poll &poll);

}  // namespace levelprox
