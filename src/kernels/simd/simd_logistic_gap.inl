// Fenchel-Young gaps of the logistic loss: l(z) + l*(v) - v z at v = l'(z) + l''(z) move.

// (1 + t) log(1 + t) - t for t >= -1: near 0 by its series, else by log(y) = k log 2 + log(1 + f), 1 + f in
// [1/sqrt 2, sqrt 2].
inline double entropy_of(double t) {
    constexpr double LN2_HEAD = 0.6931471803691238, LN2_TAIL = 1.9082149292705877e-10;
    const double y = 1.0 + t, small = t * t * (0.5 - t * (1.0 / 6 - t * (1.0 / 12 - t * (1.0 / 20 - t / 30))));
    // y = 2^k m with m in [1, 2): k in the bits of a number whose last place is 1.
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, y);
    const double m = __builtin_bit_cast(double, (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
    const bool halved = m > 1.4142135623730951;
    const double exponent = __builtin_bit_cast(double, (bits >> 52) | 0x4330000000000000ULL) - (0x1p52 + 1023.0);
    const double k = halved ? exponent + 1.0 : exponent;
    const double f = (halved ? 0.5 * m : m) - 1.0, s = f / (2.0 + f), u = s * s;
    double q = 0.1462395660821188;
    q = q * u + 0.1533111258796017;
    q = q * u + 0.1818290749767122;
    q = q * u + 0.22222210881932927;
    q = q * u + 0.28571428627528794;
    q = q * u + 0.3999999999989607;
    q = q * u + 0.666666666666667;
    const double log_of_y = k * LN2_HEAD + ((f - s * (f - u * q)) + k * LN2_TAIL);
    const double large = y > 0.0 ? y * log_of_y - (y - 1.0) : 1.0;
    return t < 1e-3 && t > -1e-3 ? small : large;
}

// The gaps of n samples, summed; infinite where some v is not in the domain of the conjugate. Weights are all 1 where
// there are none, and divided by `total`; slope and bend are as they enter the mean. Samples without curvature do not
// count.
double logistic_gap(std::int64_t n, const double *b, const double *weight, double total, const double *slope,
                    const double *bend, const double *along) {
    double sums[LANES] = {}, outside[LANES] = {};
    for (std::int64_t i = 0; i < n; i += LANES) {
        const std::int64_t count = n - i < LANES ? n - i : LANES;
        double own[5][LANES] = {};  // target, weight, slope, curvature, move
        for (std::int64_t k = 0; k < count; ++k) {
            own[0][k] = b[i + k];
            own[1][k] = weight ? weight[i + k] : 1.0;
            own[2][k] = slope[i + k];
            own[3][k] = bend[i + k];
            own[4][k] = along[i + k];
        }
        double w[LANES], u[LANES], rest[LANES], first[LANES], second[LANES];
        for (int k = 0; k < LANES; ++k) {
            w[k] = own[3][k] > 0.0 ? own[1][k] / total : 0.0;
            const double share = w[k] > 0.0 ? w[k] : 1.0;
            const double steep = (own[2][k] < 0.0 ? -own[2][k] : own[2][k]) / share, bent = own[3][k] / share;
            u[k] = steep < 1.0 ? steep : 1.0;
            const double of_rest = bent / (u[k] > 0.5 ? u[k] : 1.0);
            rest[k] = u[k] > 0.5 ? of_rest : 1.0 - u[k];
            first[k] = -rest[k] * own[0][k] * own[4][k];
            second[k] = u[k] * own[0][k] * own[4][k];
        }
        for (int k = 0; k < LANES; ++k) rest[k] *= entropy_of(second[k]);
        for (int k = 0; k < LANES; ++k) u[k] *= entropy_of(first[k]);
        for (int k = 0; k < LANES; ++k) {
            const double least = first[k] < second[k] ? first[k] : second[k];
            const double beyond = least >= -1.0 ? 0.0 : w[k];
            const double gap = w[k] * (u[k] + rest[k]);
            sums[k] += w[k] > 0.0 ? gap : 0.0;
            outside[k] += beyond;
        }
    }
    double sum = 0, beyond = 0;
    for (int k = 0; k < LANES; ++k) {
        sum += sums[k];
        beyond += outside[k];
    }
    return beyond > 0 ? __builtin_inf() : sum;
}
