// Fits of a softmax model over a few columns to a few digits, of which nothing is shown: for one set after another.
//
// Newton steps are solved by conjugate gradients, preconditioned by the inverse of a Hessian from before: that at the
// fit of a set S, without the feature that is left out and with the one that is added, serves for the fit of the next
// set.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/class_samples.hpp"
#include "algorithms/interrupt.hpp"

namespace levelprox {

// The inverse of H over the features R = S without i, and j, in this order, from K = (H over S)^-1:
//
//     H_RR^-1 = K_RR - K_Ri K_ii^-1 K_iR,      then j by its Schur complement.
struct NearInverse {
    std::vector<double> begin;             // another x to begin with
    const double *inverse;                 // K, of shape (order, order)
    std::size_t order;                     // of S: features times classes
    std::int64_t out;                      // the place of i in S; -1: none is left out
    const double *stiffness;               // K_ii^-1
    const double *across, *schur_inverse;  // H_jR H_RR^-1 over S, 0 at i; null where none is added

    std::vector<double> apply(std::size_t classes, const std::vector<double> &v) const;
};

// About the Newton steps of one fit: -H^-1 gradient by a factorised H, or by conjugate gradients with a factor, or an
// inverse, from before. `ridge` is r, one number for each column, or none.
class NewtonSteps {
public:
    NewtonSteps(const ClassSamples &samples, const ColumnPointers &columns, const std::vector<double> &ridge,
                const NearInverse *near)
        : samples_(samples), columns_(columns), ridge_(ridge), near_(near) {}

    bool known() const { return near_ != nullptr || !unit_.empty(); }

    // Takes a Cholesky factor of a Hessian that was divided by `unit` to have a unit diagonal.
    void use(std::vector<double> factor, std::vector<double> unit);

    // Factorises H; of a singular one a larger matrix, and of what is not finite its diagonal.
    void factorise_hessian(const std::vector<double> &hessian);

    // The preconditioner times v.
    std::vector<double> solve(const std::vector<double> &v) const;

    // By conjugate gradients, until so much of the squared residual is left; empty where many iterations are needed.
    std::vector<double> conjugate(const ClassPoint &point, const std::vector<double> &gradient, double residual,
                                  Poll &poll) const;

    // Second derivatives of the ridge along a coordinate.
    double held(std::size_t q) const { return ridge_.empty() ? 0.0 : 2 * ridge_[q / K()]; }

    // H at a point, with the ridge.
    std::vector<double> hessian(const ClassPoint &point, Poll &poll) const;

    // The gradient at a point, with the ridge.
    std::vector<double> gradient(const ClassPoint &point, const std::vector<double> &x, Poll &poll) const;

private:
    std::size_t K() const { return std::size_t(samples_.classes()); }

    const ClassSamples &samples_;
    const ColumnPointers &columns_;
    const std::vector<double> &ridge_;
    const NearInverse *near_;
    std::vector<double> factor_, unit_;
};

struct ClassNewtonFit {
    std::vector<double> x, margins;  // margins K x n
    double psi = 0;
};

// From x, or from where `near` begins if that is lower, until a Newton step gains at most accuracy |psi|, or psi is at
// most `gone`; none where psi is not likely to be below a value.
std::optional<ClassNewtonFit> newton_fit(const ClassSamples &samples, const ColumnPointers &columns,
                                         std::vector<double> x, const std::vector<double> &ridge, double accuracy,
                                         double below, double gone, const NearInverse *near, Poll &poll);

}  // namespace levelprox
