// Minibatch steps for Python. Arguments were checked by levelprox.subsolvers; here only what keeps reads inside arrays.
#include <cmath>

#include "bindings/module.hpp"
#include "algorithms/stochastic.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using levelprox::In, levelprox::Mask, levelprox::Out, levelprox::require;
using Samples = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require_rows(const levelprox::LinearModel &model) {
    require(model.design().by_rows, "the model must be stored by rows");
}

// Changes x, `multiplier` (one number) and `counts` (steps, rows, projections, listed) in place, so that
// they are right when Ctrl-C ends the call with an exception.
levelprox::StopReason run(const levelprox::LinearModel &model, const levelprox::Set &set, Out x, In center,
                          double gamma, Samples samples, std::int64_t batch, In steps, std::optional<In> slope,
                          std::optional<In> gradient, double seconds, Out multiplier, Counts counts) {
    const auto d = std::size_t(model.dimension()), n = std::size_t(model.design().rows());
    require_rows(model);
    require(model.dimension() == set.ball.d, "the model does not have the dimension of x");
    set.check(x);
    set.check(center);
    require(set.ball.width == 1, "minibatch steps have no groups");
    require(batch >= 1 && std::size_t(batch) * steps.shape(0) >= samples.shape(0),
            "there are fewer steps than batches");
    require(slope.has_value() == gradient.has_value(), "a snapshot has both slopes and a gradient");
    require(!slope || (slope->shape(0) == n && gradient->shape(0) == d), "the snapshot does not fit the model");
    require(multiplier.shape(0) == 1 && counts.shape(0) == 4, "there are one multiplier and four counts");
    for (std::size_t k = 0; k < samples.shape(0); ++k)
        require(samples.data()[k] >= 0 && std::size_t(samples.data()[k]) < n, "a sample is not a row of X");
    for (std::size_t j = 0; set.ball.u && j < d; ++j) require(std::fabs(set.ball.u[j]) <= 1, "u must be in [-1, 1]");
    require(set.ball.tau >= 0, "tau must be nonnegative");

    const levelprox::Minibatches batches{samples.data(), std::int64_t(samples.shape(0)), batch, steps.data()};
    const levelprox::Snapshot snapshot{slope ? slope->data() : nullptr, gradient ? gradient->data() : nullptr};
    levelprox::StochasticCounts seen;
    const auto report = [&] {
        for (auto [k, count] : {std::pair{0, seen.steps}, {1, seen.rows}, {2, seen.projections}, {3, seen.listed}})
            counts.data()[k] += count;
    };
    try {
        nb::gil_scoped_release release;
        const auto stop = levelprox::stochastic_steps(model, set.ball, center.data(), gamma, batches, snapshot, seconds,
                                                      x.data(), *multiplier.data(), seen);
        report();
        return stop;
    } catch (...) {
        report();
        throw;
    }
}

}  // namespace

void bind_stochastic(nb::module_ &m) {
    m.def("stochastic_steps", &run, "model"_a, "set"_a, "x"_a.noconvert(), "center"_a.noconvert(), "gamma"_a,
          "samples"_a.noconvert(), "batch"_a, "steps"_a.noconvert(), "slope"_a.noconvert().none(),
          "gradient"_a.noconvert().none(), "seconds"_a, "multiplier"_a.noconvert(), "counts"_a.noconvert());
    m.def(
        "sample_slopes",
        [](const levelprox::LinearModel &model, In x, Out out) {
            require_rows(model);
            require(x.shape(0) == std::size_t(model.dimension()), "x does not have the dimension of the model");
            require(out.shape(0) == std::size_t(model.design().rows()), "out does not fit the rows of X");
            levelprox::Poll poll;
            nb::gil_scoped_release release;
            levelprox::sample_slopes(model, x.data(), out.data(), poll);
        },
        "model"_a, "x"_a.noconvert(), "out"_a.noconvert(), "Derivative of the loss of each sample, into out.");
}
