// The 2-norm of a few numbers, rounded up: the smallest double that is not below it.
//
// What is spent on a group must not be understated, not even in the last digit. The squares are summed in twice the
// working precision, the square root is compared with them, and what that cannot decide is decided without rounding.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "algorithms/exact.hpp"

namespace levelprox {

namespace norm_detail {

constexpr double DUST = 0x1p-400;  // relative to a largest entry of 1: squares of smaller ones underflow
constexpr double SUBNORMAL = 0x1p-900, LIFT = 0x1p600;

// Is sum v_i^2 > root^2? Without rounding, for entries that are 0 or in [DUST, 2).
template <class Entry>
bool exceeds(std::int64_t n, Entry entry, double root) {
    ExactSum difference;
    difference.add_product(root, -root);
    for (std::int64_t i = 0; i < n; ++i)
        if (const double v = entry(i); std::fabs(v) >= DUST) difference.add_product(v, v);
    return difference.leading() > 0;
}

// 2^exponent times a number, rounded up where it becomes subnormal.
inline double scaled_up(double value, int exponent) {
    const double result = std::ldexp(value, exponent);
    return std::ldexp(result, -exponent) < value ? std::nextafter(result, std::numeric_limits<double>::infinity())
                                                 : result;
}

}  // namespace norm_detail

// 2^-down |x|_2, rounded up; inf or NaN where x is. Only numbers near the end of the range need `down`.
template <class T>
double norm_above(std::int64_t n, const T *x, int down = 0) {
    using namespace norm_detail;
    double largest = 0, poison = 0;
    std::int64_t nonzero = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double size = std::fabs(double(x[i]));
        largest = size > largest ? size : largest;
        nonzero += size > 0;
        poison += size * 0.0;
    }
    if (poison != 0) return std::isinf(largest) ? largest : poison;
    if (nonzero <= 1) return scaled_up(largest, -down);

    const double lift = largest < SUBNORMAL ? LIFT : 1.0;
    const int exponent = std::ilogb(largest * lift);
    const double unit = std::ldexp(1.0, -exponent);
    const auto entry = [&](std::int64_t i) { return double(x[i]) * lift * unit; };
    HeadTail sum{0, 0};
    bool dust = false;
    for (std::int64_t i = 0; i < n; ++i) {
        const double v = entry(i);
        if (std::fabs(v) < DUST) {
            dust |= x[i] != 0;
            continue;
        }
        const HeadTail square = two_product(v, v), next = two_sum(sum.head, square.head);
        sum = {next.head, sum.tail + (next.tail + square.tail)};
    }
    sum = two_sum(sum.head, sum.tail);
    // The root of the head is less than one unit in the last place from the norm: the answer is it or its successor.
    double root = std::sqrt(sum.head);
    const HeadTail square = two_product(root, root);
    const double short_of = (sum.head - square.head) + (sum.tail - square.tail);
    const double doubt = (8.0 * double(n) * double(n) + 16) * 0x1p-105 * sum.head;
    const bool too_small = std::fabs(short_of) > doubt ? short_of > 0 : dust || exceeds(n, entry, root);
    if (too_small) root = std::nextafter(root, std::numeric_limits<double>::infinity());
    return scaled_up(root, exponent - (lift == 1 ? 0 : 600) - down);
}

}  // namespace levelprox
