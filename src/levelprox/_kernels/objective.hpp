// psi as the compiled subsolvers see it.
#pragma once
#include <cstdint>

namespace levelprox {

class Objective {
public:
    virtual ~Objective() = default;
    virtual std::int64_t dimension() const = 0;
    // psi(x), and its gradient in `gradient`.
    virtual double value_and_gradient(const double *x, double *gradient) = 0;
};

}  // namespace levelprox
