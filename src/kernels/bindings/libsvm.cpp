// The parser of LIBSVM text; its arrays go to NumPy as they are.
#include <optional>
#include <tuple>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "algorithms/libsvm.hpp"
#include "bindings/module.hpp"
#include "bindings/signatures.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using levelprox::Block;
using levelprox::libsvm::Fault;
using levelprox::libsvm::Parser;

namespace {

using Text = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Trouble = std::tuple<Fault, std::int64_t, std::int64_t, std::int64_t, nb::bytes>;

std::int64_t feed(Parser &self, Text text, std::int64_t rows) {
    nb::gil_scoped_release release;
    return std::int64_t(self.feed(reinterpret_cast<const char *>(text.data()), text.shape(0), rows));
}

std::optional<Trouble> trouble(const Parser &self) {
    const auto &found = self.trouble();
    if (found.fault == Fault::none) return std::nullopt;
    return Trouble{found.fault, found.line, found.column, found.before,
                   nb::bytes(found.token.data(), found.token.size())};
}

template <class T>
nb::object array(Block &block, std::int64_t size) {
    void *bytes = block.release();
    const nb::capsule owner(bytes, [](void *owned) noexcept { std::free(owned); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(bytes, {std::size_t(size)}, owner));
}

template <class Index>
nb::tuple arrays(Parser &self, bool single) {
    nb::object values = single ? array<float>(self.values, self.entries()) : array<double>(self.values, self.entries());
    nb::object indices = array<Index>(self.indices, self.entries());
    nb::object indptr = array<Index>(self.indptr, self.rows() + 1);
    return nb::make_tuple(values, indices, indptr, array<double>(self.labels, self.rows()));
}

nb::tuple take(Parser &self, std::int64_t features) {
    {
        nb::gil_scoped_release release;
        self.pack(features);
    }
    nb::tuple taken =
        self.wide() ? arrays<std::int64_t>(self, self.single()) : arrays<std::int32_t>(self, self.single());
    self.clear();
    return taken;
}

void init(Parser *self, std::int64_t features, bool zero_based, bool single) {
    new (self) Parser({features, zero_based, single});
}

}  // namespace

void bind_libsvm(nb::module_ &m) {
    m.attr("LIBSVM_TOKEN_LIMIT") = levelprox::libsvm::TOKEN_LIMIT;
    nb::class_<Parser>(m, "LibsvmParser",
                       "LIBSVM text in pieces of any size, to the arrays of a CSR matrix and its labels.")
        .def("__init__", &init, "features"_a, "zero_based"_a, "single"_a)
        .def("feed", &feed, "text"_a.noconvert(), "rows"_a = -1,
             "Parse text until there are `rows` rows, and return the number of bytes used.")
        .def("finish", &Parser::finish, "End the text; the last line needs no newline.")
        .def_prop_ro("trouble", &trouble, "None, or the fault, its line and column, the index before it and the token.")
        .def_prop_ro("rows", &Parser::rows)
        .def_prop_ro("features", &Parser::features)
        .def("take", &take, "features"_a,
             nb::sig("def take(self, features: int) -> tuple[" FLOAT_ARRAY ", " INT_ARRAY ", " INT_ARRAY
                     ", " FLOAT64_ARRAY "]"),
             "Return data, indices, indptr and labels of the rows since the last call, without a copy.");
}
