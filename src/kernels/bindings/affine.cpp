// psi as the compiled subsolvers see it, psi over a centred and scaled X with intercepts, and sums over such an X.
#include "algorithms/affine.hpp"
#include "algorithms/affine_model.hpp"
#include "algorithms/design_kernel.hpp"
#include "bindings/module.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Places = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const double *data_of(const std::optional<In> &values) { return values ? values->data() : nullptr; }

void require_length(const std::optional<In> &values, std::int64_t length, const char *message) {
    require(!values || std::int64_t(values->shape(0)) == length, message);
}

Affine affine_of(const Design &X, const std::optional<In> &center, const std::optional<In> &scale) {
    require_length(center, X.columns(), "the centers do not fit the columns of X");
    require_length(scale, X.columns(), "the scales do not fit the columns of X");
    return {data_of(center), data_of(scale)};
}

void check_places(const Places &ones, std::int64_t dimension) {
    for (std::size_t k = 0; k < ones.shape(0); ++k) {
        require(ones.data()[k] >= 0 && ones.data()[k] < dimension, "a column of ones is outside A");
        require(k == 0 || ones.data()[k] > ones.data()[k - 1], "the columns of ones must ascend");
    }
}

void init_model(AffineModel *self, const LinearModel &model, std::optional<In> center, std::optional<In> scale,
                std::optional<Places> ones) {
    require_length(center, model.dimension(), "the centers do not fit the model");
    require_length(scale, model.dimension(), "the scales do not fit the model");
    const std::int64_t intercepts = ones ? std::int64_t(ones->shape(0)) : 0;
    if (ones) check_places(*ones, model.dimension() + intercepts);
    new (self) AffineModel(model, data_of(center), data_of(scale), ones ? ones->data() : nullptr, intercepts);
}

double value_and_gradient(const Objective &self, In x, Out gradient) {
    const auto d = std::size_t(self.dimension());
    require(x.shape(0) == d && gradient.shape(0) == d, "x and the gradient must have the dimension of the model");
    Poll poll;
    nb::gil_scoped_release release;
    return self.value_and_gradient(x.data(), gradient.data(), poll);
}

void sums(const DesignKernel &X, std::optional<In> weight, double unit, Out sum, Out low, Out high) {
    const auto d = std::size_t(X.design.columns());
    require_length(weight, X.design.rows(), "the weights do not fit the rows of X");
    require(sum.shape(0) == d && low.shape(0) == d && high.shape(0) == d, "the sums do not fit the columns of X");
    Poll poll;
    nb::gil_scoped_release release;
    column_sums(X.design, data_of(weight), unit, sum.data(), low.data(), high.data(), poll);
}

void moments(const DesignKernel &X, std::optional<In> center, std::optional<In> scale, In weight, Out first,
             Out second) {
    const auto d = std::size_t(X.design.columns());
    const Affine affine = affine_of(X.design, center, scale);
    require(std::int64_t(weight.shape(0)) == X.design.rows(), "the weights do not fit the rows of X");
    require(first.shape(0) == d && second.shape(0) == d, "the moments do not fit the columns of X");
    Poll poll;
    nb::gil_scoped_release release;
    column_moments(X.design, affine, weight.data(), first.data(), second.data(), poll);
}

void row_squares(const DesignKernel &X, std::optional<In> center, std::optional<In> scale, Out out) {
    const Affine affine = affine_of(X.design, center, scale);
    require(std::int64_t(out.shape(0)) == X.design.rows(), "out does not fit the rows of X");
    Poll poll;
    nb::gil_scoped_release release;
    affine_row_squares(X.design, affine, out.data(), poll);
}

}  // namespace

void bind_affine(nb::module_ &m) {
    nb::class_<Objective>(m, "Objective", "psi, compiled.")
        .def_prop_ro("dimension", &Objective::dimension)
        .def("value_and_gradient", &value_and_gradient, "x"_a.noconvert(), "gradient"_a.noconvert());
    nb::class_<AffineModel, Objective>(m, "AffineModel",
                                       "A linear model over [(X - 1c') diag(1/s), 1], ones where required.")
        .def("__init__", &init_model, "model"_a, "center"_a.noconvert().none(), "scale"_a.noconvert().none(),
             "ones"_a.noconvert().none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(),
             nb::keep_alive<1, 5>());
    m.def("column_sums", &sums, "X"_a, "weight"_a.noconvert().none(), "unit"_a, "sum"_a.noconvert(),
          "low"_a.noconvert(), "high"_a.noconvert(),
          "Weighted sums of the columns times unit, and their least and largest entries of positive weight.");
    m.def("column_moments", &moments, "X"_a, "center"_a.noconvert().none(), "scale"_a.noconvert().none(),
          "weight"_a.noconvert(), "first"_a.noconvert(), "second"_a.noconvert(),
          "Weighted sums of (X_ij - c_j) / s_j and of their squares, column by column.");
    m.def("affine_row_squares", &row_squares, "X"_a, "center"_a.noconvert().none(), "scale"_a.noconvert().none(),
          "out"_a.noconvert(), "Sums of ((X_ij - c_j) / s_j)^2, row by row.");
}
