// The second-order model of psi over the set of a subproblem:
//
//     min  <g, x - c> + 1/2 (x - c)'Q(x - c)   s.t.   sum omega_i (|x_i| + u_i x_i) <= tau,  signs as required,
//
// Q symmetric and positive definite, with a diagonal that is known. Spectral projected gradient steps with the exact
// step length find the face of the solution (which coordinates are zero, whether the level binds); on that face the
// problem is linear algebra, done by a Cholesky factor where coordinates are few or Q is nearly singular, else by
// conjugate gradients, and the projection of what they find is the next point.
//
// All of it in coordinates in which Q has a unit diagonal: there the set is of the same kind, with other prices, and
// the units of the columns of X no longer matter. Where Q bends so little that such a unit is far out of the set, the
// set gives the unit.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/interrupt.hpp"

namespace levelprox {

class Quadratic {
public:
    virtual ~Quadratic() = default;
    // out = Qv
    virtual void apply(const double *v, double *out, Poll &poll) const = 0;
    // The rows and columns of Q in `chosen`, in out, row after row; false where Q is not available as a matrix.
    virtual bool block(const std::vector<std::int64_t> &chosen, double *out) const = 0;
    // Q_ij for the coordinates j in `chosen`, then Q_ii, where Q is available as a matrix.
    virtual void row(std::int64_t, const std::vector<std::int64_t> &, double *) const {}
    // Whether a product with Q costs less than one with a part of it as a matrix.
    virtual bool is_sparse() const { return false; }
};

// Q = H + diag(ridge) with H in memory. Where most of a large H is zero, as for sparse columns, products read the rest.
class DenseQuadratic final : public Quadratic {
public:
    DenseQuadratic(std::int64_t d, const double *hessian, const double *ridge);
    // out += Hv, the same bits whether H is sparse or not
    void add_product(const double *v, double *out) const;
    bool is_sparse() const override { return !row_ends_.empty(); }
    void apply(const double *v, double *out, Poll &poll) const override;
    bool block(const std::vector<std::int64_t> &chosen, double *out) const override;
    void row(std::int64_t i, const std::vector<std::int64_t> &chosen, double *out) const override;

private:
    std::int64_t d_;
    const double *hessian_, *ridge_;
    std::vector<std::size_t> row_ends_;  // of a sparse H, row after row
    std::vector<std::int32_t> columns_;
    std::vector<double> values_;
};

struct QuadraticSettings {
    double relative = 0.1;    // stop once the residual has fallen by this factor,
    int max_products = 1000;  // or after this many products with Q
};

struct QuadraticState {
    std::vector<double> x;  // in: a point of the set; out: the answer, in the set
    double multiplier = 0;  // of the level
    double residual = 0;    // |Q^-1/2-scaled projected gradient|, relative to the first
    double decrease = 0;    // of the model, from c to x
    int products = 0, projections = 0;
    bool accurate = false;
};

// The Cholesky factor of the block of Q on a face, scaled to a unit diagonal.
struct FaceFactor {
    std::vector<std::int64_t> indices;  // in the order of its rows; empty where there is no factor
    std::vector<double> L, unit;        // unit: from this scale to that of the caller
};

// `gradient` is g, at c = state.x; `diagonal` that of Q; `factor` the last one for this Q: it serves again on a face
// that is the same, or almost.
void minimise_quadratic(const Quadratic &Q, const double *gradient, const double *diagonal, const Ball<double> &set,
                        const QuadraticSettings &settings, QuadraticState &state, FaceFactor &factor, Poll &poll);

}  // namespace levelprox
