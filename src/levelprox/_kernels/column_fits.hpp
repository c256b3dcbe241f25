// psi minimised over a few columns of A, without a constraint: Newton's method on margins, many times over.
//
//     z = o + sum_j x_j A_j,      psi = sum_i s_i l(z_i, b_i) / sum_i s_i
//
// One look at the columns gives psi, gradient and Hessian. Dense columns are read in blocks of rows; of sparse ones, as of
// words in texts, only what is stored.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "interrupt.hpp"
#include "loss.hpp"

namespace levelprox {

enum class FitEnd { fitted, not_below, failed };

struct ColumnFit {
    FitEnd end = FitEnd::failed;
    std::vector<double> x, margins, hessian;  // the Hessian over all columns, row after row
    double psi = 0;
};

class ColumnFits {
public:
    // Null weights are all 1, null offsets all 0; the arrays are the caller's, and must outlive this.
    // `concordance` is sup |l'''|/l'': 0 where the curvature does not change, infinite where nothing is known.
    // A loss that is not `convex` and has no minimum that is `attained` is bounded and falls for ever: far out psi hardly
    // bends, and is not yet what it may be. Where it is attained, |l''| takes the place of l'' only as long as it must.
    ColumnFits(std::int64_t n, std::unique_ptr<Loss> loss, double concordance, const double *target, const double *weight, const double *offset,
               bool convex, bool attained);

    // A column is `values`, or, where `rows` is not null, has `count` values in these rows and is 0 elsewhere.
    struct Column {
        const double *values;
        const std::int64_t *rows;
        std::int64_t count;
    };
    using Columns = std::vector<Column>;

    std::int64_t rows() const { return n_; }

    // From x, or from 0 where that is far from where it leads, until |gradient| <= tolerance. Ends early, `not_below`, where psi is shown
    // to stay at `below` or above.
    ColumnFit fit(const Columns &columns, std::vector<double> x, double tolerance, double below, Poll &poll) const;

private:
    struct Look {
        double psi = 0;
        std::vector<double> gradient, hessian;  // the lower triangle
    };

    std::vector<double> combined(const Columns &columns, const std::vector<double> &x) const;
    Look look(const Columns &columns, const double *margins, Poll &poll) const;
    Look look(const Columns &columns, const double *margins, bool convex, Poll &poll) const;
    double derivatives(const double *margins, bool convex, double *slope, double *bend, Poll &poll) const;
    void add_dense(const Columns &columns, const double *slope, const double *bend, Look &seen, Poll &poll) const;
    void add_sparse(const Columns &columns, const double *slope, const double *bend, Look &seen, Poll &poll) const;
    double change_along(const std::vector<double> &along) const;
    bool stays_above(const Columns &columns, const Look &at, double below) const;

    std::int64_t n_;
    std::unique_ptr<Loss> loss_;
    double concordance_, total_;
    const double *target_, *weight_, *offset_;
    bool falls_, bends_both_ways_;
};

}  // namespace levelprox
