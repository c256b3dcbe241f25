// Penalties, the level constraint with its surrogates and residuals, and LCPP on a second-order model.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>

#include "algorithms/level_model.hpp"
#include "bindings/module.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Sizes = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Square = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A constraint written in Python. It outlives the kernels that call it, and has no reference of its own: its level
// does.
class PythonPenalty final : public Penalty {
public:
    explicit PythonPenalty(nb::object constraint) : constraint_(constraint) {
        lam = nb::cast<double>(constraint.attr("lam"));
        cap = nb::cast<double>(constraint.attr("cap"));
    }
    void phi(std::int64_t n, const double *t, double *out) const override { call("phi", n, t, out); }
    void slope(std::int64_t n, const double *t, double *out) const override { call("slope", n, t, out); }
    void curvature(std::int64_t n, const double *t, double *out) const override { call("curvature", n, t, out); }

private:
    void call(const char *name, std::int64_t n, const double *t, double *out) const {
        nb::gil_scoped_acquire acquire;
        copy_gradient(constraint_.attr(name)(to_numpy(std::vector<double>(t, t + n))), n, out);
    }
    nb::object constraint_;
};

using Evaluate = void (Penalty::*)(std::int64_t, const double *, double *) const;

// An array of the shape of t.
template <Evaluate evaluate>
nb::ndarray<nb::numpy, double> evaluated(const Penalty &penalty, const Sizes &t) {
    auto *values = new std::vector<double>(t.size());
    nb::capsule owner(values, [](void *p) noexcept { delete static_cast<std::vector<double> *>(p); });
    (penalty.*evaluate)(std::int64_t(t.size()), t.data(), values->data());
    std::vector<std::size_t> shape(t.ndim());
    for (std::size_t k = 0; k < t.ndim(); ++k) shape[k] = t.shape(k);
    return nb::ndarray<nb::numpy, double>(values->data(), t.ndim(), shape.data(), owner);
}

double total(const Penalty &penalty, const In &sizes, const std::optional<In> &weights) {
    require(!weights || weights->shape(0) == sizes.shape(0), "weights do not have the shape of x");
    return penalty.total(std::int64_t(sizes.shape(0)), sizes.data(), weights ? weights->data() : nullptr);
}

PenaltyKind penalty_kind(const std::string &name) {
    static constexpr std::pair<PenaltyKind, const char *> KINDS[] = {
        {PenaltyKind::l1, "l1"},
        {PenaltyKind::mcp, "mcp"},
        {PenaltyKind::scad, "scad"},
        {PenaltyKind::exponential, "exponential"},
        {PenaltyKind::logarithm, "logarithm"},
        {PenaltyKind::lp, "lp"},
        {PenaltyKind::negative_lp, "negative_lp"},
    };
    for (const auto &[kind, known] : KINDS)
        if (name == known) return kind;
    throw std::invalid_argument("unknown penalty '" + name + "'");
}

// A level constraint, the units of its features, and the objects whose memory it reads.
class LevelConstraint {
public:
    LevelConstraint(nb::object penalty, std::int64_t n_features, std::int64_t width, std::optional<In> weights,
                    std::optional<Mask> nonnegative, bool all_nonnegative, double level, std::optional<In> size,
                    std::optional<In> mean, std::int64_t intercept, std::optional<In> working)
        : penalty_(std::move(penalty)), weights_(std::move(weights)), nonnegative_(std::move(nonnegative)),
          size_(std::move(size)), mean_(std::move(mean)), working_(std::move(working)) {
        set.penalty = &nb::cast<const Penalty &>(penalty_);
        set.n_features = n_features;
        set.width = width;
        set.weights = data(weights_, n_features);
        require(!nonnegative_ || std::int64_t(nonnegative_->shape(0)) == set.dimension(), "the mask has another shape");
        if (nonnegative_) set.nonnegative = nonnegative_->data();
        set.all_nonnegative = all_nonnegative;
        set.level = level;
        require(intercept < n_features, "there is no such intercept");
        units = {data(size_, n_features), data(mean_, n_features), intercept, data(working_, n_features)};
    }

    void check(std::size_t dimension) const {
        require(std::int64_t(dimension) == set.dimension(), "x does not have the dimension of the level");
    }

    LevelSet set;
    FeatureUnits units;

private:
    static const double *data(const std::optional<In> &array, std::int64_t n) {
        if (!array) return nullptr;
        require(std::int64_t(array->shape(0)) == n, "an array does not have an entry for each feature");
        return array->data();
    }

    nb::object penalty_;
    std::optional<In> weights_;
    std::optional<Mask> nonnegative_;
    std::optional<In> size_, mean_, working_;
};

