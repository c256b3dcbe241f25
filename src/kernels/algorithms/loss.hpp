// The losses l(z, b) of one margin z and one target b, written so that nothing overflows on the way.
//
// A loss works on blocks: one virtual call serves thousands of samples.
#pragma once
#include <cstdint>
#include <memory>

namespace levelprox {

class Loss {
public:
    virtual ~Loss() = default;
    virtual void value(std::int64_t n, const double *z, const double *b, double *out) const = 0;
    virtual void derivative(std::int64_t n, const double *z, const double *b, double *out) const = 0;
    virtual void curvature(std::int64_t n, const double *z, const double *b, double *out) const = 0;
    // Those of the three that are not null: what they share is then computed once.
    virtual void evaluate(std::int64_t n, const double *z, const double *b, double *values, double *derivatives,
                          double *curvatures) const {
        if (values) value(n, z, b, values);
        if (derivatives) derivative(n, z, b, derivatives);
        if (curvatures) curvature(n, z, b, curvatures);
    }
};

enum class LossKind {
    squared,
    logistic,
    huber,
    cauchy,
    sigmoid,
    squared_hinge,
    poisson,
    gamma,
    absolute,
    quantile,
    hinge,
};

// The parameter of the loss is ignored by losses that have none. A width > 0 gives the Moreau envelope of a loss with
// kinks, 0 the loss itself. Throws std::invalid_argument for a parameter or a width that the loss does not allow.
std::unique_ptr<Loss> make_loss(LossKind kind, double parameter, double width);

}  // namespace levelprox
