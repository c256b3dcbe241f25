// psi as the compiled subsolvers see it.
#pragma once
#include <cstdint>

#include "algorithms/interrupt.hpp"

namespace levelprox {

class Objective {
public:
    virtual ~Objective() = default;
    virtual std::int64_t dimension() const = 0;
    // psi(x), and its gradient in `gradient`. Long work calls `poll` regularly; several threads may call at once.
    virtual double value_and_gradient(const double *x, double *gradient, Poll &poll) const = 0;
};

}  // namespace levelprox