std::tuple<Array, double> majorised(const LevelConstraint &level, const In &x) {
    level.check(x.shape(0));
    SurrogateSet near = majorise(level.set, x.data());
    return {to_numpy(std::move(near.prices)), near.tau};
}

// x -> (omega or None, u or None, tau) written in Python.
SurrogateSet python_surrogate(const nb::object &build, const double *x, std::int64_t dimension) {
    nb::gil_scoped_acquire acquire;
    const nb::object answer = build(to_numpy(std::vector<double>(x, x + dimension)));
    SurrogateSet near;
    const auto copy = [&](nb::handle values, std::vector<double> &out) {
        if (values.is_none()) return;
        out.resize(std::size_t(dimension));
        copy_gradient(values, dimension, out.data());
    };
    copy(answer[0], near.prices);
    copy(answer[1], near.u);
    near.tau = nb::cast<double>(answer[2]);
    return near;
}

std::tuple<double, double, double> kkt_residual_of(const LevelConstraint &level, const In &x, const In &gradient,
                                                   double scale, double curvature) {
    level.check(x.shape(0));
    level.check(gradient.shape(0));
    const Best best = kkt_residual(level.set, level.units, x.data(), gradient.data(), scale, curvature);
    return {best.y, best.stationarity, best.complementarity};
}

std::optional<Array> kkt_newton(const LevelConstraint &level, const Places &places, const Square &hessian, const In &x,
                                const In &gradient, double y) {
    level.check(x.shape(0));
    level.check(gradient.shape(0));
    const std::size_t m = places.shape(0);
    require(hessian.shape(0) == m && hessian.shape(1) == m, "the matrix does not have the order of the places");
    require(m % std::size_t(level.set.width) == 0, "the places are not those of whole features");
    for (std::size_t k = 0; k < m; ++k)
        require(places.data()[k] >= 0 && places.data()[k] < level.set.dimension(), "a place is not in x");
    std::vector<double> point(x.data(), x.data() + x.shape(0));
    SaddleDirection saddle;
    const bool moved = kkt_newton_step(level.set, level.units, {places.data(), places.data() + m},
                                       {hessian.data(), hessian.data() + m * m}, gradient.data(), y, point, saddle);
    if (!moved) return std::nullopt;
    return to_numpy(std::move(point));
}

struct LevelModelOutcome {
    Array x, gradient;
    double psi, multiplier, residual, y;
    int steps, projections;
};

LevelModelOutcome run_level_model(const LevelConstraint &level, const Square &hessian, const In &x, double psi,
                                  const In &gradient, double multiplier, double residual, double y,
                                  std::tuple<double, double, double> enough, double scale, double curvature,
                                  double gamma, double accuracy, int max_steps, nb::object surrogate) {
    level.check(x.shape(0));
    level.check(gradient.shape(0));
    level.check(hessian.shape(0));
    level.check(hessian.shape(1));
    require(surrogate.is_none() || level.set.width == 1, "such a surrogate is for features of one coefficient");
    LevelModelSettings settings;
    if (!surrogate.is_none())
        settings.surrogate = [&](const double *at) { return python_surrogate(surrogate, at, level.set.dimension()); };
    settings.gamma = gamma;
    settings.accuracy = accuracy;
    settings.max_steps = max_steps;
    settings.scale = scale;
    settings.curvature = curvature;
    settings.enough = {std::get<0>(enough), std::get<1>(enough), std::get<2>(enough)};
    LevelModelState state;
    state.x.assign(x.data(), x.data() + x.shape(0));
    state.gradient.assign(gradient.data(), gradient.data() + x.shape(0));
    state.psi = psi;
    state.multiplier = multiplier;
    state.residual = residual;
    state.y = y;
    {
        nb::gil_scoped_release release;
        Poll poll;
        solve_level_model(level.set, level.units, hessian.data(), settings, state, poll);
    }
    return {to_numpy(std::move(state.x)),
            to_numpy(std::move(state.gradient)),
            state.psi,
            state.multiplier,
            state.residual,
            state.y,
            state.steps,
            state.projections};
}

}  // namespace

