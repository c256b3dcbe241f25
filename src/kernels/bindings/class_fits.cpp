// Fits of softmax models over a few columns for Python. Arguments were checked by levelprox.objectives; here only what
// keeps reads inside arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "algorithms/class_fits.hpp"
#include "algorithms/class_newton.hpp"
#include "bindings/module.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Labels = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Array3 = nb::ndarray<nb::numpy, double, nb::ndim<3>>;

// End, x, psi, margins and Hessian there, a bound on what is left to gain, and what rounding may change.
using Fit = std::tuple<FitEnd, Array, double, Array2, Array2, double, double>;

// x, psi and margins.
using QuickFit = std::tuple<Array, double, Array2>;

// Another x to begin with, the inverse over S, the place that is left out or -1, the inverse of its block, and what is
// known of the one that is added: H_jR H_RR^-1 and the inverse of its Schur complement, both of which may be empty.
using Near = std::tuple<std::vector<double>, Matrix, std::int64_t, Matrix, Matrix, Matrix>;

ColumnPointers checked(const ClassFits &fits, const std::vector<In> &columns) {
    ColumnPointers places;
    for (const In &column : columns) {
        require(std::int64_t(column.shape(0)) == fits.samples().rows(), "a column does not fit the samples");
        places.push_back(column.data());
    }
    return places;
}

void require_coefficients(const ClassFits &fits, std::size_t columns, std::size_t size, std::size_t ridge) {
    require(std::int64_t(size) == std::int64_t(columns) * fits.samples().classes(),
            "there must be a coefficient for each column and class");
    require(ridge == 0 || ridge == columns, "there must be a ridge for each column, or none");
}

std::vector<double> margins_of(const ClassFits &fits, const Matrix &z) {
    require(std::int64_t(z.shape(0)) == fits.samples().rows() && std::int64_t(z.shape(1)) == fits.samples().classes(),
            "the margins do not fit the samples");
    return fits.samples().by_class(z.data());
}

NearInverse checked(const Near &near, std::size_t size, std::size_t K) {
    const auto &[begin, inverse, out, stiffness, across, schur] = near;
    const auto fits = [](const Matrix &matrix, std::size_t rows, std::size_t columns) {
        return matrix.shape(0) == rows && matrix.shape(1) == columns;
    };
    const std::size_t order = inverse.shape(0);
    const bool added = across.shape(0) > 0, left_out = out >= 0;
    require(begin.size() == size && fits(inverse, order, order) && order % K == 0 &&
                (!left_out || std::size_t(out) < order / K) && (!left_out || fits(stiffness, K, K)) &&
                (!added || (fits(across, K, order) && fits(schur, K, K))) &&
                size == order - (left_out ? K : 0) + (added ? K : 0),
            "the inverse does not fit the columns");
    return {begin, inverse.data(), order, out, stiffness.data(), added ? across.data() : nullptr, schur.data()};
}

Fit fit(const ClassFits &self, const std::vector<In> &columns, std::vector<double> x, double tolerance, double below,
        double accuracy, const std::vector<double> &noise, const std::vector<double> &ridge) {
    const std::size_t size = x.size();
    require_coefficients(self, columns.size(), size, ridge.size());
    require(noise.size() == columns.size(), "there must be a number for each column");
    const ColumnPointers places = checked(self, columns);
    ColumnFit found;
    {
        Poll poll;
        nb::gil_scoped_release release;
        found = self.fit(places, std::move(x), tolerance, accuracy, below, noise, ridge, poll);
    }
    const auto rows = std::size_t(self.samples().rows()), classes = std::size_t(self.samples().classes());
    return {found.end,
            to_numpy(std::move(found.x)),
            found.psi,
            to_numpy<Array2>(std::move(found.margins), {rows, classes}),
            to_numpy<Array2>(std::move(found.hessian), {size, size}),
            found.gap,
            found.resolution};
}

