// The largest residual of a KKT system, and the multiplier with which it is smallest.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bindings/module.hpp"
#include "algorithms/residual.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

Residual residual_of(const In &support_offset, const In &support_slope, const In &zero_offset, const In &zero_slope) {
    require(support_offset.shape(0) == support_slope.shape(0), "the support has other offsets than slopes");
    require(zero_slope.shape(0) == 1 || zero_slope.shape(0) == zero_offset.shape(0),
            "zeros have one slope, or one each");
    return Residual({std::int64_t(support_offset.shape(0)), std::int64_t(zero_offset.shape(0)), support_offset.data(),
                     support_slope.data(), zero_offset.data(), zero_slope.data(), zero_slope.shape(0) == 1});
}

std::tuple<double, double, double> best_multiplier(const In &support_offset, const In &support_slope,
                                                   const In &zero_offset, const In &zero_slope, const In &support_room,
                                                   const In &zero_room, double slack, double level, double curvature) {
    require(support_room.shape(0) == support_offset.shape(0), "the support has other offsets than rooms");
    require(zero_room.shape(0) == 1 || zero_room.shape(0) == zero_offset.shape(0), "zeros have one room, or one each");
    const Slack unused{slack, level, curvature, support_room.data(), zero_room.data(), zero_room.shape(0) == 1};
    const Best best = residual_of(support_offset, support_slope, zero_offset, zero_slope).best(unused);
    return {best.y, best.stationarity, best.complementarity};
}

double largest_residual(const In &support_offset, const In &support_slope, const In &zero_offset, const In &zero_slope,
                        double y) {
    return residual_of(support_offset, support_slope, zero_offset, zero_slope).stationarity(y);
}

}  // namespace

void bind_residual(nb::module_ &m) {
    m.def("best_multiplier", &best_multiplier, "support_offset"_a.noconvert(), "support_slope"_a.noconvert(),
          "zero_offset"_a.noconvert(), "zero_slope"_a.noconvert(), "support_room"_a.noconvert(),
          "zero_room"_a.noconvert(), "slack"_a, "level"_a, "curvature"_a);
    m.def("largest_residual", &largest_residual, "support_offset"_a.noconvert(), "support_slope"_a.noconvert(),
          "zero_offset"_a.noconvert(), "zero_slope"_a.noconvert(), "y"_a);
}