void bind_level(nb::module_ &m) {
    nb::class_<Penalty>(m, "Penalty", "phi of a constraint, compiled or written in Python.")
        .def("phi", &evaluated<&Penalty::phi>, "t"_a)
        .def("slope", &evaluated<&Penalty::slope>, "t"_a)
        .def("curvature", &evaluated<&Penalty::curvature>, "t"_a)
        .def("total", &total, "sizes"_a.noconvert(), "weights"_a.noconvert().none(),
             "Return the sum of weights * phi(|sizes|).");
    nb::class_<PythonPenalty, Penalty>(m, "PythonPenalty").def(nb::init<nb::object>(), "constraint"_a);
    m.def(
        "penalty",
        [](const std::string &name, const std::vector<double> &parameters, double factor) {
            return make_penalty(penalty_kind(name), parameters, factor).release();
        },
        nb::rv_policy::take_ownership, "name"_a, "parameters"_a, "factor"_a);

    nb::class_<LevelConstraint>(m, "LevelConstraint", "A level constraint, with the units of its features.")
        .def(nb::init<nb::object, std::int64_t, std::int64_t, std::optional<In>, std::optional<Mask>, bool, double,
                      std::optional<In>, std::optional<In>, std::int64_t, std::optional<In>>(),
             "penalty"_a, "n_features"_a, "width"_a, "weights"_a.noconvert().none(), "nonnegative"_a.noconvert().none(),
             "all_nonnegative"_a, "level"_a, "size"_a.noconvert().none() = nb::none(),
             "mean"_a.noconvert().none() = nb::none(), "intercept"_a = -1,
             "working_units"_a.noconvert().none() = nb::none())
        .def("majorised", &majorised, "x"_a.noconvert(), "Return (prices, tau) of the surrogate set at x.")
        .def("residual", &kkt_residual_of, "x"_a.noconvert(), "gradient"_a.noconvert(), "scale"_a, "curvature"_a,
             "Return the best multiplier at x, and stationarity and complementarity with it.")
        .def("newton", &kkt_newton, "places"_a.noconvert(), "hessian"_a.noconvert(), "x"_a.noconvert(),
             "gradient"_a.noconvert(), "y"_a, "Return x after a Newton step on the KKT system, or None.");

    nb::class_<KktLines> lines(m, "KktLines", "Residuals of the KKT system at x as functions of the multiplier.");
    lines.def(
        "__init__",
        [](KktLines *self, const LevelConstraint &level, const In &x, const In &gradient, bool measured) {
            level.check(x.shape(0));
            level.check(gradient.shape(0));
            new (self) KktLines(level.set, measured ? level.units : FeatureUnits(), x.data(), gradient.data());
        },
        nb::keep_alive<1, 2>(), "level"_a, "x"_a.noconvert(), "gradient"_a.noconvert(), "measured"_a = true);
    lines.def("largest", &KktLines::largest, "y"_a, "Return the largest residual.");
    lines.def(
        "best",
        [](const KktLines &self, double g, double scale, double curvature) {
            const Best best = self.best_or_free(g, scale, curvature);
            return std::tuple(best.y, best.stationarity, best.complementarity);
        },
        "g"_a, "scale"_a, "curvature"_a);
    const auto array = [&](const char *name, std::vector<double> KktLines::*values) {
        const auto copy = [values](const KktLines &self) { return to_numpy(std::vector<double>(self.*values)); };
        lines.def_prop_ro(name, copy, nb::rv_policy::reference);
    };
    array("t", &KktLines::t);
    array("support_offset", &KktLines::support_offset);
    array("support_slope", &KktLines::support_slope);
    array("zero_offset", &KktLines::zero_offset);
    array("zero_slope", &KktLines::zero_slope);
    lines.def_prop_ro(
        "support",
        [](const KktLines &self) {
            auto *features = new std::vector<std::int64_t>(self.support);
            nb::capsule owner(features, [](void *p) noexcept { delete static_cast<std::vector<std::int64_t> *>(p); });
            return nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(features->data(), {features->size()}, owner);
        },
        nb::rv_policy::reference);

    nb::class_<LevelModelOutcome> outcome(m, "LevelModelOutcome", "The end of LCPP on a second-order model.");
    def_array<&LevelModelOutcome::x>(outcome, "x");
    def_array<&LevelModelOutcome::gradient>(outcome, "gradient");
    outcome.def_ro("psi", &LevelModelOutcome::psi)
        .def_ro("multiplier", &LevelModelOutcome::multiplier)
        .def_ro("residual", &LevelModelOutcome::residual)
        .def_ro("y", &LevelModelOutcome::y)
        .def_ro("steps", &LevelModelOutcome::steps)
        .def_ro("projections", &LevelModelOutcome::projections);
    m.def("level_model", &run_level_model, "level"_a, "hessian"_a.noconvert(), "x"_a.noconvert(), "psi"_a,
          "gradient"_a.noconvert(), "multiplier"_a, "residual"_a, "y"_a, "enough"_a, "scale"_a, "curvature"_a,
          "gamma"_a, "accuracy"_a, "max_steps"_a, "surrogate"_a.none());
}
