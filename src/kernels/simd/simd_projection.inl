// The passes of the projection (projection.hpp): each reads v and u once, branch-free, and nothing is
// compacted. A coordinate enters as a = |v|, the distance it may be pulled towards zero, and
// w = omega (1 + sign(v) u) >= 0, the price of |x|; it ends at x = sign(v) [a - w y]_+.

template <class T, bool HasU, bool HasOmega, Sign S>
struct Coordinates {
    const T *v, *u, *omega;
    const std::uint8_t *nonnegative;

    [[gnu::always_inline]] inline void load(std::int64_t i, double &a, double &w) const {
        const double vi = double(v[i]);
        const double magnitude = __builtin_fabs(vi), positive = vi > 0 ? vi : 0.0;
        const double ui = HasU ? double(u[i]) : 0.0;
        const double signed_u = __builtin_copysign(1.0, vi) * ui;
        if constexpr (S == Sign::free) {
            a = magnitude;
            w = 1 + signed_u;
        } else if constexpr (S == Sign::nonnegative) {
            a = positive;
            w = 1 + ui;
        } else {
            a = nonnegative[i] ? positive : magnitude;
            w = 1 + (nonnegative[i] ? ui : signed_u);
        }
        if constexpr (HasOmega) w *= double(omega[i]);
    }
};

// Sum the lanes pairwise: the same tree on every instruction set.
inline double gather(double *lane) {
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; ++k) lane[k] += lane[k + half];
    return lane[0];
}

inline double largest(double *lane) {
    double top = lane[0];
    for (int k = 1; k < LANES; ++k) top = lane[k] > top ? lane[k] : top;
    return top;
}

// w where x > 0, else 0: a mask, because GCC turns the conditional expression into branches.
[[gnu::always_inline]] inline double keep_if_positive(double x, double w) {
    const std::int64_t mask = -std::int64_t(x > 0);
    return __builtin_bit_cast(double, __builtin_bit_cast(std::int64_t, w) & mask);
}

// Calls body(i, lane) for every coordinate, LANES at a time.
template <class F>
[[gnu::always_inline]] inline void for_lanes(std::int64_t n, F &&body) {
    std::int64_t block = 0;
    for (; block + LANES <= n; block += LANES) {
#pragma GCC ivdep
        for (int k = 0; k < LANES; ++k) body(block + k, k);
    }
    for (int k = 0; block + k < n; ++k) body(block + k, k);
}

// One pass over all coordinates: l(0), l(y) with its slope, and what decides which method applies.
template <class T, bool HasU, bool HasOmega, Sign S>
Survey survey_pass(std::int64_t d, Coordinates<T, HasU, HasOmega, S> at, double y) {
    double level_0[LANES] = {}, level[LANES] = {}, square[LANES] = {}, extent[LANES] = {}, u_max[LANES] = {},
           poison[LANES] = {};
    for_lanes(d, [&](std::int64_t i, int k) __attribute__((always_inline)) {
        double a, w;
        at.load(i, a, w);
        const double x = a - w * y, price = keep_if_positive(x, w);
        level_0[k] += w * a;
        level[k] += price * x;
        square[k] += price * price;
        const double size_v = w > 0 ? a : w < 0 ? __builtin_fabs(double(at.v[i])) : 0.0;
        extent[k] = size_v > extent[k] ? size_v : extent[k];
        poison[k] += double(at.v[i]) * 0.0;  // NaN once anything is not finite
        if constexpr (HasU) {
            const double size = __builtin_fabs(double(at.u[i]));
            u_max[k] = size > u_max[k] ? size : u_max[k];
            poison[k] += double(at.u[i]) * 0.0;
        }
    });
    return {gather(level_0), {gather(level), gather(square)}, largest(extent), largest(u_max), gather(poison) == 0.0};
}

