#include "algorithms/projection.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "algorithms/feasible.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double LARGEST_U = 1e50;                           // squares of prices stay in range; said in projection.py
constexpr double HUGE_EXTENT = 1e150, TINY_EXTENT = 1e-150;  // squares stay clear of overflow and underflow

// What |z_i| costs on the side of zero where z is.
template <class T>
double price(const Ball<T> &ball, std::int64_t i, double z) {
    const double u = ball.u ? double(ball.u[i]) : 0.0, omega = ball.omega ? double(ball.omega[i]) : 1.0;
    return omega * (1 + (z < 0 && !must_be_nonnegative(ball, i) ? -u : u));
}

template <class T>
bool signs_hold(const Ball<T> &ball) {
    if (!ball.all_nonnegative && !ball.nonnegative) return true;
    for (std::int64_t i = 0; i < ball.d; ++i)
        if (ball.v[i] < 0 && must_be_nonnegative(ball, i)) return false;
    return true;
}

// ---------------------------------------------------------------------------------------------------
// |u| <= 1: Newton on the multiplier

// The root of l(y) = tau on every hundredth cache line: near enough for two or three passes over all.
template <class T>
double multiplier_of_sample(const Ball<T> &ball) {
    constexpr std::int64_t RUN = 8, STRIDE = 100 * RUN, SMALLEST = 100 * STRIDE;
    if (ball.d < SMALLEST) return 0;
    const std::int64_t runs = ball.d / STRIDE;
    std::vector<T> v(runs * RUN), u(ball.u ? runs * RUN : 0), omega(ball.omega ? runs * RUN : 0);
    std::vector<std::uint8_t> nonnegative(ball.nonnegative ? runs * RUN : 0);
    const auto pick = [&](auto &to, const auto *from) {
        for (std::int64_t r = 0; from && r < runs; ++r)
            std::memcpy(&to[r * RUN], from + r * STRIDE, RUN * sizeof(to[0]));
    };
    pick(v, ball.v);
    pick(u, ball.u);
    pick(omega, ball.omega);
    pick(nonnegative, ball.nonnegative);
    Ball<T> sample = ball;
    sample.d = runs * RUN;
    sample.v = v.data();
    if (ball.u) sample.u = u.data();
    if (ball.omega) sample.omega = omega.data();
    if (ball.nonnegative) sample.nonnegative = nonnegative.data();
    sample.tau = ball.tau * (double(sample.d) / double(ball.d));
    double y = 0;
    for (int pass = 0; pass < 20; ++pass) {
        const Level at = simd().projection<T>().level(sample, y);
        if (!(at.square > 0)) break;
        const double next = y + (at.level - sample.tau) / at.square;
        if (!(next > y * (1 + 1e-6))) break;
        y = next;
    }
    return std::isfinite(y) ? y : 0;
}

// The level to aim at: below tau by the rounding of the products (4 eps tau) and of the subtractions
// |v| - w y (eps times the active part of sum w|v| = l(y) + y l'(y)).
double goal(double tau, double y, const Level &at) {
    return std::max(0.0, tau * (1 - 4 * EPS) - EPS * (at.level + y * at.square));
}

// Newton until y no longer increases; `at` is then l at y. With `guess`, also when quadratic convergence
// promises a next step below rounding: usually right, and the caller will see when not.
// Returns false when it takes too many passes (adversarial breakpoints): then they are sorted instead.
template <class T>
bool newton(const Ball<T> &ball, bool guess, double &y, Level &at, int &passes) {
    constexpr int MANY = 64;
    double previous_step = 0;
    for (int pass = 0; pass < MANY; ++pass) {
        if (!(at.square > 0)) {         // past the last breakpoint,
            if (pass > 0) return true;  // by rounding: every priced coordinate is at zero;
            y = 0;                      // or by a bad guess: begin again from the left
            at = simd().projection<T>().level(ball, y), ++passes;
            previous_step = 0;
        }
        const double next = std::max(0.0, y + (at.level - goal(ball.tau, y, at)) / at.square);
        const double step = next - y;
        const bool from_the_left = pass > 0;
        if (from_the_left && !(step > 0)) return true;
        y = next;
        if (step == 0) return true;
        // Quadratic convergence: the step after this one is about step (step / previous_step)^2.
        const double ratio = previous_step > 0 ? step / previous_step : 1;
        if (guess && step > 0 && step * ratio * ratio <= 0.1 * EPS * y) return true;
        previous_step = step > 0 ? step : 0;
        at = simd().projection<T>().level(ball, y), ++passes;
    }
    return false;
}

// Write x(y); raise y until the level, measured with compensated sums, clears tau for certain.
template <class T>
double write_feasible(const Ball<T> &ball, double y, const Level &at, T *x, int &passes) {
    const double safe = ball.tau * (1 - 4 * EPS);
    double level = simd().projection<T>().write(ball, y, x);
    ++passes;
    for (double factor = 2; level > safe && factor < 64; factor *= 2) {
        const double shift = at.square > 0 ? factor * (level - safe) / at.square : 0;
        y = std::max(y + shift, std::nextafter(y, std::numeric_limits<double>::infinity()));
        level = simd().projection<T>().write(ball, y, x);
        ++passes;
    }
    if (level > safe) {  // the last resort: shrink what has a price
        const double shrink = std::max(0.0, safe / level * (1 - 8 * EPS));
        for (std::int64_t i = 0; i < ball.d; ++i)
            if (x[i] != 0 && price(ball, i, x[i]) > 0) x[i] = std::nextafter(T(x[i] * shrink), T(0)) + T(0);
    }
    return y;
}

