// The second-order model over the set of a subproblem, its matrix in memory or given by products.
#include "bindings/module.hpp"
#include "algorithms/quadratic.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Square = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// v -> Hv written in Python; Q = H + diag(ridge).
class PythonQuadratic final : public Quadratic {
public:
    PythonQuadratic(nb::callable product, std::int64_t d, const double *ridge)
        : product_(std::move(product)), d_(d), ridge_(ridge) {}

    void apply(const double *v, double *out, Poll &) const override {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        copy_gradient(product_(to_numpy(std::vector<double>(v, v + d_))), d_, out);
        for (std::int64_t i = 0; i < d_; ++i) out[i] += ridge_[i] * v[i];
    }

    bool block(const std::vector<std::int64_t> &, double *) const override { return false; }

private:
    nb::callable product_;
    std::int64_t d_;
    const double *ridge_;
};

struct QuadraticOutcome {
    Array x;
    double multiplier, residual, decrease;
    int products, projections;
    bool accurate;
};

QuadraticOutcome run_quadratic(nb::object hessian, const Set &set, In x, In gradient, In diagonal, In ridge,
                               double multiplier, double relative, int max_products) {
    set.check(x);
    set.check(gradient);
    set.check(diagonal);
    set.check(ridge);
    const auto d = std::int64_t(x.shape(0));
    QuadraticState state;
    state.x.assign(x.data(), x.data() + d);
    state.multiplier = multiplier;
    std::vector<double> bends(diagonal.data(), diagonal.data() + d);
    for (std::int64_t i = 0; i < d; ++i) bends[i] += ridge.data()[i];
    const auto run = [&](const Quadratic &Q) {
        nb::gil_scoped_release release;
        Poll poll;
        FaceFactor factor;
        minimise_quadratic(Q, gradient.data(), bends.data(), set.ball, {relative, max_products}, state, factor, poll);
    };
    Square matrix;
    if (nb::try_cast(hessian, matrix, false)) {
        require(std::int64_t(matrix.shape(0)) == d && std::int64_t(matrix.shape(1)) == d,
                "the matrix does not have the dimension of x");
        run(DenseQuadratic(d, matrix.data(), ridge.data()));
    } else {
        run(PythonQuadratic(nb::cast<nb::callable>(hessian), d, ridge.data()));
    }
    return {to_numpy(std::move(state.x)),
            state.multiplier,
            state.residual,
            state.decrease,
            state.products,
            state.projections,
            state.accurate};
}

}  // namespace

void bind_quadratic(nb::module_ &m) {
    nb::class_<QuadraticOutcome> outcome(m, "QuadraticOutcome", "A minimiser of the second-order model.");
    def_array<&QuadraticOutcome::x>(outcome, "x");
    outcome.def_ro("multiplier", &QuadraticOutcome::multiplier, "Of the last projection, per unit step.")
        .def_ro("residual", &QuadraticOutcome::residual)
        .def_ro("decrease", &QuadraticOutcome::decrease, "By how much the model is lower than at the start.")
        .def_ro("products", &QuadraticOutcome::products, "Products with the matrix.")
        .def_ro("projections", &QuadraticOutcome::projections)
        .def_ro("accurate", &QuadraticOutcome::accurate);
    m.def("quadratic", &run_quadratic, "hessian"_a, "set"_a, "x"_a.noconvert(), "gradient"_a.noconvert(),
          "diagonal"_a.noconvert(), "ridge"_a.noconvert(), "multiplier"_a, "relative"_a, "max_products"_a,
          "Minimise the model with the matrix H + diag(ridge). H is an array of shape (d, d) or a function v -> Hv, "
          "`diagonal` its diagonal.");
}
