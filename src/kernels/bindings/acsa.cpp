#include "algorithms/acsa.hpp"
#include "algorithms/batch.hpp"
#include "bindings/module.hpp"
#include "bindings/signatures.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

// All of psi at every step.
class FullGradient final : public Sampler {
public:
    explicit FullGradient(const Objective &objective) : objective_(objective) {}
    void add(const double *x, double *gradient, Touched &touched, Poll &poll) override {
        objective_.value_and_gradient(x, gradient, poll);
        touched.collect_nonzero(gradient);
    }

private:
    const Objective &objective_;
};

// The user's oracle: x -> a subgradient of one sample, already checked by levelprox.objectives.user.
class PythonOracle final : public Sampler {
public:
    PythonOracle(nb::callable oracle, std::size_t d) : oracle_(std::move(oracle)), dimension_(d) {}
    void add(const double *x, double *gradient, Touched &touched, Poll &) override {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        copy_gradient(oracle_(to_numpy(std::vector<double>(x, x + dimension_))), std::int64_t(dimension_), gradient);
        touched.collect_nonzero(gradient);
    }

private:
    nb::callable oracle_;
    std::size_t dimension_;
};

// The rows of a linear model, a few at a time. `draw` gives a whole number of batches of row numbers, again and again.
class Batches final : public Sampler {
public:
    Batches(const LinearModel &model, nb::callable draw, std::int64_t batch)
        : model_(model), gradient_(model, nullptr, batch), draw_(std::move(draw)), batch_(batch) {}
    void add(const double *x, double *gradient, Touched &touched, Poll &poll) override {
        if (next_ == samples_.data() + samples_.size()) refill();
        gradient_.add(next_, batch_, x, gradient, touched, poll);
        next_ += batch_;
    }

private:
    void refill() {
        nb::gil_scoped_acquire acquire;
        const auto drawn =
            nb::cast<nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(draw_());
        samples_.assign(drawn.data(), drawn.data() + drawn.shape(0));
        require(!samples_.empty() && samples_.size() % std::size_t(batch_) == 0,
                "the samples are not a whole number of batches");
        for (std::int64_t i : samples_) require(i >= 0 && i < model_.design().rows(), "a sample is not a row of X");
        next_ = samples_.data();
    }

    const LinearModel &model_;
    BatchGradient gradient_;
    nb::callable draw_;
    std::vector<std::int64_t> samples_;
    const std::int64_t *next_ = nullptr;
    std::int64_t batch_;
};

struct AcsaOutcome {
    Array x;
    double multiplier;
    std::int64_t steps, projections;
    StopReason stop;
};

// Runs AC-SA with the gradients of `sampler`, without the GIL.
AcsaOutcome run(Sampler &sampler, const Set &set, const In &center, const In &x, const AcsaSettings &settings) {
    set.check(x);
    set.check(center);
    AcsaState state;
    state.x.assign(x.data(), x.data() + x.shape(0));
    {
        nb::gil_scoped_release release;
        acsa(sampler, set.ball, center.data(), settings, state);
    }
    return {to_numpy(std::move(state.x)), state.multiplier, state.steps, state.projections, state.stop};
}

AcsaOutcome run_full(nb::object objective, const Set &set, In center, In x, const AcsaSettings &settings) {
    if (nb::isinstance<Objective>(objective)) {
        const auto &model = nb::cast<const Objective &>(objective);
        require(model.dimension() == set.ball.d, "the model does not have the dimension of x");
        FullGradient sampler(model);
        return run(sampler, set, center, x, settings);
    }
    const PythonObjective python(nb::cast<nb::callable>(objective), set.ball.d);
    FullGradient sampler(python);
    return run(sampler, set, center, x, settings);
}

AcsaOutcome run_oracle(nb::callable oracle, const Set &set, In center, In x, const AcsaSettings &settings) {
    PythonOracle sampler(std::move(oracle), std::size_t(set.ball.d));
    return run(sampler, set, center, x, settings);
}

// The model must be stored by rows.
AcsaOutcome run_batches(const LinearModel &model, const Set &set, In center, In x, const AcsaSettings &settings,
                        nb::callable draw, std::int64_t batch) {
    require(model.dimension() == set.ball.d, "the model does not have the dimension of x");
    require(model.design().by_rows, "the model must be stored by rows");
    require(batch >= 1, "a batch has at least one row");
    Batches sampler(model, std::move(draw), batch);
    return run(sampler, set, center, x, settings);
}

}  // namespace

void bind_acsa(nb::module_ &m) {
    nb::class_<AcsaSettings>(m, "AcsaSettings")
        .def(nb::init<std::int64_t, double, double, double, double>(), "steps"_a, "strong_convexity"_a, "smoothness"_a,
             "gamma"_a, "seconds"_a);
    nb::class_<AcsaOutcome> outcome(m, "AcsaOutcome", "Where and why AC-SA stopped.");
    def_array<&AcsaOutcome::x>(outcome, "x");
    outcome.def_ro("multiplier", &AcsaOutcome::multiplier, "Of the last projection, per unit step.")
        .def_ro("steps", &AcsaOutcome::steps)
        .def_ro("projections", &AcsaOutcome::projections)
        .def_ro("stop", &AcsaOutcome::stop);
    m.def("acsa", &run_full, "objective"_a, "set"_a, "center"_a.noconvert(), "x"_a.noconvert(), "settings"_a);
    m.def("acsa_oracle", &run_oracle, "oracle"_a, "set"_a, "center"_a.noconvert(), "x"_a.noconvert(), "settings"_a,
          nb::sig("def acsa_oracle(oracle: collections.abc.Callable[[" FLOAT64_ARRAY "], " FLOAT64_ARRAY
                  "], set: Set, center: " FLOAT64_ARRAY ", x: " FLOAT64_ARRAY
                  ", settings: AcsaSettings) -> AcsaOutcome"));
    m.def("acsa_batches", &run_batches, "model"_a, "set"_a, "center"_a.noconvert(), "x"_a.noconvert(), "settings"_a,
          "draw"_a, "batch"_a,
          nb::sig("def acsa_batches(model: LinearModel, set: Set, center: " FLOAT64_ARRAY ", x: " FLOAT64_ARRAY
                  ", settings: AcsaSettings, draw: collections.abc.Callable[[], " INT64_ARRAY
                  "], batch: int) -> AcsaOutcome"));
}
