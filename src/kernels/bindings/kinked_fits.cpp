// Exact fits of losses with kinks over a few columns for Python. Arguments were checked by levelprox.objectives; here
// only what keeps reads inside arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "algorithms/kinked_fits.hpp"
#include "bindings/module.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

// x, psi, margins, slopes, error, rounding, removal.
using Fit = std::tuple<Array, double, Array, Array, double, double, Array>;

}  // namespace

void bind_kinked_fits(nb::module_ &m) {
    nb::class_<KinkedColumns>(m, "KinkedColumns")
        .def(
            "__init__",
            [](KinkedColumns *self, std::int64_t n, const std::vector<In> &columns, std::optional<In> weight,
               Mask nonnegative) {
                require(!weight || std::int64_t(weight->shape(0)) == n, "the weights do not fit the samples");
                require(nonnegative.shape(0) == columns.size(), "there must be a sign, or none, for each column");
                std::vector<const double *> places;
                for (const In &column : columns) {
                    require(std::int64_t(column.shape(0)) == n, "a column does not fit the samples");
                    places.push_back(column.data());
                }
                std::vector<bool> signs(nonnegative.data(), nonnegative.data() + nonnegative.shape(0));
                nb::gil_scoped_release release;
                new (self) KinkedColumns(n, std::move(places), weight ? weight->data() : nullptr, std::move(signs));
            },
            "n"_a, "columns"_a, "weight"_a.noconvert().none(), "nonnegative"_a.noconvert(),
            "Columns of n entries, which the caller keeps for as long as this object.");
    nb::class_<KinkedFits>(m, "KinkedFits")
        .def(
            "__init__",
            [](KinkedFits *self, const std::string &loss, double parameter, In target, std::optional<In> weight,
               In origin, In low, In high) {
                const std::size_t n = target.shape(0);
                require(!weight || weight->shape(0) == n, "the weights do not fit the samples");
                require(origin.shape(0) == n && low.shape(0) == n && high.shape(0) == n,
                        "the margins or slopes do not fit the samples");
                new (self) KinkedFits(KinkedSamples(std::int64_t(n), loss_kind(loss), parameter, target.data(),
                                                    weight ? weight->data() : nullptr, origin.data(), low.data(),
                                                    high.data()));
            },
            "loss"_a, "parameter"_a, "target"_a.noconvert(), "weight"_a.noconvert().none(), "origin"_a.noconvert(),
            "low"_a.noconvert(), "high"_a.noconvert(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(),
            nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>())
        .def(
            "fit",
            [](const KinkedFits &self, KinkedColumns &columns, const std::vector<double> &x,
               const std::vector<double> &noise, std::size_t least_edges, std::size_t edges_per_coordinate,
               std::optional<In> slopes) -> Fit {
                require(columns.all_rows() == self.samples().n, "the columns do not fit the samples");
                require(x.size() == columns.size(), "there must be a coefficient for each column");
                require(noise.size() == columns.size(), "there must be a number for each column");
                require(!slopes || std::int64_t(slopes->shape(0)) == self.samples().n,
                        "the slopes do not fit the samples");
                KinkedFit found;
                {
                    Poll poll;
                    nb::gil_scoped_release release;
                    found = self.fit(columns, x, noise, {least_edges, edges_per_coordinate},
                                     slopes ? slopes->data() : nullptr, poll);
                }
                return {to_numpy(std::move(found.x)),      found.psi,   to_numpy(std::move(found.margins)),
                        to_numpy(std::move(found.slopes)), found.error, found.rounding,
                        to_numpy(std::move(found.removal))};
            },
            "columns"_a, "x"_a, "noise"_a, "least_edges"_a, "edges_per_coordinate"_a,
            "slopes"_a.noconvert() = nb::none(),
            "Return x, psi, margins, slopes of the samples, a bound on the error of psi, its rounding, and what the "
            "minimum rises by at least without each column. Slopes that are given are tried as the dual solution.");
}
