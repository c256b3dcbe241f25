// log(1 + exp(-m)), m = b z, with its derivative and curvature in z: all three from one e = exp(-|m|), in [0, 1].
//
// exp and log1p are polynomials here (fitted by Chebyshev's method, errors below a tenth of the last bit), so that a
// vector of samples takes the time of one. Every operation is rounded alone: all instruction sets give the same bits.

constexpr int SAMPLES = 64;  // taken together

// 2^k for the whole number k that `shifted` = k + ROUNDER shows in its last bits, -1022 <= k <= 1023.
constexpr double ROUNDER = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
inline double power_of_two(double shifted) {
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, shifted) + 1023;
    return __builtin_bit_cast(double, bits << 52);
}

// exp(-a) for a >= 0, to one unit in the last place; NaN stays NaN.
inline double exp_of_minus(double a) {
    constexpr double PER_LN2 = 1.4426950408889634, LN2_HEAD = 0.6931471803691238, LN2_TAIL = 1.9082149292705877e-10;
    const double x = a > 746.0 ? -746.0 : -a;  // exp(-746) is 0 already
    const double k = (x * PER_LN2 + ROUNDER) - ROUNDER;
    const double r = (x - k * LN2_HEAD) - k * LN2_TAIL;
    double p = 2.510134692835034e-08;
    p = p * r + 2.7621338669142925e-07;
    p = p * r + 2.75572664186123e-06;
    p = p * r + 2.4801518641395993e-05;
    p = p * r + 0.00019841269864380513;
    p = p * r + 0.0013888888918939168;
    p = p * r + 0.008333333333329793;
    p = p * r + 0.04166666666662064;
    p = p * r + 0.16666666666666669;
    p = p * r + 0.5000000000000001;
    // In two factors: 2^k alone is beyond the normal numbers where the product is not.
    const double half = 0.5 * k + ROUNDER;
    return (1.0 + (r + r * r * p)) * power_of_two(half) * power_of_two((k - (half - ROUNDER)) + ROUNDER);
}

// log(1 + e) for 0 <= e <= 1: of (1 + e)/2 where 1 + e > sqrt 2; by log(1 + f) = f - s (f - s^2 q(s^2)), s = f / (2 +
// f).
inline double log_of_one_plus(double e) {
    constexpr double LN2_HEAD = 0.6931471803691238, LN2_TAIL = 1.9082149292705877e-10;
    const bool halved = e > 0.41421356237309503;
    const double f = halved ? 0.5 * (e - 1.0) : e;
    const double s = f / (2.0 + f), t = s * s;
    double q = 0.1462395660821188;
    q = q * t + 0.1533111258796017;
    q = q * t + 0.1818290749767122;
    q = q * t + 0.22222210881932927;
    q = q * t + 0.28571428627528794;
    q = q * t + 0.3999999999989607;
    q = q * t + 0.666666666666667;
    const double rest = s * (f - t * q);
    return halved ? LN2_HEAD + (f + (LN2_TAIL - rest)) : f - rest;
}

inline void logistic_block(const double *z, const double *b, double *value, double *derivative, double *curvature) {
    double m[SAMPLES], e[SAMPLES];
    for (int i = 0; i < SAMPLES; ++i) m[i] = b[i] * z[i];
    for (int i = 0; i < SAMPLES; ++i) e[i] = exp_of_minus(m[i] < 0 ? -m[i] : m[i]);
    if (value)
        for (int i = 0; i < SAMPLES; ++i) value[i] = log_of_one_plus(e[i]) + (m[i] < 0 ? -m[i] : 0.0);
    // -b / (1 + exp(m)); for m > 0 multiplied through by exp(-m), which keeps the tail's digits.
    if (derivative)
        for (int i = 0; i < SAMPLES; ++i) derivative[i] = -b[i] * (m[i] > 0 ? e[i] : 1.0) / (1.0 + e[i]);
    // p (1 - p) with p = 1 / (1 + e): even in m, and 1 - p is never a difference.
    if (curvature)
        for (int i = 0; i < SAMPLES; ++i) curvature[i] = e[i] / ((1.0 + e[i]) * (1.0 + e[i]));
}

// Those of value, derivative and curvature that are not null.
void logistic(std::int64_t n, const double *z, const double *b, double *value, double *derivative, double *curvature) {
    std::int64_t i = 0;
    for (; i + SAMPLES <= n; i += SAMPLES)
        logistic_block(z + i, b + i, value ? value + i : nullptr, derivative ? derivative + i : nullptr,
                       curvature ? curvature + i : nullptr);
    if (i == n) return;
    double parts[5][SAMPLES] = {};
    for (std::int64_t j = i; j < n; ++j) {
        parts[0][j - i] = z[j];
        parts[1][j - i] = b[j];
    }
    logistic_block(parts[0], parts[1], parts[2], parts[3], parts[4]);
    for (std::int64_t j = i; j < n; ++j) {
        if (value) value[j] = parts[2][j - i];
        if (derivative) derivative[j] = parts[3][j - i];
        if (curvature) curvature[j] = parts[4][j - i];
    }
}
