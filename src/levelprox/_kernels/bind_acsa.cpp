#include "acsa.hpp"
#include "module.hpp"
#include "subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

void add_dense(const std::vector<double> &slope, double *gradient, Touched &touched) {
    for (std::size_t j = 0; j < slope.size(); ++j) {
        gradient[j] += slope[j];
        touched.add(std::int64_t(j));
    }
}

// All of psi at every step.
class FullGradient final : public Sampler {
public:
    explicit FullGradient(const Objective &objective) : objective_(objective), slope_(std::size_t(objective.dimension())) {}
    void add(const double *x, double *gradient, Touched &touched, Poll &poll) override {
        objective_.value_and_gradient(x, slope_.data(), poll);
        add_dense(slope_, gradient, touched);
    }

private:
    const Objective &objective_;
    std::vector<double> slope_;
};

// The user's oracle: x -> a subgradient of one sample, already checked by levelprox.objectives.stochastic.
class PythonOracle final : public Sampler {
public:
    PythonOracle(nb::callable oracle, std::size_t d) : oracle_(std::move(oracle)), slope_(d) {}
    void add(const double *x, double *gradient, Touched &touched, Poll &) override {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        copy_gradient(oracle_(to_numpy(std::vector<double>(x, x + slope_.size()))), std::int64_t(slope_.size()), slope_.data());
        add_dense(slope_, gradient, touched);
    }

private:
    nb::callable oracle_;
    std::vector<double> slope_;
};

// The rows of a linear model, a few at a time. `draw` gives a whole number of batches of row numbers, again and again.
class Batches final : public Sampler {
public:
    Batches(const LinearModel &model, nb::callable draw, std::int64_t batch)
        : model_(model), draw_(std::move(draw)), batch_(batch), margins_(std::size_t(batch)), targets_(std::size_t(batch)),
          slopes_(std::size_t(batch)) {}
    void add(const double *x, double *gradient, Touched &touched, Poll &poll) override {
        const Slices &rows = *model_.design().slices;
        if (next_ == samples_.data() + samples_.size()) refill();
        for (std::int64_t k = 0; k < batch_; ++k) {
            const std::int64_t i = next_[k];
            rows.dot(i, i + 1, x, &margins_[std::size_t(k)]);
            if (model_.offset()) margins_[std::size_t(k)] += model_.offset()[i];
            targets_[std::size_t(k)] = model_.target()[i];
            poll.check();
        }
        model_.loss().derivative(batch_, margins_.data(), targets_.data(), slopes_.data());
        for (std::int64_t k = 0; k < batch_; ++k) {
            rows.add_marking(next_[k], slopes_[std::size_t(k)] / double(batch_), gradient, touched);
            poll.check();
        }
        next_ += batch_;
    }

private:
    void refill() {
        nb::gil_scoped_acquire acquire;
        const auto drawn = nb::cast<nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(draw_());
        samples_.assign(drawn.data(), drawn.data() + drawn.shape(0));
        require(!samples_.empty() && samples_.size() % std::size_t(batch_) == 0, "the samples are not a whole number of batches");
        for (std::int64_t i : samples_) require(i >= 0 && i < model_.design().rows(), "a sample is not a row of X");
        next_ = samples_.data();
    }

    const LinearModel &model_;
    nb::callable draw_;
    std::vector<std::int64_t> samples_;
    const std::int64_t *next_ = nullptr;
    std::int64_t batch_;
    std::vector<double> margins_, targets_, slopes_;
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

nb::dict run_acsa(nb::object objective, In center, In x, double gamma, std::optional<In> omega, std::optional<In> u,
                  std::optional<Mask> nonnegative, bool all_nonnegative, double tau, std::int64_t steps, double strong_convexity,
                  double smoothness, double seconds) {
    const std::size_t d = x.shape(0);
    require(center.shape(0) == d, "the center does not have the dimension of x");
    const Ball<double> set = ball(d, omega, u, nonnegative, all_nonnegative, tau);
    const AcsaSettings settings{steps, strong_convexity, smoothness, gamma, seconds};
    AcsaState state = state_at(x);
    with_objective(objective, d, [&](const Objective &of) {
        FullGradient sampler(of);
        acsa(sampler, set, center.data(), settings, state);
    });
    return outcome_of(state);
}

nb::dict run_acsa_oracle(nb::callable oracle, In center, In x, double gamma, std::optional<In> omega, std::optional<In> u,
                         std::optional<Mask> nonnegative, bool all_nonnegative, double tau, std::int64_t steps, double strong_convexity,
                         double smoothness, double seconds) {
    const std::size_t d = x.shape(0);
    require(center.shape(0) == d, "the center does not have the dimension of x");
    const Ball<double> set = ball(d, omega, u, nonnegative, all_nonnegative, tau);
    const AcsaSettings settings{steps, strong_convexity, smoothness, gamma, seconds};
    AcsaState state = state_at(x);
    PythonOracle sampler(std::move(oracle), d);
    {
        nb::gil_scoped_release release;
        acsa(sampler, set, center.data(), settings, state);
    }
    return outcome_of(state);
}

// The model must be stored by rows.
nb::dict run_acsa_batches(const LinearModel &model, In center, In x, double gamma, std::optional<In> omega, std::optional<In> u,
                          std::optional<Mask> nonnegative, bool all_nonnegative, double tau, std::int64_t steps, double strong_convexity,
                          double smoothness, double seconds, nb::callable draw, std::int64_t batch) {
    const std::size_t d = x.shape(0);
    require(std::size_t(model.dimension()) == d && center.shape(0) == d, "x and the center must have the dimension of the model");
    require(model.design().by_rows, "the model must be stored by rows");
    require(batch >= 1, "a batch has at least one row");
    const Ball<double> set = ball(d, omega, u, nonnegative, all_nonnegative, tau);
    const AcsaSettings settings{steps, strong_convexity, smoothness, gamma, seconds};
    AcsaState state = state_at(x);
    Batches sampler(model, std::move(draw), batch);
    {
        nb::gil_scoped_release release;
        acsa(sampler, set, center.data(), settings, state);
    }
    return outcome_of(state);
}

}  // namespace

void bind_acsa(nb::module_ &m) {
    const auto bind = [&](const char *name, auto function, const char *what) {
        m.def(name, function, nb::arg(what), "center"_a.noconvert(), "x"_a.noconvert(), "gamma"_a, "omega"_a.noconvert().none(), "u"_a.noconvert().none(),
              "nonnegative"_a.noconvert().none(), "all_nonnegative"_a, "tau"_a, "steps"_a, "strong_convexity"_a, "smoothness"_a,
              "seconds"_a);
    };
    bind("acsa", &run_acsa, "objective");
    bind("acsa_oracle", &run_acsa_oracle, "oracle");
    m.def("acsa_batches", &run_acsa_batches, "model"_a, "center"_a.noconvert(), "x"_a.noconvert(), "gamma"_a, "omega"_a.noconvert().none(),
          "u"_a.noconvert().none(), "nonnegative"_a.noconvert().none(), "all_nonnegative"_a, "tau"_a, "steps"_a, "strong_convexity"_a,
          "smoothness"_a, "seconds"_a, "draw"_a, "batch"_a);
}
