// Compiled once per instruction set: LEVELPROX_TABLE names the table, LEVELPROX_TABLE_NAME its string.
// Nothing here may call a function template of the standard library: the linker keeps one copy of
// such a function for the whole module, and it could be the one compiled for the wider instructions.
#include <cstdint>

#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr int LANES = 16;  // partial sums of every reduction, on every instruction set

#include "simd/simd_dense.inl"
#include "simd/simd_gram.inl"
#include "simd/simd_logistic.inl"
#include "simd/simd_logistic_gap.inl"
#include "simd/simd_normal.inl"
#include "simd/simd_projection.inl"
#include "simd/simd_softmax.inl"
#include "simd/simd_swaps.inl"

template <class T>
constexpr Tables<T> tables = {{dense_dot<T>, dense_add<T>, dense_dots<T>, dense_adds<T>},
                              {survey<T>, level<T>, last_breakpoint<T>, write<T>}};

}  // namespace

const Simd LEVELPROX_TABLE = {LEVELPROX_TABLE_NAME, panel_product, normal,        column_dots,
                              column_gram,          softmax_rows,  combine,       logistic,
                              logistic_gap,         swap_block,    tables<float>, tables<double>};

}  // namespace levelprox
