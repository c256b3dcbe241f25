// The compiled linear model, and the spectral subsolver over it or over a Python function.
#include "algorithms/design_kernel.hpp"
#include "algorithms/linear_model.hpp"
#include "bindings/module.hpp"
#include "algorithms/spectral.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using levelprox::In, levelprox::Out, levelprox::Mask, levelprox::require, levelprox::to_numpy, levelprox::Array,
    levelprox::def_array;

namespace {

struct SpectralOutcome {
    Array x, gradient;
    double psi, step, multiplier, residual;
    int steps, evaluations, projections;
    levelprox::StopReason stop;
};

// psi as a function of the coordinates u_j x_j and, where there are means m of the features, u_0 (x_0 + sum of m_j x_j)
// for the intercept.
class InCoordinates final : public levelprox::Objective {
public:
    InCoordinates(const levelprox::Objective &psi, const double *units, std::optional<In> means, std::int64_t intercept)
        : psi_(psi), units_(units), means_(means ? means->data() : nullptr), features_(means ? means->shape(0) : 1),
          width_(static_cast<std::size_t>(psi.dimension()) / features_),
          intercept_(static_cast<std::size_t>(intercept)) {}
    std::int64_t dimension() const override { return psi_.dimension(); }
    double value_and_gradient(const double *w, double *gradient, levelprox::Poll &poll) const override {
        std::vector<double> x(static_cast<std::size_t>(dimension()));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = w[i] / units_[i];
        if (means_)
            for (std::size_t k = 0; k < width_; ++k) {
                double shift = 0;
                for (std::size_t j = 0; j < features_; ++j) shift += means_[j] * x[j * width_ + k];
                x[intercept_ * width_ + k] -= shift;
            }
        const double value = psi_.value_and_gradient(x.data(), gradient, poll);
        if (means_)
            for (std::size_t j = 0; j < features_; ++j)
                for (std::size_t k = 0; k < width_; ++k)
                    gradient[j * width_ + k] -= means_[j] * gradient[intercept_ * width_ + k];
        for (std::size_t i = 0; i < x.size(); ++i) gradient[i] /= units_[i];
        return value;
    }

private:
    const levelprox::Objective &psi_;
    const double *units_;
    const double *means_;  // 0 for the intercept
    std::size_t features_, width_, intercept_;
};

SpectralOutcome run_spectral(nb::object objective, const levelprox::Set &set, In center, In x, In gradient, double psi,
                             double step, double multiplier, double gamma, int max_steps, int memory, double decrease,
                             double relative, double absolute, double seconds, std::optional<In> units,
                             std::optional<In> means, std::int64_t intercept) {
    set.check(x);
    set.check(center);
    set.check(gradient);
    const levelprox::SpectralSettings settings{max_steps, memory, decrease, relative, absolute, seconds};
    levelprox::SpectralState state;
    state.x.assign(x.data(), x.data() + x.shape(0));
    state.gradient.assign(gradient.data(), gradient.data() + gradient.shape(0));
    state.psi = psi;
    state.step = step;
    state.multiplier = multiplier;

    require(!units || units->shape(0) == x.shape(0), "the units do not have the dimension of x");
    const auto features = means ? means->shape(0) : 1;
    require(!means || (units && features > 0 && x.shape(0) % features == 0 && intercept >= 0 &&
                       std::size_t(intercept) < features),
            "the means do not fit the features");
    levelprox::with_objective(objective, x.shape(0), [&](const levelprox::Objective &psi) {
        if (units)
            levelprox::spectral(InCoordinates(psi, units->data(), means, intercept), set.ball, center.data(), gamma,
                                settings, state);
        else levelprox::spectral(psi, set.ball, center.data(), gamma, settings, state);
    });
    return {to_numpy(std::move(state.x)),
            to_numpy(std::move(state.gradient)),
            state.psi,
            state.step,
            state.multiplier,
            state.residual,
            state.steps,
            state.evaluations,
            state.projections,
            state.stop};
}

}  // namespace

void bind_spectral(nb::module_ &m) {
    nb::class_<levelprox::LinearModel, levelprox::Objective>(m, "LinearModel")
        .def(
            "__init__",
            [](levelprox::LinearModel *self, const levelprox::DesignKernel &design, const std::string &loss,
               double parameter, double width, In target, std::optional<In> weight, std::optional<In> offset) {
                const auto rows = std::size_t(design.design.rows());
                require(target.shape(0) == rows, "the targets do not fit the rows of X");
                require(!weight || weight->shape(0) == rows, "the weights do not fit the rows of X");
                require(!offset || offset->shape(0) == rows, "the offsets do not fit the rows of X");
                new (self) levelprox::LinearModel(
                    design.design, levelprox::make_loss(levelprox::loss_kind(loss), parameter, width), target.data(),
                    weight ? weight->data() : nullptr, offset ? offset->data() : nullptr);
            },
            "design"_a, "loss"_a, "parameter"_a, "width"_a, "target"_a.noconvert(), "weight"_a.noconvert().none(),
            "offset"_a.noconvert().none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>(),
            nb::keep_alive<1, 8>());
    nb::class_<levelprox::Set>(m, "Set").def(
        nb::init<std::int64_t, std::optional<In>, std::optional<In>, std::optional<Mask>, bool, double, std::int64_t>(),
        "dimension"_a, "omega"_a.noconvert().none(), "u"_a.noconvert().none(), "nonnegative"_a.noconvert().none(),
        "all_nonnegative"_a, "tau"_a, "width"_a = 1);
    nb::class_<SpectralOutcome> outcome(m, "SpectralOutcome", "Where and why the spectral gradient method stopped.");
    def_array<&SpectralOutcome::x>(outcome, "x");
    def_array<&SpectralOutcome::gradient>(outcome, "gradient");
    outcome.def_ro("psi", &SpectralOutcome::psi)
        .def_ro("step", &SpectralOutcome::step)
        .def_ro("multiplier", &SpectralOutcome::multiplier, "Of the last projection, per unit step.")
        .def_ro("residual", &SpectralOutcome::residual)
        .def_ro("steps", &SpectralOutcome::steps)
        .def_ro("evaluations", &SpectralOutcome::evaluations)
        .def_ro("projections", &SpectralOutcome::projections)
        .def_ro("stop", &SpectralOutcome::stop);
    m.def("spectral", &run_spectral, "objective"_a, "set"_a, "center"_a.noconvert(), "x"_a.noconvert(),
          "gradient"_a.noconvert(), "psi"_a, "step"_a, "multiplier"_a, "gamma"_a, "max_steps"_a, "memory"_a,
          "decrease"_a, "relative"_a, "absolute"_a, "seconds"_a, "units"_a.noconvert().none() = nb::none(),
          "means"_a.noconvert().none() = nb::none(), "intercept"_a = -1);
}