std::optional<QuickFit> quick_fit(const ClassFits &self, const std::vector<In> &columns, std::vector<double> x,
                                  const std::vector<double> &ridge, double accuracy, double below, double gone,
                                  const std::optional<Near> &near) {
    require_coefficients(self, columns.size(), x.size(), ridge.size());
    const ColumnPointers places = checked(self, columns);
    const auto rows = std::size_t(self.samples().rows()), classes = std::size_t(self.samples().classes());
    NearInverse inverse{};
    if (near) inverse = checked(*near, x.size(), classes);
    std::optional<ClassNewtonFit> found;
    {
        Poll poll;
        nb::gil_scoped_release release;
        found = newton_fit(self.samples(), places, std::move(x), ridge, accuracy, below, gone,
                           near ? &inverse : nullptr, poll);
        if (found) found->margins = self.samples().by_sample(found->margins);
    }
    if (!found) return std::nullopt;
    return QuickFit{to_numpy(std::move(found->x)), found->psi,
                    to_numpy<Array2>(std::move(found->margins), {rows, classes})};
}

std::tuple<Array2, Array2, Array3> derivatives(const ClassFits &self, const std::vector<In> &columns,
                                               const std::vector<std::size_t> &inside, Matrix z) {
    const ColumnPointers places = checked(self, columns);
    for (std::size_t l : inside) require(l < columns.size(), "a column inside is not among the columns");
    const std::size_t d = columns.size(), K = std::size_t(self.samples().classes());
    const std::vector<double> margins = margins_of(self, z);
    ClassDerivatives found;
    {
        Poll poll;
        nb::gil_scoped_release release;
        found = self.samples().derivatives(places, inside, self.samples().at(margins, poll), poll);
    }
    return {to_numpy<Array2>(std::move(found.gradient), {d, K}),
            to_numpy<Array2>(std::move(found.cross), {d * K, inside.size() * K}),
            to_numpy<Array3>(std::move(found.own), {d, K, K})};
}

Array2 hessian(const ClassFits &self, const std::vector<In> &columns, Matrix z) {
    const ColumnPointers places = checked(self, columns);
    const std::size_t size = columns.size() * std::size_t(self.samples().classes());
    const std::vector<double> margins = margins_of(self, z);
    std::vector<double> found;
    {
        Poll poll;
        nb::gil_scoped_release release;
        found = self.samples().hessian(places, self.samples().at(margins, poll), poll);
    }
    return to_numpy<Array2>(std::move(found), {size, size});
}

}  // namespace

void bind_class_fits(nb::module_ &m) {
    nb::class_<ClassFits>(m, "ClassFits")
        .def(
            "__init__",
            [](ClassFits *self, std::int64_t classes, Labels label, std::optional<In> weight,
               std::optional<Matrix> offset) {
                const std::size_t n = label.shape(0);
                require(classes >= 1, "there is at least one class");
                for (std::size_t i = 0; i < n; ++i)
                    require(label.data()[i] >= 0 && label.data()[i] < classes, "a label is not a class");
                require(!weight || weight->shape(0) == n, "the weights do not fit the samples");
                require(!offset || (offset->shape(0) == n && std::int64_t(offset->shape(1)) == classes),
                        "the offsets do not fit the samples");
                new (self)
                    ClassFits(ClassSamples(std::int64_t(n), classes, label.data(), weight ? weight->data() : nullptr,
                                           offset ? offset->data() : nullptr));
            },
            "classes"_a, "label"_a.noconvert(), "weight"_a.noconvert().none(), "offset"_a.noconvert().none(),
            nb::keep_alive<1, 3>())
        .def("fit", &fit, "columns"_a, "x"_a, "tolerance"_a, "below"_a, "accuracy"_a, "noise"_a,
             "ridge"_a = std::vector<double>(),
             "Return what ColumnFits.fit returns, with K coefficients for each column.")
        .def("quick_fit", &quick_fit, "columns"_a, "x"_a, "ridge"_a, "accuracy"_a, "below"_a, "gone"_a,
             "near"_a.none() = nb::none(),
             "Return x, psi and margins of a fit to `accuracy` of psi; None where psi is not likely to be below a "
             "value.")
        .def("derivatives", &derivatives, "columns"_a, "inside"_a, "z"_a.noconvert(),
             "Return the gradient for each column and class, the Hessian of all columns with those inside, and its "
             "diagonal blocks, at some margins.")
        .def("hessian", &hessian, "columns"_a, "z"_a.noconvert(), "Return the Hessian at some margins.");
}