// l(y) = sum w [a - w y]_+ and the sum of w^2 over the active coordinates, -l'(y).
template <class T, bool HasU, bool HasOmega, Sign S>
Level level_pass(std::int64_t d, Coordinates<T, HasU, HasOmega, S> at, double y) {
    double level[LANES] = {}, square[LANES] = {};
    for_lanes(d, [&](std::int64_t i, int k) __attribute__((always_inline)) {
        double a, w;
        at.load(i, a, w);
        const double x = a - w * y, price = keep_if_positive(x, w);
        level[k] += price * x;
        square[k] += price * price;
    });
    return {gather(level), gather(square)};
}

// The largest breakpoint, where the last coordinate with a price reaches zero.
template <class T, bool HasU, bool HasOmega, Sign S>
double last_breakpoint_pass(std::int64_t d, Coordinates<T, HasU, HasOmega, S> at) {
    double top[LANES] = {};
    for_lanes(d, [&](std::int64_t i, int k) __attribute__((always_inline)) {
        double a, w;
        at.load(i, a, w);
        const double ratio = w > 0 ? a / w : 0.0;
        top[k] = ratio > top[k] ? ratio : top[k];
    });
    return largest(top);
}

// x(y), rounded towards zero to T so that rounding never adds to the level, and its level with
// compensated sums (TwoSum per lane).
template <class T, bool HasU, bool HasOmega, Sign S>
double write_pass(std::int64_t d, Coordinates<T, HasU, HasOmega, S> at, double y, T *out) {
    double sum[LANES] = {}, lost[LANES] = {};
    for_lanes(d, [&](std::int64_t i, int k) __attribute__((always_inline)) {
        double a, w;
        at.load(i, a, w);
        const double x = a - w * y, kept = x > 0 ? x : 0.0;
        T rounded = T(kept);
        if constexpr (sizeof(T) == 4) {
            const float nearest = float(kept);
            std::uint32_t bits = __builtin_bit_cast(std::uint32_t, nearest);
            bits -= double(nearest) > kept ? 1u : 0u;
            rounded = __builtin_bit_cast(float, bits);
        }
        out[i] = (at.v[i] < 0 ? -rounded : rounded) + T(0);  // + 0: no negative zeros
        const double term = w * double(rounded);
        const double next = sum[k] + term, back = next - sum[k];
        lost[k] += (sum[k] - (next - back)) + (term - back);
        sum[k] = next;
    });
    double total = 0, rest = 0;
    for (int k = 0; k < LANES; ++k) {
        const double next = total + sum[k], back = next - total;
        rest += (total - (next - back)) + (sum[k] - back) + lost[k];
        total = next;
    }
    return total + rest;
}

// From run-time flags to the twelve compiled variants of each pass.
template <class T, class F>
auto with_coordinates(const Ball<T> &ball, F &&pass) {
    const auto by_sign = [&]<bool HasU, bool HasOmega>() {
        if (ball.nonnegative)
            return pass(Coordinates<T, HasU, HasOmega, Sign::mixed>{ball.v, ball.u, ball.omega, ball.nonnegative});
        if (ball.all_nonnegative)
            return pass(Coordinates<T, HasU, HasOmega, Sign::nonnegative>{ball.v, ball.u, ball.omega, nullptr});
        return pass(Coordinates<T, HasU, HasOmega, Sign::free>{ball.v, ball.u, ball.omega, nullptr});
    };
    if (ball.u)
        return ball.omega ? by_sign.template operator()<true, true>() : by_sign.template operator()<true, false>();
    return ball.omega ? by_sign.template operator()<false, true>() : by_sign.template operator()<false, false>();
}

template <class T>
Survey survey(const Ball<T> &ball, double y) {
    return with_coordinates(ball, [&](auto at) { return survey_pass(ball.d, at, y); });
}
template <class T>
Level level(const Ball<T> &ball, double y) {
    return with_coordinates(ball, [&](auto at) { return level_pass(ball.d, at, y); });
}
template <class T>
double last_breakpoint(const Ball<T> &ball) {
    return with_coordinates(ball, [&](auto at) { return last_breakpoint_pass(ball.d, at); });
}
template <class T>
double write(const Ball<T> &ball, double y, T *out) {
    return with_coordinates(ball, [&](auto at) { return write_pass(ball.d, at, y, out); });
}
