// What adding a sparse column to a fit of the logistic loss gains at most, without a refit.
//
// Where p_i is the probability of the other class at the margins z of a fit, the points of the dual problem are
// probabilities q in [0, 1] with sum_i s_i b_i q_i x_ij = 2 r_j x_j for each column j, and
//
//     psi(z) - sum_i s_i KL(q_i | p_i) <= psi of any fit over the columns that these q are orthogonal to.
//
// For another column with entries in few samples, q comes in two steps:
//
// - in the samples of its entries, the q next to p that is orthogonal to it: p - p (1 - p) b x_j t, in [0, 1];
// - in all others a Newton step, p - p (1 - p) b a with a in the span of the columns of the fit, makes q orthogonal to
//   these again. Where it leaves [0, 1], q is at the end of it, and the step is computed again without these samples.
//
// Samples without much loss have q = 0 from the beginning: columns with entries in such samples alone need no step.
// Where a column has next to no curvature in samples whose q is free, q = 0 in all of its samples.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/column_fits.hpp"

namespace levelprox {

// The entries of a few columns, sample after sample, that are not zero.
struct ColumnRows {
    ColumnRows() = default;
    ColumnRows(std::int64_t n, const Columns &columns);
    std::vector<std::int64_t> begin;  // of each sample, and the end
    std::vector<std::int32_t> column;
    std::vector<double> value;
    std::int64_t constant = -1;  // a column that is the same in all samples, where there is one
    double constant_value = 0;
};

class AdditionBounds {
public:
    // `rows` has the columns of the fit; `place` their places in x and in `ridge` (or no ridges), or -1 for a column
    // that is not in the fit. What samples without much loss may gain together is at most `spare`.
    AdditionBounds(const ColumnFits &fits, const ColumnRows &rows, const std::vector<std::int64_t> &place,
                   const ColumnFit &fit, const std::vector<double> &ridge, double spare);

    // Whether the loss, and the column, are of the kind described above.
    static bool exist_for(const ColumnFits &fits) { return fits.is_logistic(); }
    static bool exist_for(const Column &column) { return column.rows != nullptr; }

    // Whether adding a column gains at most so much; false where that is not shown.
    bool gains_at_most(const Column &newcomer, double most);

private:
    struct Entry {
        std::int64_t sample;
        double x, q;  // the entry times the class; the dual point
    };
    void fix_samples_without_loss(double spare);
    void choose_columns(const ColumnRows &rows, const std::vector<std::int64_t> &place, const ColumnFit &fit,
                        const std::vector<double> &ridge);
    void list_rows(const ColumnRows &rows);
    void differentiate();
    bool make_orthogonal(const Column &newcomer);
    double divergence(std::int64_t i, double q) const;
    bool move(std::int64_t i, double q);
    bool find_step();
    bool bounds_divergence(const Column &newcomer, double most);
    bool move_outside(const std::vector<std::int64_t> &samples, double &largest, bool &inside);
    bool plain_samples_stay_inside(double &largest) const;
    double error_of_step() const;
    double correction(double most);

    const ColumnFits &fits_;
    std::vector<std::int64_t> place_;  // of each column in a step; -1 where it needs none
    std::size_t m_ = 0;                // columns that need one
    bool usable_ = true;
    std::vector<double> p_, rest_, bend_;  // of each sample: p, 1 - p, and s p (1 - p); p = 0 where q is fixed
    ColumnRows rows_;                      // of the columns in a step, of samples with p > 0
    std::vector<std::vector<std::int64_t>> samples_;       // of each column in a step
    std::vector<std::int64_t> plain_, others_;             // samples with the constant column alone, and others
    double plain_p_[2] = {0, 0}, plain_rest_[2] = {0, 0};  // the largest of either class
    std::vector<double> x_, size_, ridge_;                 // of the columns in a step
    std::vector<double> residual_, hessian_;               // over all samples
    double fixed_ = 0;                                     // divergence of samples without much loss

    // Of one newcomer.
    std::vector<Entry> entries_;
    double gap_ = 0, error_ = 0;  // divergence of the samples that were moved, and its error
    std::vector<double> left_, curvature_, factor_, step_, free_bend_;
    std::vector<std::int64_t> moved_;
    std::vector<char> dropped_, is_dropped_;  // columns with q = 0 in all of their samples, and these samples
    std::vector<std::size_t> dropped_columns_;
    std::int64_t dependent_ = -1;  // a column that leaves no step
};

}  // namespace levelprox
