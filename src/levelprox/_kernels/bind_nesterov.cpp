#include "module.hpp"
#include "nesterov.hpp"
#include "subproblem.hpp"

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

nb::dict run_nesterov(nb::object objective, In center, In gradient, double multiplier, double gamma, std::optional<In> omega,
                      std::optional<In> u, std::optional<Mask> nonnegative, bool all_nonnegative, double tau, std::int64_t max_steps,
                      double strong_convexity, double smoothness, double relative, double absolute, double seconds) {
    const std::size_t d = center.shape(0);
    require(gradient.shape(0) == d, "the gradient does not have the dimension of x");
    const Ball<double> set = ball(d, omega, u, nonnegative, all_nonnegative, tau);
    const NesterovSettings settings{max_steps, strong_convexity, smoothness, gamma, relative, absolute, seconds};
    NesterovState state;
    state.x.assign(center.data(), center.data() + d);
    state.gradient.assign(gradient.data(), gradient.data() + d);
    state.multiplier = multiplier;
    with_objective(objective, d, [&](const Objective &of) { nesterov(of, set, settings, state); });
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
    m.def("nesterov", &run_nesterov, "objective"_a, "center"_a.noconvert(), "gradient"_a.noconvert(), "multiplier"_a, "gamma"_a,
          "omega"_a.noconvert().none(), "u"_a.noconvert().none(), "nonnegative"_a.noconvert().none(), "all_nonnegative"_a, "tau"_a,
          "max_steps"_a, "strong_convexity"_a, "smoothness"_a, "relative"_a, "absolute"_a, "seconds"_a);
}
