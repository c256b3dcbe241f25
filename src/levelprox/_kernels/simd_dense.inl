// Dense slices: the two moves of design.hpp.

template <class T>
double dense_dot(std::int64_t n, const T *a, const double *b) {
    double sum[LANES] = {};
    std::int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) sum[k] += double(a[i + k]) * b[i + k];
    for (int k = 0; i + k < n; ++k) sum[k] += double(a[i + k]) * b[i + k];
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; ++k) sum[k] += sum[k + half];
    return sum[0];
}

template <class T>
void dense_add(std::int64_t n, double c, const T *a, double *out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] += c * double(a[i]);
}
