// An orthonormal basis of a few columns, for fits in which Gram matrices would square the condition number.
//
// The inner product is <u, v> = sum_i w_i u_i v_i. If one of the columns is constant, the weighted means of the others
// are subtracted first, in the units of the data, where the subtraction is exact up to one rounding per entry. The rest
// is modified Gram-Schmidt with column pivoting and reorthogonalisation, so the basis is orthonormal to rounding for
// any condition number.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/interrupt.hpp"

namespace levelprox {

// A column is `values`, or, where `rows` is not null, has `count` values in these rows and is 0 elsewhere.
struct Column {
    const double *values;
    const std::int64_t *rows;
    std::int64_t count;
};
using Columns = std::vector<Column>;

class OrthonormalBasis {
public:
    // Null weights are all 1. A column of whose length at most the part `dependent` is left outside the span of the
    // others gets no vector of its own.
    OrthonormalBasis(std::int64_t n, const Columns &columns, const double *weight, double dependent, Poll &poll);
    static constexpr double ROUNDING = 1e-12;  // a part that may be rounding

    std::size_t rank() const { return order_.size(); }
    std::size_t columns() const { return m_; }
    // The basis vectors as columns.
    Columns vectors() const;
    const double *vector(std::size_t p) const { return &values_[order_[p] * std::size_t(n_)]; }
    // x with sum_j x_j column_j = sum_p a_p vector_p; 0 for columns without a vector.
    std::vector<double> coefficients(const std::vector<double> &a) const;
    // a with sum_p a_p vector_p = sum_j x_j column_j, up to rounding.
    std::vector<double> coordinates(const std::vector<double> &x) const;
    // The coordinates of column j, one per vector.
    std::vector<double> of_column(std::size_t j) const;
    // The indices of the columns that have a vector, in the order of the vectors.
    const std::vector<std::size_t> &order() const { return order_; }
    // What is left of column j after the vectors before its own, relative to its own length.
    double smallest_ratio() const { return smallest_ratio_; }
    // The rounding error of each vector, relative to its length: large where little was left of a column.
    const std::vector<double> &noise() const { return noise_; }
    // What is left of columns without a vector, relative to their length, at most: whether they depend on the others,
    // or only nearly.
    double largest_dropped() const { return largest_dropped_; }

private:
    double dot(const double *u, const double *v) const;
    void clear_rounding(const Column &column, std::size_t j, double *q) const;

    std::int64_t n_;
    std::size_t m_;
    const double *weight_;
    std::vector<double> values_;      // m columns of n, scaled and centred; those in `order_` have become vectors
    std::vector<std::size_t> order_;  // of the columns that have a vector
    std::vector<double> triangle_;  // m rows of m: entry [j][p] is the coordinate p of the scaled and centred column j
    std::vector<double> scale_, mean_;  // column j = scale_j (values_j + mean_j): mean_ is in scaled units
    std::size_t constant_ = SIZE_MAX;   // the constant column, if there is one
    std::vector<double> noise_;         // of the vectors
    double smallest_ratio_ = 1.0, largest_dropped_ = 0.0;
};

}  // namespace levelprox
