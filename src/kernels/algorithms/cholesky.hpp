// Dense systems with a positive definite matrix, row after row; no BLAS, so the bits are the same everywhere.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "simd/simd.hpp"

namespace levelprox {

// Rows [begin, end) of the lower triangle become those of the Cholesky factor, given the rows before them. Entries
// before column `from` are final already, and have been subtracted from the others. False where a pivot is not above
// `least`; its row is then in `failed`.
inline bool factorise_rows(std::size_t m, double *matrix, std::size_t begin, std::size_t end, std::size_t from,
                           double least, std::size_t *failed = nullptr) {
    const auto &dense = simd().dense<double>();
    for (std::size_t i = begin; i < end; ++i) {
        double *row = matrix + i * m;
        for (std::size_t j = from; j < i; ++j)
            row[j] =
                (row[j] - dense.dot(std::int64_t(j - from), row + from, matrix + j * m + from)) / matrix[j * m + j];
        const double pivot = row[i] - dense.dot(std::int64_t(i - from), row + from, row + from);
        if (!(pivot > least)) {
            if (failed) *failed = i;
            return false;
        }
        row[i] = std::sqrt(pivot);
    }
    return true;
}

// The lower triangle of a matrix of order m becomes its Cholesky factor; false where a pivot is not above `least`. The
// default is for a matrix with a unit diagonal.
//
// By blocks of PANEL rows: what the columns before a block take from it is a product of two panels, which are stored
// column after column. poll() is called for each block of rows.
template <class Poll>
bool factorise(std::size_t m, std::vector<double> &matrix, double least, Poll poll, std::size_t *failed = nullptr) {
    constexpr std::size_t FEW = 3 * PANEL, B = PANEL;
    if (m <= FEW) return factorise_rows(m, matrix.data(), 0, m, 0, least, failed);
    const std::size_t n_blocks = (m + B - 1) / B;
    std::vector<std::vector<double>> panels(n_blocks);
    std::vector<double> product(B * B);
    for (std::size_t I = 0; I < n_blocks; ++I) {
        const std::size_t begin = I * B, end = std::min(begin + B, m);
        panels[I].assign((begin + B) * B, 0.0);
        for (std::size_t J = 0; J <= I; ++J) {
            const std::size_t first = J * B, last = std::min(first + B, m);
            if (J > 0) {
                simd().panel_product(std::int64_t(first), panels[I].data(), panels[J].data(), product.data());
                for (std::size_t i = begin; i < end; ++i)
                    for (std::size_t j = first; j < last && j <= i; ++j)
                        matrix[i * m + j] -= product[(i - begin) * B + (j - first)];
            }
            if (J == I) {
                if (!factorise_rows(m, matrix.data(), begin, end, begin, least, failed)) return false;
            } else {
                for (std::size_t i = begin; i < end; ++i)
                    for (std::size_t j = first; j < last; ++j) {
                        double value = matrix[i * m + j];
                        for (std::size_t k = first; k < j; ++k) value -= matrix[i * m + k] * matrix[j * m + k];
                        matrix[i * m + j] = value / matrix[j * m + j];
                    }
            }
            for (std::size_t i = begin; i < end; ++i)
                for (std::size_t j = first; j < std::min(last, i + 1); ++j)
                    panels[I][j * B + (i - begin)] = matrix[i * m + j];
        }
        poll();
    }
    return true;
}

inline bool factorise(std::size_t m, std::vector<double> &matrix, double least = 1e-14) {
    return factorise(m, matrix, least, [] {});
}

// L becomes the factor of the matrix without row and column k, of order m - 1, stored with that stride: what the column
// leaves to those after it is rotated into them.
inline void remove_from_factor(std::size_t m, std::vector<double> &L, std::size_t k) {
    std::vector<double> cosines(m), sines(m), row(m);
    for (std::size_t i = 0, to = 0; i < m; ++i) {
        if (i == k) continue;
        std::copy_n(L.begin() + std::ptrdiff_t(i * m), i + 1, row.begin());
        for (std::size_t j = k; j + 1 < i; ++j) {
            const double left = row[j], right = row[j + 1];
            row[j] = cosines[j] * left + sines[j] * right;
            row[j + 1] = cosines[j] * right - sines[j] * left;
        }
        if (i > k) {
            const double length = std::hypot(row[i - 1], row[i]);
            cosines[i - 1] = row[i - 1] / length;
            sines[i - 1] = row[i] / length;
            row[i - 1] = length;
        }
        std::copy_n(row.begin(), to + 1, L.begin() + std::ptrdiff_t(to * (m - 1)));
        ++to;
    }
    L.resize((m - 1) * (m - 1));
}

// L becomes the factor of the matrix with one more row, whose lower part is given; false, and L unchanged, where its
// pivot is not above `least`.
inline bool append_to_factor(std::size_t m, std::vector<double> &L, const std::vector<double> &row,
                             double least = 1e-14) {
    std::vector<double> larger((m + 1) * (m + 1));
    for (std::size_t i = 0; i < m; ++i)
        std::copy_n(L.begin() + std::ptrdiff_t(i * m), i + 1, larger.begin() + std::ptrdiff_t(i * (m + 1)));
    std::copy_n(row.begin(), m + 1, larger.begin() + std::ptrdiff_t(m * (m + 1)));
    if (!factorise_rows(m + 1, larger.data(), m, m + 1, 0, least)) return false;
    L = std::move(larger);
    return true;
}

// x becomes the solution of LL'v = x.
inline void solve_factorised(std::size_t m, const std::vector<double> &L, std::vector<double> &x) {
    const auto &dense = simd().dense<double>();
    for (std::size_t i = 0; i < m; ++i) x[i] = (x[i] - dense.dot(std::int64_t(i), &L[i * m], x.data())) / L[i * m + i];
    for (std::size_t i = m; i-- > 0;) {
        x[i] /= L[i * m + i];
        dense.add(std::int64_t(i), -x[i], &L[i * m], x.data());
    }
}

}  // namespace levelprox
