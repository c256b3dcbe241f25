#include "acsa.hpp"
#include "module.hpp"
#include "subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

// All of psi at every step.
class FullGradient final : public Sampler {
public:
    explicit FullGradient(const Objective &objective) : objective_(objective), slope_(std::size_t(objective.dimension())) {}
    void add(const double *x, double *gradient, Coordinates &touched, Poll &poll) override {
        objective_.value_and_gradient(x, slope_.data(), poll);
        for (std::size_t j = 0; j < slope_.size(); ++j) gradient[j] += slope_[j];
        touched.add_all();
    }

private:
    const Objective &objective_;
    std::vector<double> slope_;
};

// The user's oracle: x -> a subgradient of one sample, already checked by levelprox.objectives.stochastic.
class PythonOracle final : public Sampler {
public:
    PythonOracle(nb::callable oracle, std::size_t d) : oracle_(std::move(oracle)), slope_(d) {}
    void add(const double *x, double *gradient, Coordinates &touched, Poll &) override {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        copy_gradient(oracle_(to_numpy(std::vector<double>(x, x + slope_.size()))), std::int64_t(slope_.size()), slope_.data());
        for (std::size_t j = 0; j < slope_.size(); ++j) gradient[j] += slope_[j];
        touched.add_all();
    }

private:
    nb::callable oracle_;
    std::vector<double> slope_;
};

const char *name_of(AcsaStop stop) {
    switch (stop) {
        case AcsaStop::steps: return "steps";
        case AcsaStop::seconds: return "seconds";
        case AcsaStop::not_finite: return "not finite";
        case AcsaStop::interrupted: return "interrupted";
    }
    return "steps";
}

nb::dict outcome_of(AcsaState &state) {
    nb::dict outcome;
    outcome["x"] = to_numpy(std::move(state.x));
    outcome["multiplier"] = state.multiplier;
    outcome["steps"] = state.steps;
    outcome["projections"] = state.projections;
    outcome["stop"] = name_of(state.stop);
    return outcome;
}

AcsaState state_at(const In &x) {
    AcsaState state;
    state.x.assign(x.data(), x.data() + x.shape(0));
    return state;
}

nb::dict run_acsa(nb::object objective, In center, double gamma, std::optional<In> omega, std::optional<In> u,
                  std::optional<Mask> nonnegative, bool all_nonnegative, double tau, std::int64_t steps, double strong_convexity,
                  double smoothness, double seconds) {
    const std::size_t d = center.shape(0);
    const Ball<double> set = ball(d, omega, u, nonnegative, all_nonnegative, tau);
    const AcsaSettings settings{steps, strong_convexity, smoothness, gamma, seconds};
    AcsaState state = state_at(center);
    with_objective(objective, d, [&](const Objective &of) {
        FullGradient sampler(of);
        acsa(sampler, set, settings, state);
    });
    return outcome_of(state);
}

nb::dict run_acsa_oracle(nb::callable oracle, In center, double gamma, std::optional<In> omega, std::optional<In> u,
                         std::optional<Mask> nonnegative, bool all_nonnegative, double tau, std::int64_t steps, double strong_convexity,
                         double smoothness, double seconds) {
    const std::size_t d = center.shape(0);
    const Ball<double> set = ball(d, omega, u, nonnegative, all_nonnegative, tau);
    const AcsaSettings settings{steps, strong_convexity, smoothness, gamma, seconds};
    AcsaState state = state_at(center);
    PythonOracle sampler(std::move(oracle), d);
    {
        nb::gil_scoped_release release;
        acsa(sampler, set, settings, state);
    }
    return outcome_of(state);
}

}  // namespace

void bind_acsa(nb::module_ &m) {
    const auto bind = [&](const char *name, auto function, const char *what) {
        m.def(name, function, nb::arg(what), "center"_a.noconvert(), "gamma"_a, "omega"_a.noconvert().none(), "u"_a.noconvert().none(),
              "nonnegative"_a.noconvert().none(), "all_nonnegative"_a, "tau"_a, "steps"_a, "strong_convexity"_a, "smoothness"_a,
              "seconds"_a);
    };
    bind("acsa", &run_acsa, "objective");
    bind("acsa_oracle", &run_acsa_oracle, "oracle");
}
