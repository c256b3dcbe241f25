// Small dense systems with a positive definite matrix, row after row; no BLAS, so the bits are the same everywhere.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "simd/simd.hpp"

namespace levelprox {

// The lower triangle of a matrix of order m becomes its Cholesky factor; false where a pivot is not above `least`. The
// default is for a matrix with a unit diagonal.
inline bool factorise(std::size_t m, std::vector<double> &matrix, double least = 1e-14) {
    const auto &dense = simd().dense<double>();
    for (std::size_t i = 0; i < m; ++i) {
        double *row = &matrix[i * m];
        for (std::size_t j = 0; j < i; ++j)
            row[j] = (row[j] - dense.dot(std::int64_t(j), row, &matrix[j * m])) / matrix[j * m + j];
        const double pivot = row[i] - dense.dot(std::int64_t(i), row, row);
        if (!(pivot > least)) return false;
        row[i] = std::sqrt(pivot);
    }
    return true;
}

// x becomes the solution of LL'v = x.
inline void solve_factorised(std::size_t m, const std::vector<double> &L, std::vector<double> &x) {
    for (std::size_t i = 0; i < m; ++i)
        x[i] = (x[i] - simd().dense<double>().dot(std::int64_t(i), &L[i * m], x.data())) / L[i * m + i];
    for (std::size_t i = m; i-- > 0;) {
        x[i] /= L[i * m + i];
        for (std::size_t j = 0; j < i; ++j) x[j] -= x[i] * L[i * m + j];
    }
}

}  // namespace levelprox
