// A subproblem as Python passes it to the compiled subsolvers: its set, its psi, its points.
#pragma once
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/linear_model.hpp"
#include "algorithms/objective.hpp"
#include "bindings/enums.hpp"

namespace levelprox {

namespace nb = nanobind;

using In = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char *message) {
    if (!condition) throw nb::value_error(message);
}

// NumPy arrays that a kernel returns.
using Array = nb::ndarray<nb::numpy, double, nb::ndim<1>>;
using Array2 = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

// Hands a vector over to a NumPy array of this shape, without a copy.
template <class Result>
Result to_numpy(std::vector<double> &&values, std::initializer_list<std::size_t> shape) {
    auto *owned = new std::vector<double>(std::move(values));
    nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<double> *>(p); });
    return Result(owned->data(), shape, owner);
}

inline Array to_numpy(std::vector<double> &&values) {
    const std::size_t size = values.size();
    return to_numpy<Array>(std::move(values), {size});
}

// Getter of an array in an outcome. The array has an owner of its own: it does not keep the outcome alive.
template <auto member, class Class>
void def_array(Class &bound, const char *name) {
    using Outcome = typename Class::Type;
    bound.def_prop_ro(name, [](const Outcome &outcome) { return outcome.*member; }, nb::rv_policy::reference);
}

// The set of a subproblem, and the arrays it reads.
class Set {
public:
    Set(std::int64_t dimension, std::optional<In> omega, std::optional<In> u, std::optional<Mask> nonnegative,
        bool all_nonnegative, double tau, std::int64_t width)
        : omega_(std::move(omega)), u_(std::move(u)), nonnegative_(std::move(nonnegative)) {
        const auto d = std::size_t(dimension);
        require(width >= 1 && dimension % width == 0, "the dimension is not a multiple of the width");
        require(width == 1 || !(u_ || nonnegative_ || all_nonnegative), "groups have neither u nor signs");
        require(!omega_ || omega_->shape(0) == d / std::size_t(width),
                "omega does not have an entry for each feature of the dimension of x");
        require(!u_ || u_->shape(0) == d, "u does not have the dimension of x");
        require(!nonnegative_ || nonnegative_->shape(0) == d, "the mask does not have the dimension of x");
        ball.d = dimension;
        ball.width = width;
        if (omega_) ball.omega = omega_->data();
        if (u_) ball.u = u_->data();
        if (nonnegative_) ball.nonnegative = nonnegative_->data();
        ball.all_nonnegative = all_nonnegative;
        ball.tau = tau;
    }

    Ball<double> ball;

    // Refuses a point of another dimension.
    template <class Array>
    void check(const Array &x) const {
        require(std::int64_t(x.shape(0)) == ball.d, "a point does not have the dimension of the set");
    }

private:
    std::optional<In> omega_, u_;
    std::optional<Mask> nonnegative_;
};

// A gradient that Python returned, of the right length.
inline void copy_gradient(nb::handle gradient, std::int64_t dimension, double *out) {
    const In slope = nb::cast<In>(gradient);
    if (std::int64_t(slope.shape(0)) != dimension)
        throw nb::value_error("the gradient does not have the dimension of x");
    std::copy(slope.data(), slope.data() + dimension, out);
}

// psi written in Python: x -> (value, gradient), already checked by levelprox.objectives.user.
class PythonObjective : public Objective {
public:
    PythonObjective(nb::callable function, std::int64_t dimension)
        : function_(std::move(function)), dimension_(dimension) {}
    std::int64_t dimension() const override { return dimension_; }
    double value_and_gradient(const double *x, double *gradient, Poll &) const override {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        nb::object answer = function_(to_numpy(std::vector<double>(x, x + dimension_)));
        copy_gradient(answer[1], dimension_, gradient);
        return nb::cast<double>(answer[0]);
    }

private:
    nb::callable function_;
    std::int64_t dimension_;
};

// Calls run(psi) without the GIL, psi compiled or written in Python.
template <class Run>
void with_objective(nb::object objective, std::size_t d, Run run) {
    if (nb::isinstance<Objective>(objective)) {
        const auto &model = nb::cast<const Objective &>(objective);
        require(std::size_t(model.dimension()) == d, "the model does not have the dimension of x");
        nb::gil_scoped_release release;
        run(model);
    } else {
        const PythonObjective python(nb::cast<nb::callable>(objective), std::int64_t(d));
        nb::gil_scoped_release release;
        run(python);
    }
}

}  // namespace levelprox
