// The multinomial loss minimised over a few columns of X, without a constraint: Newton's method, many times over.
//
//     z = o + XB,      psi = sum_i s_i l(z_i, y_i) / sum_i s_i + sum_j r_j sum_k B_jk^2,      B of shape (m, K) by rows
//
// psi does not change if the K coefficients of a feature are shifted by a constant, except for the ridge, which does
// not couple classes: the Hessian has a part for differences between classes and a part for their means, solved
// separately.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/column_fits.hpp"
#include "algorithms/interrupt.hpp"

namespace levelprox {

class ClassFits {
public:
    // Null weights are all 1, null offsets all 0 (else n x K, row after row). The arrays are the caller's, and must
    // outlive this; labels are in 0..K-1.
    ClassFits(std::int64_t n, std::int64_t classes, const std::int64_t *label, const double *weight,
              const double *offset);

    std::int64_t rows() const { return n_; }
    std::int64_t classes() const { return K_; }

    // From x, or from 0 where that is better, until |gradient| <= tolerance and a Newton step gains at most accuracy
    // |psi|, or rounding. Ends early, `not_below`, where psi is shown to stay above `below`: `noise` is then what the
    // terms of a margin lose by rounding for a coefficient of 1, one number for each column. `ridge` is r, one number
    // for each column, or none. The Hessian of the fit has a row for each feature and class, the margins a row for each
    // sample.
    ColumnFit fit(const std::vector<const double *> &columns, std::vector<double> x, double tolerance, double accuracy,
                  double below, const std::vector<double> &noise, const std::vector<double> &ridge, Poll &poll) const;

private:
    struct Derivatives {
        double psi = 0, size = 0;  // psi, and the sum of |slope z|
        std::vector<double> gradient, hessian;
        std::vector<double> slope;  // of each class: the sum of |s_i dl/dz_k| / sum s
    };
    struct Step {
        std::vector<double> step;  // empty where there is none
        double gain = 0;           // -<step, gradient>
    };

    double share(std::int64_t i) const { return (weight_ ? weight_[i] : 1.0) / total_; }
    std::vector<double> moved(const std::vector<const double *> &columns, const std::vector<double> &step,
                              Poll &poll) const;
    double value(const std::vector<double> &margins, const std::vector<double> &x, const std::vector<double> &ridge,
                 Poll &poll) const;
    Derivatives differentiate(const std::vector<const double *> &columns, const std::vector<double> &margins,
                              const std::vector<double> &x, const std::vector<double> &ridge, Poll &poll) const;
    Step newton_step(const Derivatives &at, const std::vector<double> &reference) const;
    double gap(const std::vector<const double *> &columns, const Derivatives &at, const std::vector<double> &ridge,
               Poll &poll) const;
    double largest_change(const std::vector<double> &along) const;
    std::vector<double> with_means(const std::vector<double> &hessian) const;

    std::int64_t n_, K_;
    const std::int64_t *label_;
    const double *weight_, *offset_;
    double total_;
};

}  // namespace levelprox
