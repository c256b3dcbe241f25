#include "bindings/module.hpp"
#include "algorithms/nesterov.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

struct NesterovOutcome {
    Array x;
    double multiplier;
    std::int64_t steps, evaluations, projections;
    StopReason stop;
};

NesterovOutcome run_nesterov(nb::object objective, const Set &set, In center, In x, In gradient, double multiplier,
                             double gamma, std::int64_t max_steps, double strong_convexity, double smoothness,
                             double relative, double absolute, double seconds) {
    set.check(x);
    set.check(center);
    set.check(gradient);
    const std::size_t d = x.shape(0);
    const NesterovSettings settings{max_steps, strong_convexity, smoothness, gamma, relative, absolute, seconds};
    NesterovState state;
    state.x.assign(x.data(), x.data() + d);
    state.gradient.assign(gradient.data(), gradient.data() + d);
    state.multiplier = multiplier;
    with_objective(objective, d, [&](const Objective &of) { nesterov(of, set.ball, center.data(), settings, state); });
    return {
        to_numpy(std::move(state.x)), state.multiplier, state.steps, state.evaluations, state.projections, state.stop};
}

}  // namespace

void bind_nesterov(nb::module_ &m) {
    nb::class_<NesterovOutcome> outcome(m, "NesterovOutcome", "Where and why the accelerated gradient method stopped.");
    def_array<&NesterovOutcome::x>(outcome, "x");
    outcome.def_ro("multiplier", &NesterovOutcome::multiplier, "Of the last projection, per unit step.")
        .def_ro("steps", &NesterovOutcome::steps)
        .def_ro("evaluations", &NesterovOutcome::evaluations)
        .def_ro("projections", &NesterovOutcome::projections)
        .def_ro("stop", &NesterovOutcome::stop);
    m.def("nesterov", &run_nesterov, "objective"_a, "set"_a, "center"_a.noconvert(), "x"_a.noconvert(),
          "gradient"_a.noconvert(), "multiplier"_a, "gamma"_a, "max_steps"_a, "strong_convexity"_a, "smoothness"_a,
          "relative"_a, "absolute"_a, "seconds"_a);
}
