// The best features of a parabola for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "algorithms/gram_search.hpp"
#include "bindings/module.hpp"
#include "bindings/signatures.hpp"
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
                std::vector<double> diagonal(d);
                for (std::size_t j = 0; j < d; ++j) diagonal[j] = gram.data()[j * d + j];
                const auto size = std::int64_t(d);
                new (self)
                    GramSearch(size, GramRows(size, gram.data()), diagonal.data(), pull.data(), square, kept.data());
            },
            "gram"_a.noconvert(), "pull"_a.noconvert(), "square"_a, "kept"_a.noconvert(), nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>(), nb::keep_alive<1, 5>())
        .def(
            "__init__",
            [](GramSearch *self, nb::callable row, double work, In diagonal, In pull, double square, Mask kept) {
                const std::size_t d = pull.shape(0);
                require(diagonal.shape(0) == d && kept.shape(0) == d, "the parts of a parabola do not fit");
                GramRows rows(std::int64_t(d), work, false, [row = std::move(row), d](std::int64_t j, double *to) {
                    nb::gil_scoped_acquire acquire;
                    const In computed = nb::cast<In>(row(j));
                    require(computed.shape(0) == d, "a row of a Gram matrix does not fit");
                    std::copy(computed.data(), computed.data() + d, to);
                });
                new (self)
                    GramSearch(std::int64_t(d), std::move(rows), diagonal.data(), pull.data(), square, kept.data());
            },
            "row"_a, "work"_a, "diagonal"_a.noconvert(), "pull"_a.noconvert(), "square"_a, "kept"_a.noconvert(),
            nb::keep_alive<1, 5>(), nb::keep_alive<1, 7>(),
            nb::sig("def __init__(self, row: collections.abc.Callable[[int], " FLOAT64_ARRAY
                    "], work: float, diagonal: " FLOAT64_ARRAY ", pull: " FLOAT64_ARRAY
                    ", square: float, kept: " UINT8_ARRAY ") -> None"),
            "With row(j), which returns a row of G as an array, and takes so many multiplications.")
        .def(
            "__init__",
            [](GramSearch *self, Matrix samples, std::optional<In> ridge, In diagonal, In pull, double square,
               Mask kept) {
                const std::size_t d = samples.shape(1);
                require(pull.shape(0) == d && diagonal.shape(0) == d && kept.shape(0) == d,
                        "the parts of a parabola do not fit");
                require(!ridge || ridge->shape(0) == d, "a ridge does not fit");
                GramRows rows = GramRows::of_samples(std::int64_t(samples.shape(0)), std::int64_t(d), samples.data(),
                                                     ridge ? ridge->data() : nullptr);
                new (self)
                    GramSearch(std::int64_t(d), std::move(rows), diagonal.data(), pull.data(), square, kept.data());
            },
            "samples"_a.noconvert(), "ridge"_a.none(), "diagonal"_a.noconvert(), "pull"_a.noconvert(), "square"_a,
            "kept"_a.noconvert(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 5>(),
            nb::keep_alive<1, 7>(), "With G = A'A + diag(ridge); A has a row for each sample.")
        .def(
            "forward",
            [](GramSearch &self, std::int64_t count) {
                Poll poll;
                nb::gil_scoped_release release;
                return self.forward(count, poll);
            },
            "count"_a, "Return up to `count` features that count, in the order in which they gain most.")
        .def_prop_ro("n_rows", &GramSearch::n_rows, "Rows of G that the last search used.")
        .def(
            "best",
            [](GramSearch &self, std::int64_t k, std::optional<std::vector<std::int64_t>> begin, bool brief,
               std::optional<nb::callable> allowed) {
                require(k >= 0, "k must not be negative");
                if (begin)
                    for (const std::int64_t j : *begin) require(j >= 0 && j < self.size(), "a feature is out of range");
                Poll poll;
                GramSearch::Allowed asked;
                if (allowed)
                    asked = [&allowed] {
                        nb::gil_scoped_acquire acquire;
                        return nb::cast<bool>((*allowed)());
                    };
                nb::gil_scoped_release release;
                return self.best(k, begin ? &*begin : nullptr, brief, poll, asked);
            },
            "k"_a, "begin"_a = nb::none(), "brief"_a = false, "allowed"_a = nb::none(),
            nb::sig("def best(self, k: int, begin: collections.abc.Sequence[int] | None = None, brief: bool = False, "
                    "allowed: collections.abc.Callable[[], bool] | None = None) -> list[int]"),
            "Return the best k features besides those that are kept, in ascending order. With `begin`, swaps start "
            "there alone. A brief search leaves a set only by way of one feature less or more. `allowed` is called "
            "before each swap that is taken; it returns whether it may be.");
}
