// A few columns, and coordinates w, x = Tw, in which they are orthonormal with the weights of the samples.
//
// Units, large means with an intercept and nearly equal columns do not matter to the simplex method in these
// coordinates. Columns that depend on others are left out, unless their coefficients must not be negative. T comes from
// the Gram matrix where that is well conditioned and there are many samples, else from the Gram-Schmidt method, twice.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/interrupt.hpp"

namespace levelprox {

struct KinkedCoordinates {
    std::size_t rank = 0, dimension = 0;
    std::vector<double> T;            // [j dimension + r], of columns divided by their units
    std::vector<double> vectors;      // the columns in these coordinates, [r n + i]; none where T is of a Gram matrix
    std::vector<bool> replaced;       // by columns that are left out
    std::vector<std::size_t> kept;    // columns that are not left out
    std::vector<double> length;       // of the rows of T that belong to these
    std::vector<std::size_t> beside;  // columns whose coordinate is one of the last ones: they depend on others

    double at(std::size_t j, std::size_t r) const { return T[j * dimension + r]; }
};

class KinkedColumns {
public:
    // Columns of n entries, the caller's. Null weights are all 1; samples of weight 0 do not count.
    KinkedColumns(std::int64_t n, std::vector<const double *> columns, const double *weight,
                  std::vector<bool> nonnegative);

    std::size_t size() const { return whole_.size(); }
    std::int64_t all_rows() const { return all_; }
    // The samples that count, and their number.
    const std::vector<std::int64_t> &counts() const { return counts_; }
    bool counts_all() const { return std::int64_t(share_.size()) == all_; }
    std::int64_t rows() const { return std::int64_t(share_.size()); }
    // Columns over all samples, and over those that count.
    const double *whole(std::size_t j) const { return whole_[j]; }
    const double *column(std::size_t j) const { return columns_[j]; }
    const std::vector<double> &share() const { return share_; }  // weights that add up to 1
    bool nonnegative(std::size_t j) const { return nonnegative_[j]; }
    double unit(std::size_t j) const { return unit_[j]; }  // a power of two above all entries
    // The mean of |column|, at most, in its unit.
    double mean_size(std::size_t j) const { return mean_size_[j]; }

    // Coordinates in which columns of whose length at most the part `dependent` is left outside the span of the others
    // are left out; computed once. `uncentred` is how large entries are before they are centred, where that counts in
    // place of smaller lengths, or empty.
    const KinkedCoordinates &coordinates(double dependent, const std::vector<double> &uncentred, Poll &poll);

    // margins += sum_j x_j column_j over the samples that count.
    void add_to(std::vector<double> &margins, const std::vector<double> &x) const;
    void add_whole_to(std::vector<double> &margins, const std::vector<double> &x) const;  // the same over all samples
    // <column_j, u> for all columns.
    std::vector<double> products(const double *u) const;
    // Entry (j, k) of the Gram matrix, in units.
    double gram(std::size_t j, std::size_t k) const { return gram_[std::max(j, k) * size() + std::min(j, k)]; }

private:
    bool by_gram_matrix(KinkedCoordinates &at) const;
    void by_gram_schmidt(KinkedCoordinates &at, double dependent, const std::vector<double> &uncentred,
                         Poll &poll) const;

    std::int64_t all_;
    std::vector<const double *> whole_, columns_;
    std::vector<std::int64_t> counts_;
    std::vector<std::vector<double>> copies_;
    std::vector<double> share_, unit_, mean_size_, gram_;
    std::vector<bool> nonnegative_;
    std::vector<std::size_t> order_;  // columns without a sign first
    std::map<double, KinkedCoordinates> known_;
};

}  // namespace levelprox
