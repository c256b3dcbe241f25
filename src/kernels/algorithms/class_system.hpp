// Newton systems of a softmax model over m features with K coefficients each.
#pragma once
#include <cmath>
#include <cstddef>
#include <vector>

namespace levelprox {

// psi with its ridge, sum_j r_j sum_k x_jk^2; no r: no ridge.
inline double with_ridge(double loss, std::size_t K, const std::vector<double> &x, const std::vector<double> &ridge) {
    for (std::size_t q = 0; !ridge.empty() && q < x.size(); ++q) loss += ridge[q / K] * x[q] * x[q];
    return loss;
}

// The Hessian with the mean curvature of each feature added along a common shift of its coefficients: there psi is
// constant, except for the ridge.
inline std::vector<double> with_means(std::size_t K, const std::vector<double> &hessian) {
    std::vector<double> matrix = hessian;
    const std::size_t N = std::size_t(std::llround(std::sqrt(double(hessian.size()))));
    for (std::size_t j = 0; j < N / K; ++j) {
        double mean = 0;
        for (std::size_t k = 0; k < K; ++k) mean += hessian[(j * K + k) * N + j * K + k] / double(K);
        for (std::size_t a = 0; a < K; ++a)
            for (std::size_t b = 0; b < K; ++b) matrix[(j * K + a) * N + j * K + b] += mean;
    }
    return matrix;
}

// Divides rows and columns by the roots of the diagonal; empty where an entry of it is not positive.
inline std::vector<double> to_unit_diagonal(std::size_t N, std::vector<double> &matrix) {
    std::vector<double> unit(N);
    for (std::size_t q = 0; q < N; ++q) {
        const double own = matrix[q * N + q];
        if (!(own > 0) || !std::isfinite(own)) return {};
        unit[q] = 1 / std::sqrt(own);
    }
    for (std::size_t q = 0; q < N; ++q)
        for (std::size_t p = 0; p <= q; ++p) matrix[q * N + p] *= unit[q] * unit[p];
    return unit;
}

}  // namespace levelprox
