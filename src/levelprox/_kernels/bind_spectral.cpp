// The compiled linear model, and the spectral subsolver over it or over a Python function.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "design_kernel.hpp"
#include "linear_model.hpp"
#include "module.hpp"
#include "spectral.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using In = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, double> to_numpy(std::vector<double> &&values) {
    auto *owned = new std::vector<double>(std::move(values));
    nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<double> *>(p); });
    return nb::ndarray<nb::numpy, double>(owned->data(), {owned->size()}, owner);
}

// psi written in Python: x -> (value, gradient), already checked by levelprox.objectives.function.
class PythonObjective : public levelprox::Objective {
public:
    PythonObjective(nb::callable function, std::int64_t dimension) : function_(std::move(function)), dimension_(dimension) {}
    std::int64_t dimension() const override { return dimension_; }
    double value_and_gradient(const double *x, double *gradient, levelprox::Poll &) const override {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        nb::object answer = function_(to_numpy(std::vector<double>(x, x + dimension_)));
        const In slope = nb::cast<In>(answer[1]);
        if (std::int64_t(slope.shape(0)) != dimension_) throw nb::value_error("the gradient does not have the dimension of x");
        std::copy(slope.data(), slope.data() + dimension_, gradient);
        return nb::cast<double>(answer[0]);
    }

private:
    nb::callable function_;
    std::int64_t dimension_;
};

const char *name_of(levelprox::SpectralStop stop) {
    switch (stop) {
        case levelprox::SpectralStop::steps: return "steps";
        case levelprox::SpectralStop::accurate: return "accurate";
        case levelprox::SpectralStop::stationary: return "stationary";
        case levelprox::SpectralStop::no_decrease: return "no decrease";
        case levelprox::SpectralStop::not_finite: return "not finite";
        case levelprox::SpectralStop::seconds: return "seconds";
        case levelprox::SpectralStop::interrupted: return "interrupted";
    }
    return "steps";
}

void require(bool condition, const char *message) {
    if (!condition) throw nb::value_error(message);
}

nb::dict run_spectral(nb::object objective, In x, In gradient, double psi, double step, double multiplier, double gamma,
                      std::optional<In> omega, std::optional<In> u, std::optional<Mask> nonnegative, bool all_nonnegative,
                      double tau, int max_steps, int memory, double decrease, double relative, double absolute, double seconds) {
    const std::size_t d = x.shape(0);
    require(gradient.shape(0) == d, "the gradient does not have the dimension of x");
    require(!omega || omega->shape(0) == d, "omega does not have the dimension of x");
    require(!u || u->shape(0) == d, "u does not have the dimension of x");
    require(!nonnegative || nonnegative->shape(0) == d, "the mask does not have the dimension of x");
    levelprox::Ball<double> set;
    if (omega) set.omega = omega->data();
    if (u) set.u = u->data();
    if (nonnegative) set.nonnegative = nonnegative->data();
    set.all_nonnegative = all_nonnegative;
    set.tau = tau;
    const levelprox::SpectralSettings settings{max_steps, memory, decrease, relative, absolute, seconds};
    levelprox::SpectralState state;
    state.x.assign(x.data(), x.data() + x.shape(0));
    state.gradient.assign(gradient.data(), gradient.data() + gradient.shape(0));
    state.psi = psi, state.step = step, state.multiplier = multiplier;

    const auto run = [&](const levelprox::Objective &of) {
        nb::gil_scoped_release release;
        levelprox::spectral(of, set, gamma, settings, state);
    };
    if (nb::isinstance<levelprox::LinearModel>(objective)) {
        require(std::size_t(nb::cast<const levelprox::LinearModel &>(objective).dimension()) == d, "the model does not have the dimension of x");
        run(nb::cast<const levelprox::LinearModel &>(objective));
    } else {
        const PythonObjective python(nb::cast<nb::callable>(objective), std::int64_t(x.shape(0)));
        run(python);
    }
    nb::dict outcome;
    outcome["x"] = to_numpy(std::move(state.x));
    outcome["gradient"] = to_numpy(std::move(state.gradient));
    outcome["psi"] = state.psi;
    outcome["step"] = state.step;
    outcome["multiplier"] = state.multiplier;
    outcome["residual"] = state.residual;
    outcome["steps"] = state.steps;
    outcome["evaluations"] = state.evaluations;
    outcome["projections"] = state.projections;
    outcome["stop"] = name_of(state.stop);
    return outcome;
}

}  // namespace

void bind_spectral(nb::module_ &m) {
    nb::class_<levelprox::LinearModel>(m, "LinearModel")
        .def(
            "__init__",
            [](levelprox::LinearModel *self, const levelprox::DesignKernel &design, const std::string &loss, double parameter, double width,
               In target, std::optional<In> weight, std::optional<In> offset) {
                const auto rows = std::size_t(design.design.rows());
                require(target.shape(0) == rows, "the targets do not fit the rows of X");
                require(!weight || weight->shape(0) == rows, "the weights do not fit the rows of X");
                require(!offset || offset->shape(0) == rows, "the offsets do not fit the rows of X");
                new (self) levelprox::LinearModel(design.design, levelprox::make_loss(loss, parameter, width), target.data(),
                                                  weight ? weight->data() : nullptr, offset ? offset->data() : nullptr);
            },
            "design"_a, "loss"_a, "parameter"_a, "width"_a, "target"_a.noconvert(), "weight"_a.noconvert().none(),
            "offset"_a.noconvert().none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>(),
            nb::keep_alive<1, 8>())
        .def(
            "value_and_gradient",
            [](const levelprox::LinearModel &self, In x, Out gradient) {
                const auto d = std::size_t(self.dimension());
                require(x.shape(0) == d && gradient.shape(0) == d, "x and the gradient must have the dimension of the model");
                levelprox::Poll poll;
                nb::gil_scoped_release release;
                return self.value_and_gradient(x.data(), gradient.data(), poll);
            },
            "x"_a.noconvert(), "gradient"_a.noconvert());
    m.def("spectral", &run_spectral, "objective"_a, "x"_a.noconvert(), "gradient"_a.noconvert(), "psi"_a, "step"_a, "multiplier"_a,
          "gamma"_a, "omega"_a.noconvert().none(), "u"_a.noconvert().none(), "nonnegative"_a.noconvert().none(),
          "all_nonnegative"_a, "tau"_a, "max_steps"_a, "memory"_a, "decrease"_a, "relative"_a, "absolute"_a, "seconds"_a);
}
