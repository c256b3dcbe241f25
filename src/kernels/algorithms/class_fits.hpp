// The multinomial loss minimised over a few columns of X, without a constraint: Newton's method, many times over.
//
//     z = o + XB,      psi = sum_i s_i l(z_i, y_i) / sum_i s_i + sum_j r_j sum_k B_jk^2,      B of shape (m, K) by rows
//
// psi does not change if the K coefficients of a feature are shifted by a constant, except for the ridge, which does
// not couple classes: the Hessian has a part for differences between classes and a part for their means, solved
// separately.
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "algorithms/class_newton.hpp"
#include "algorithms/class_samples.hpp"
#include "algorithms/column_fits.hpp"
#include "algorithms/interrupt.hpp"

namespace levelprox {

class ClassFits {
public:
    explicit ClassFits(ClassSamples samples) : samples_(std::move(samples)) {}

    const ClassSamples &samples() const { return samples_; }

    // From x, or from 0 where that is better, until |gradient| <= tolerance and a Newton step gains at most accuracy
    // |psi|, or rounding. Ends early, `not_below`, where psi is shown to stay above `below`: `noise` is then what the
    // terms of a margin lose by rounding for a coefficient of 1, one number for each column. `ridge` is r, one number
    // for each column, or none. The Hessian of the fit has a row for each feature and class, the margins a row for each
    // sample.
    ColumnFit fit(const ColumnPointers &columns, std::vector<double> x, double tolerance, double accuracy, double below,
                  const std::vector<double> &noise, const std::vector<double> &ridge, Poll &poll) const;

private:
    struct Derivatives {
        double psi = 0;
        std::vector<double> gradient, hessian;
    };
    struct Step {
        std::vector<double> step;  // empty where there is none
        double gain = 0;           // -<step, gradient>

        Step of(const std::vector<double> &gradient) &&;  // with its gain; none where there is nothing to gain
    };

    std::size_t K() const { return std::size_t(samples_.classes()); }
    Step newton_step(const Derivatives &at, const std::vector<double> &reference, NewtonSteps &steps) const;
    double gap(const ColumnPointers &columns, const Derivatives &at, const std::vector<double> &ridge,
               Poll &poll) const;

    double loss_of_origin(Poll &poll) const;  // at B = 0, evaluated once

    ClassSamples samples_;
    mutable std::atomic<double> loss_of_origin_{std::numeric_limits<double>::quiet_NaN()};
};

}  // namespace levelprox
