// Compiled once per instruction set: LEVELPROX_TABLE names the table, LEVELPROX_TABLE_NAME its string.
// Nothing here may call a function template of the standard library: the linker keeps one copy of
// such a function for the whole module, and it could be the one compiled for the wider instructions.
#include <cstdint>

#include "simd.hpp"

namespace levelprox {
namespace {

constexpr int LANES = 16;  // partial sums of every reduction, on every instruction set

#include "simd_dense.inl"

}  // namespace

const Simd LEVELPROX_TABLE = {
    LEVELPROX_TABLE_NAME,
    {dense_dot<float>, dense_add<float>, dense_dots<float>, dense_adds<float>},
    {dense_dot<double>, dense_add<double>, dense_dots<double>, dense_adds<double>},
};

}  // namespace levelprox
