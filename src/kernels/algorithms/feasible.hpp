// Whether a point is in {x : sum_i omega_i (|x_i| + u_i x_i) <= tau, x_i >= 0 where required}, decided without
// rounding.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/ball.hpp"
#include "algorithms/exact.hpp"

namespace levelprox {

template <class T>
bool must_be_nonnegative(const Ball<T> &ball, std::int64_t i) {
    return ball.all_nonnegative || (ball.nonnegative && ball.nonnegative[i]);
}

template <class T>
bool is_feasible(const Ball<T> &ball, const T *z) {
    constexpr double UNDERFLOWING = 1e-280;  // tails of such products are below the smallest number
    constexpr int LARGEST_EXPONENT = 900;    // of a coordinate: splitting it does not overflow
    const auto omega_of = [&](std::int64_t i) { return ball.omega ? double(ball.omega[i]) : 1.0; };
    const auto u_of = [&](std::int64_t i) { return ball.u ? double(ball.u[i]) : 0.0; };
    // Nothing costs a coordinate without a weight, at zero, or on a side without a price, however large it is.
    const auto is_free = [&](std::int64_t i) {
        return omega_of(i) == 0 || z[i] == 0 || u_of(i) == (z[i] > 0 ? -1.0 : 1.0);
    };

    double largest_z = 0, largest_price = 0;
    for (std::int64_t i = 0; i < ball.d; ++i) {
        if (z[i] < 0 && must_be_nonnegative(ball, i)) return false;
        if (is_free(i)) continue;
        largest_z = std::max(largest_z, std::fabs(double(z[i])));
        largest_price = std::max(largest_price, omega_of(i) * (1 + std::fabs(u_of(i))));
    }
    if (largest_z == 0) return ball.tau >= 0;
    // Weights and coordinates times powers of two, so that no product overflows.
    const int of_prices = -std::ilogb(largest_price), of_z = std::min(0, LARGEST_EXPONENT - std::ilogb(largest_z));
    double tau = std::ldexp(ball.tau, of_prices + of_z);
    if (std::ldexp(tau, -of_prices - of_z) != ball.tau)
        tau = std::nextafter(tau, -std::numeric_limits<double>::infinity());
    if (std::isinf(tau)) return tau > 0;

    ExactSum level;
    level.add(-tau);
    for (std::int64_t i = 0; i < ball.d; ++i) {
        if (is_free(i)) continue;
        const double zi = std::ldexp(double(z[i]), of_z), omega = std::ldexp(omega_of(i), of_prices), u = u_of(i);
        // What underflows loses its tail: count what may be lost against z.
        const double smallest = std::fabs(zi) * std::min(omega, 1.0) * (u == 0 ? 1.0 : std::min(std::fabs(u), 1.0));
        if (smallest < UNDERFLOWING) level.add(1e-320 * (1 + omega) * (1 + std::fabs(u)));
        level.add_product(std::fabs(zi), omega);
        if (u != 0) level.add_product(u, omega, zi);
    }
    return level.leading() <= 0;
}

}  // namespace levelprox
