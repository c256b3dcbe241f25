// The best features of a parabola for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "algorithms/gram_search.hpp"
#include "bindings/module.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

}  // namespace

void bind_gram_search(nb::module_ &m) {
    nb::class_<GramSearch>(
        m, "GramSearch",
        "The best k features of 1/2 x'Gx - c'x; features that are kept are in every set and do not count.")
        .def(
            "__init__",
            [](GramSearch *self, Matrix gram, In pull, double square, Mask kept) {
                const std::size_t d = gram.shape(0);
                require(gram.shape(1) == d && pull.shape(0) == d && kept.shape(0) == d,
                        "the parts of a parabola do not fit");
                new (self) GramSearch(std::int64_t(d), gram.data(), pull.data(), square, kept.data());
            },
            "gram"_a.noconvert(), "pull"_a.noconvert(), "square"_a, "kept"_a.noconvert(), nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>(), nb::keep_alive<1, 5>())
        .def(
            "best",
            [](GramSearch &self, std::int64_t k, std::optional<std::vector<std::int64_t>> begin, bool brief) {
                require(k >= 0, "k must not be negative");
                if (begin)
                    for (const std::int64_t j : *begin) require(j >= 0 && j < self.size(), "a feature is out of range");
                Poll poll;
                nb::gil_scoped_release release;
                return self.best(k, begin ? &*begin : nullptr, brief, poll);
            },
            "k"_a, "begin"_a = nb::none(), "brief"_a = false,
            "Return the best k features besides those that are kept, in ascending order. With `begin`, swaps start "
            "there "
            "alone. A brief search leaves a set only by way of one feature less or more.");
}
