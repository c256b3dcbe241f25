// Projection onto the group ball {x : sum_j omega_j |x_j|_2 <= tau}, x_j the `width` coordinates of feature j.
//
// The norms are projected onto the weighted l1 ball, and each row is shortened to its new norm:
//
//     x_j = v_j r_j / |v_j|,      r = projection of (|v_j|) onto {r : sum_j omega_j r_j <= tau}.
//
// Norms of v are rounded up, and rows end a little short of r_j, so that the norms of x, rounded up, satisfy the level
// in exact arithmetic as r does; a feasible point is returned bit for bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "algorithms/norm.hpp"
#include "algorithms/projection.hpp"

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double HUGE_ENTRY = 0x1p900;  // norms of rows of such entries may overflow
constexpr int DOWN = 200;
constexpr double NEARLY_SUBNORMAL = 1e-290;

double rounded_down(double tau, int down) {
    const double scaled = std::ldexp(tau, -down);
    return std::ldexp(scaled, down) > tau ? std::nextafter(scaled, -std::numeric_limits<double>::infinity()) : scaled;
}

template <class T>
T towards_zero(double value) {
    if constexpr (std::is_same_v<T, double>) {
        return std::fabs(value) < NEARLY_SUBNORMAL ? std::nextafter(value, 0.0) : value;
    } else {
        const T rounded = T(value);
        return std::fabs(double(rounded)) > std::fabs(value) ? std::nextafter(rounded, T(0)) : rounded;
    }
}

// The row v of 2^down times the norm `from`, shortened to at most 2^down times the norm `to` < from. Three roundings of
// EPS/2 each may lengthen it; the fourth and fifth that are taken off leave it short.
template <class T>
void shorten(std::int64_t width, const T *v, double from, double to, int down, T *x) {
    const double less = to * (1 - 2.5 * EPS), shrink = std::ldexp(1.0, -down), grow = std::ldexp(1.0, down);
    for (std::int64_t c = 0; c < width; ++c) {
        const double entry = double(v[c]), less_of_it = std::fabs(entry * shrink / from * less * grow);
        // A quotient that underflows may come back larger than it was.
        x[c] = towards_zero<T>(std::copysign(std::min(less_of_it, std::fabs(entry)), entry)) + T(0);
    }
}

}  // namespace

template <class T>
Projection project_groups(const Ball<T> &ball, double start, T *x) {
    const std::int64_t width = ball.width, features = ball.d / width;
    double largest = 0, poison = 0;
    for (std::int64_t i = 0; i < ball.d; ++i) {
        largest = std::max(largest, std::fabs(double(ball.v[i])));
        poison += double(ball.v[i]) * 0.0;
    }
    if (poison != 0) return {Projected::not_finite, 0, 1};
    const int down = largest > HUGE_ENTRY ? DOWN : 0;

    std::vector<double> norms(features), kept(features), omega;
    for (std::int64_t j = 0; j < features; ++j) norms[j] = norm_above(width, ball.v + j * width, down);
    if (ball.omega) omega.assign(ball.omega, ball.omega + features);
    Ball<double> of_norms;
    of_norms.d = features;
    of_norms.v = norms.data();
    if (ball.omega) of_norms.omega = omega.data();
    of_norms.tau = rounded_down(ball.tau, down);
    const Projection outcome = project(of_norms, std::ldexp(start, -down), kept.data());
    if (outcome.status != Projected::done) return outcome;

    for (std::int64_t j = 0; j < features; ++j) {
        const T *from = ball.v + j * width;
        T *to = x + j * width;
        if (kept[j] == norms[j]) std::copy(from, from + width, to);
        else if (kept[j] == 0) std::fill(to, to + width, T(0));
        else shorten(width, from, norms[j], kept[j], down, to);
    }
    const double multiplier = std::ldexp(outcome.multiplier, down);
    return {Projected::done, std::min(multiplier, std::numeric_limits<double>::max()), outcome.passes + 3};
}

template Projection project_groups<float>(const Ball<float> &, double, float *);
template Projection project_groups<double>(const Ball<double> &, double, double *);

}  // namespace levelprox
