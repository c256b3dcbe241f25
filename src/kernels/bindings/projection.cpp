// Projection of the rows of v, one ball a row; arguments were checked by levelprox.projection.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>

#include "bindings/module.hpp"
#include "algorithms/norm.hpp"
#include "algorithms/projection.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutVector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Returns (row, status) of the first row that cannot be projected, or (-1, done).
template <class T>
std::pair<std::int64_t, levelprox::Projected> project_rows(Matrix<T> v, std::optional<Matrix<T>> u,
                                                           std::optional<Vector<T>> omega,
                                                           std::optional<Vector<std::uint8_t>> nonnegative,
                                                           bool all_nonnegative, Vector<double> tau,
                                                           Vector<double> start, OutMatrix<T> out, OutVector multiplier,
                                                           std::int64_t width) {
    const std::int64_t rows = v.shape(0), d = v.shape(1);
    std::int64_t failed = -1;
    levelprox::Projected status = levelprox::Projected::done;
    {
        nb::gil_scoped_release release;
        for (std::int64_t r = 0; r < rows; ++r) {
            levelprox::Ball<T> ball;
            ball.d = d;
            ball.width = width;
            if (u) ball.u = u->data() + (u->shape(0) == 1 ? 0 : r * d);
            if (omega) ball.omega = omega->data();
            if (nonnegative) ball.nonnegative = nonnegative->data();
            ball.all_nonnegative = all_nonnegative;
            ball.tau = tau.data()[r];
            const levelprox::Projection outcome =
                levelprox::project_onto(ball, v.data() + r * d, start.data()[r], out.data() + r * d);
            multiplier.data()[r] = outcome.multiplier;
            if (outcome.status != levelprox::Projected::done) {
                failed = r;
                status = outcome.status;
                break;
            }
        }
    }
    return {failed, status};
}

template <class T>
void bind(nb::module_ &m) {
    m.def("project_rows", &project_rows<T>, "v"_a.noconvert(), "u"_a.noconvert().none(), "omega"_a.noconvert().none(),
          "nonnegative"_a.noconvert().none(), "all_nonnegative"_a, "tau"_a.noconvert(), "start"_a.noconvert(),
          "out"_a.noconvert(), "multiplier"_a.noconvert(), "width"_a = 1);
}

}  // namespace

void bind_projection(nb::module_ &m) {
    m.def(
        "group_norms",
        [](Vector<double> x, OutVector out) {
            const std::size_t features = out.shape(0), width = features ? x.shape(0) / features : 0;
            if (features * width != x.shape(0)) throw nb::value_error("x is not a whole number of groups");
            nb::gil_scoped_release release;
            for (std::size_t j = 0; j < features; ++j)
                out.data()[j] = levelprox::norm_above(std::int64_t(width), x.data() + j * width);
        },
        "x"_a.noconvert(), "out"_a.noconvert(), "2-norms of x, as many coordinates each, rounded up.");
    bind<float>(m);
    bind<double>(m);
}
