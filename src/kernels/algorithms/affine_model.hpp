// psi over A = [(X - 1c') diag(1/s), 1], without A: X is read as it is, in the passes of the linear model over it.
//
//     Ax = Xv + (sum of the intercepts - <c, v>) 1,  v = x / s;      A'r = ((X'r - c sum r) / s, sum r)
//
// The columns of ones may be anywhere among the others: a restriction keeps the order of the columns requested.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "algorithms/exact.hpp"
#include "algorithms/linear_model.hpp"
#include "algorithms/objective.hpp"

namespace levelprox {

class AffineModel : public Objective {
public:
    // Null centers are all 0, null scales all 1; `ones` are the places of the columns of ones in A, ascending.
    // Everything is the caller's, and must outlive the model.
    AffineModel(const LinearModel &model, const double *center, const double *scale, const std::int64_t *ones,
                std::int64_t intercepts)
        : model_(model), center_(center), scale_(scale), ones_(ones), intercepts_(intercepts) {}

    std::int64_t dimension() const override { return model_.dimension() + intercepts_; }

    double value_and_gradient(const double *x, double *gradient, Poll &poll) const override {
        std::vector<double> v(model_.dimension());
        double residual_sum = 0;
        const double shift = inward(x, v.data());
        const double value = model_.value_and_gradient(v.data(), shift, gradient, &residual_sum, poll);
        outward(residual_sum, gradient);
        return value;
    }

private:
    // v = x / s without the intercepts; returns what is added to every margin.
    double inward(const double *x, double *v) const {
        HeadTail shift{0, 0};
        std::int64_t k = 0;
        for (std::int64_t j = 0; j < dimension(); ++j) {
            if (k < intercepts_ && ones_[k] == j) {
                add_to(shift, x[j]);
                ++k;
                continue;
            }
            v[j - k] = scale_ ? x[j] / scale_[j - k] : x[j];
            if (center_) add_to(shift, -center_[j - k] * v[j - k]);
        }
        return shift.head + shift.tail;
    }

    // From X'r in the first places of `gradient` to A'r in all of them; backwards, so that nothing is overwritten
    // unread.
    void outward(double residual_sum, double *gradient) const {
        std::int64_t k = intercepts_;
        for (std::int64_t j = dimension(); j-- > 0;) {
            if (k > 0 && ones_[k - 1] == j) {
                gradient[j] = residual_sum;
                --k;
                continue;
            }
            double slope = gradient[j - k];
            if (center_) slope -= center_[j - k] * residual_sum;
            gradient[j] = scale_ ? slope / scale_[j - k] : slope;
        }
    }

    const LinearModel &model_;
    const double *center_, *scale_;
    const std::int64_t *ones_;
    std::int64_t intercepts_;
};

}  // namespace levelprox
