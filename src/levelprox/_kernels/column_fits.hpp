// psi minimised over a few columns of A, without a constraint: Newton's method on margins, many times over.
//
//     z = o + sum_j x_j A_j,      psi = sum_i s_i l(z_i, b_i) / sum_i s_i
//
// Columns are dense. One look at a block of their rows gives psi, gradient and Hessian.
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
    ColumnFits(std::int64_t n, std::unique_ptr<Loss> loss, double concordance, const double *target, const double *weight, const double *offset);

    using Columns = std::vector<const double *>;

    std::int64_t rows() const { return n_; }

    // From x, or from 0 where psi is lower there, until |gradient| <= tolerance. Ends early, `not_below`, where psi is shown
    // to stay at `below` or above.
    ColumnFit fit(const Columns &columns, std::vector<double> x, double tolerance, double below, Poll &poll) const;

private:
    struct Look {
        double psi = 0;
        std::vector<double> gradient, hessian;  // the lower triangle
    };

    std::vector<double> combined(const Columns &columns, const std::vector<double> &x) const;
    Look look(const Columns &columns, const double *margins, Poll &poll) const;

    std::int64_t n_;
    std::unique_ptr<Loss> loss_;
    double concordance_, total_;
    const double *target_, *weight_, *offset_;
};

}  // namespace levelprox
