// Samples of K classes, and the multinomial loss of margins that a few columns of X move:
//
//     z = o + XB,      loss = sum_i s_i l(z_i, y_i) / sum_i s_i,      B of shape (m, K) by rows
//
// Margins and probabilities have those of a class side by side: K x n. Second derivatives are sums over the samples of
// w_ab X_j X_l with w_ab = s p_a p_b, one weight for each of the K (K - 1)/2 pairs of classes:
//
//     H_(ja)(lb) = -<w_ab, X_j X_l> for a != b,      H_(ja)(la) = sum over b != a of <w_ab, X_j X_l>,
//
// so that nothing cancels, and a pair of features is symmetric for each pair of classes.
//
// Rows are taken in blocks that stay in cache, blocks in chunks whose number depends on n alone, and sums over chunks
// are added in their order: the bits are the same for any number of threads.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/interrupt.hpp"

namespace levelprox {

using ColumnPointers = std::vector<const double *>;

// The loss at some margins, and what its derivatives are made of.
struct ClassPoint {
    std::vector<double> p;             // K x n; 0 for samples without weight
    std::vector<double> others, lack;  // of each sample: sum of exp(z_k - largest) but one, and largest - z_y
    double loss = 0;
};

// Gradient and Hessian for `d` columns, of which some are inside a fit.
struct ClassDerivatives {
    std::vector<double> gradient;  // d x K
    std::vector<double> cross;     // (d K) x (m K): of all columns with those inside
    std::vector<double> own;       // d x K x K: the diagonal blocks
};

class ClassSamples {
public:
    // Null weights are all 1, null offsets all 0 (else n x K, row after row). Labels are the caller's, and must outlive
    // this; they are in 0..K-1.
    ClassSamples(std::int64_t n, std::int64_t classes, const std::int64_t *label, const double *weight,
                 const double *offset);

    std::int64_t rows() const { return n_; }
    std::int64_t classes() const { return K_; }

    // The margins for B = 0.
    const std::vector<double> &origin() const { return origin_; }

    // K x n -> n x K, and back
    std::vector<double> by_sample(const std::vector<double> &margins) const;
    std::vector<double> by_class(const double *margins) const;

    // margins += XB
    void move(const ColumnPointers &columns, const std::vector<double> &x, std::vector<double> &margins,
              Poll &poll) const;

    ClassPoint at(const std::vector<double> &margins, Poll &poll) const;

    // X'(s dl/dz) / sum s, of shape (m, K)
    std::vector<double> gradient(const ColumnPointers &columns, const ClassPoint &point, Poll &poll) const;

    // H v for a change v of B, without H
    std::vector<double> hessian_product(const ColumnPointers &columns, const ClassPoint &point,
                                        const std::vector<double> &v, Poll &poll) const;

    // H, of shape (m K, m K)
    std::vector<double> hessian(const ColumnPointers &columns, const ClassPoint &point, Poll &poll) const;

    ClassDerivatives derivatives(const ColumnPointers &columns, const std::vector<std::size_t> &inside,
                                 const ClassPoint &point, Poll &poll) const;

    // The sum of |s dl/dz_k| / sum s over the samples for each class, and that of |s dl/dz_k z_k| / sum s over all.
    std::vector<double> slopes(const ClassPoint &point) const;
    double slope_times_margins(const ClassPoint &point, const std::vector<double> &margins) const;

    // The largest difference between the changes of two margins of a sample.
    double largest_change(const std::vector<double> &along) const;

private:
    static constexpr std::int64_t BLOCK = 256, CHUNK = 4096, MOST_CHUNKS = 16;
    static constexpr std::int64_t ROUND = 1 << 26;  // multiplications between two checks for Ctrl-C

    std::int64_t pairs() const { return K_ * (K_ - 1) / 2; }
    std::int64_t pair(std::int64_t a, std::int64_t b) const { return a * (2 * K_ - a - 1) / 2 + b - a - 1; }  // a < b
    std::int64_t chunks() const { return (n_ + chunk_rows_ - 1) / chunk_rows_; }
    double slope(const ClassPoint &point, std::int64_t k, std::int64_t i) const;
    void pair_weights(const ClassPoint &point, std::int64_t begin, std::int64_t end, double *out) const;
    void add_cross(const ColumnPointers &columns, const std::vector<std::size_t> &inside, const ClassPoint &point,
                   std::int64_t begin, std::int64_t end, std::vector<double> &sums) const;
    void add_by_panels(const ColumnPointers &part, const ClassPoint &point, std::int64_t begin, std::int64_t end,
                       double *out) const;

    // body(chunk, begin, end) for all blocks of rows, those of a chunk in their order; `work` is for a row.
    template <class Body>
    void in_blocks(std::int64_t work, Poll &poll, const Body &body) const;

    // `slots` numbers, summed over the blocks: body(begin, end, sums) adds a block of rows to sums.
    template <class Body>
    std::vector<double> summed(std::int64_t slots, std::int64_t work, Poll &poll, const Body &body) const;

    std::int64_t n_, K_, chunk_rows_;
    const std::int64_t *label_;
    std::vector<double> share_, origin_;  // s_i / sum s, and margins at 0
};

}  // namespace levelprox