// ---------------------------------------------------------------------------------------------------

template <class T>
Projection leave_in_place(const Ball<T> &ball, T *x, int passes) {
    std::copy(ball.v, ball.v + ball.d, x);
    return {Projected::done, 0, passes};
}

// |u| <= 1 and magnitudes whose squares leave the floating-point range: project 2^k v instead (only float64 can hold
// them).
Projection project_rescaled(const Ball<double> &ball, double extent, double *x) {
    const int exponent = -std::ilogb(extent);
    std::vector<double> v(ball.d);
    for (std::int64_t i = 0; i < ball.d; ++i) {
        const double cost = price(ball, i, ball.v[i]);
        // Neither of these is in `extent`, and both might overflow: without a price (put back below), or held at zero.
        if (cost == 0 || (cost > 0 && ball.v[i] < 0 && must_be_nonnegative(ball, i))) continue;
        v[i] = std::ldexp(ball.v[i], exponent);
        if (std::fabs(std::ldexp(v[i], -exponent)) <
            std::fabs(ball.v[i]))  // inside after scaling must mean inside before
            v[i] = std::nextafter(v[i], std::copysign(HUGE_EXTENT, ball.v[i]));
    }
    Ball<double> scaled = ball;
    scaled.v = v.data();
    scaled.tau = std::ldexp(ball.tau, exponent);
    if (std::ldexp(scaled.tau, -exponent) > ball.tau)
        scaled.tau = std::nextafter(scaled.tau, -std::numeric_limits<double>::infinity());
    const Projection outcome = project(scaled, 0.0, x);
    if (outcome.status != Projected::done) return outcome;
    if (outcome.multiplier == 0 && signs_hold(ball)) return leave_in_place(ball, x, outcome.passes);
    for (std::int64_t i = 0; i < ball.d; ++i) {
        // A coordinate without a price is not moved: give back v itself, not what scaling left of it.
        if (price(ball, i, ball.v[i]) == 0) {
            x[i] = must_be_nonnegative(ball, i) ? std::max(ball.v[i], 0.0) : ball.v[i];
            continue;
        }
        // Where the way back rounds, round towards the side that costs less.
        const double cost = price(ball, i, x[i]), exact = x[i];
        x[i] = std::ldexp(exact, -exponent);
        const double rounding = std::fabs(std::ldexp(x[i], exponent)) - std::fabs(exact);
        if (cost > 0 && rounding > 0) x[i] = std::nextafter(x[i], 0.0);
        if (cost > 0 && x[i] * ball.v[i] > 0 && std::fabs(x[i]) > std::fabs(ball.v[i])) x[i] = ball.v[i];
    }
    const double multiplier = std::ldexp(outcome.multiplier, -exponent);
    return {Projected::done, std::min(multiplier, std::numeric_limits<double>::max()), outcome.passes};
}

}  // namespace

template <class T>
Projection project(const Ball<T> &ball, double start, T *x) {
    const ProjectionTable<T> &pass = simd().projection<T>();
    double y = start > 0 && std::isfinite(start) ? start : multiplier_of_sample(ball);
    const Survey seen = pass.survey(ball, y);
    int passes = 1;
    if (!seen.finite || seen.u_max > LARGEST_U) return {Projected::not_finite, 0, passes};
    if (std::isinf(ball.tau) && ball.tau > 0 && signs_hold(ball)) return leave_in_place(ball, x, passes);

    if (seen.u_max > 1) {
        if (is_feasible(ball, ball.v)) return leave_in_place(ball, x, passes);
        return project_by_breakpoints(ball, x, passes);
    }
    if constexpr (sizeof(T) == 8)
        if (seen.extent > HUGE_EXTENT || (seen.extent > 0 && seen.extent < TINY_EXTENT))
            return project_rescaled(ball, seen.extent, x);
    if (ball.tau < 0) return {Projected::infeasible, 0, passes};

    // Is v inside? The plain sum decides unless it is within its own rounding error of tau.
    const double doubt = (double(ball.d) / 8 + 16) * EPS * seen.level_0;
    bool inside = seen.level_0 + doubt <= ball.tau;
    if (!inside && seen.level_0 - doubt <= ball.tau) inside = is_feasible(ball, ball.v);
    if (inside && signs_hold(ball)) return leave_in_place(ball, x, passes);
    if (inside) {  // only signs were wrong
        pass.write(ball, 0.0, x);
        return {Projected::done, 0, passes + 1};
    }

    Level at = seen.at_y;
    if (ball.tau == 0) {
        y = pass.last_breakpoint(ball), ++passes;
    } else {
        if (!newton(ball, true, y, at, passes)) return project_by_breakpoints(ball, x, passes);
        // From the left l(y) is never below its goal, so a guess that stopped too soon shows as a level too high.
        ++passes;
        if (pass.write(ball, y, x) <= ball.tau * (1 - 4 * EPS)) return {Projected::done, y, passes};
        at = pass.level(ball, y), ++passes;
        if (!newton(ball, false, y, at, passes)) return project_by_breakpoints(ball, x, passes);
    }
    y = write_feasible(ball, y, at, x, passes);
    return {Projected::done, y, passes};
}

template Projection project<float>(const Ball<float> &, double, float *);
template Projection project<double>(const Ball<double> &, double, double *);

}  // namespace levelprox
