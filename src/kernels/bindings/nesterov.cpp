#include "bindings/module.hpp"
#include "algorithms/nesterov.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

const char *name_of(NesterovStop stop) {
    switch (stop) {
        case NesterovStop::steps: return "steps";
        case NesterovStop::accurate: return "accurate";
        case NesterovStop::seconds: return "seconds";
        case NesterovStop::not_finite: return "not finite";
        case NesterovStop::interrupted: return "interrupted";
    }
    return "steps";
}

nb::dict run_nesterov(nb::object objective, const Set &set, In center, In x, In gradient, double multiplier,
                      double gamma, std::int64_t max_steps, double strong_convexity, double smoothness, double relative,
                      double absolute, double seconds) {
    set.check(x), set.check(center), set.check(gradient);
    const std::size_t d = x.shape(0);
    const NesterovSettings settings{max_steps, strong_convexity, smoothness, gamma, relative, absolute, seconds};
    NesterovState state;
    state.x.assign(x.data(), x.data() + d);
    state.gradient.assign(gradient.data(), gradient.data() + d);
    state.multiplier = multiplier;
    with_objective(objective, d, [&](const Objective &of) { nesterov(of, set.ball, center.data(), settings, state); });
    nb::dict outcome;
    outcome["x"] = to_numpy(std::move(state.x));
    outcome["multiplier"] = state.multiplier;
    outcome["steps"] = state.steps;
    outcome["evaluations"] = state.evaluations;
    outcome["projections"] = state.projections;
    outcome["stop"] = name_of(state.stop);
    return outcome;
}

}  // namespace

void bind_nesterov(nb::module_ &m) {
    m.def("nesterov", &run_nesterov, "objective"_a, "set"_a, "center"_a.noconvert(), "x"_a.noconvert(),
          "gradient"_a.noconvert(), "multiplier"_a, "gamma"_a, "max_steps"_a, "strong_convexity"_a, "smoothness"_a,
          "relative"_a, "absolute"_a, "seconds"_a);
}
