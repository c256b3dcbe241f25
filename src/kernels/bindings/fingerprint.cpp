// The fingerprint of a data matrix.
#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include "algorithms/design_kernel.hpp"
#include "algorithms/fingerprint.hpp"
#include "bindings/module.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

// Whether X is stored so; if it is, its mark.
template <class Storage>
bool marked(const Design &X, Mark &mark, Poll &poll) {
    const auto *slices = dynamic_cast<const Storage *>(X.slices);
    if (slices) mark = mark_of(*slices, X.by_rows, poll);
    return slices != nullptr;
}

std::pair<std::int64_t, std::uint64_t> fingerprint(const DesignKernel &X) {
    Mark mark;
    bool known;
    {
        nb::gil_scoped_release release;
        Poll poll;
        using std::int32_t, std::int64_t;
        known = marked<DenseSlices<float>>(X.design, mark, poll) || marked<DenseSlices<double>>(X.design, mark, poll) ||
                marked<SparseSlices<float, int32_t>>(X.design, mark, poll) ||
                marked<SparseSlices<float, int64_t>>(X.design, mark, poll) ||
                marked<SparseSlices<double, int32_t>>(X.design, mark, poll) ||
                marked<SparseSlices<double, int64_t>>(X.design, mark, poll);
    }
    if (!known) throw nb::type_error("only data that are stored have a fingerprint");
    return {mark.nonzero, mark.sum};
}

}  // namespace

void bind_fingerprint(nb::module_ &m) {
    m.def("fingerprint", &fingerprint, "X"_a,
          "Return the number of nonzero entries of X, and a hash of them that does not depend on the storage.");
}
