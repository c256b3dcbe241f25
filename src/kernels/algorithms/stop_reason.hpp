// Why a subsolver stopped. The bindings map each value to a member of levelprox.result.StopReason.
#pragma once

namespace levelprox {

enum class StopReason {
    steps,        // the number of steps it was given
    accurate,     // the residual fell by the factor requested
    stationary,   // the projected step does not move x
    no_decrease,  // no step lowers psi in floating point
    not_finite,   // psi or its gradient is not finite
    seconds,      // the time it was given
    interrupted,  // Ctrl-C
};

}  // namespace levelprox
