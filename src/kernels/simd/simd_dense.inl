// Dense slices: the two moves of design.hpp, for one slice and for many that follow each other.
//
// A slice's sum is a function of its entries alone: LANES partial sums over its full blocks,
// four over what is left, added in a fixed tree. So neither the instruction set nor the
// grouping of slices below shows in the bits. The inner loops of fixed length are what the compiler
// turns into vector registers.

// Slices taken together share their visit to in[] or out[]. That pays for long ones, and for ones so
// short that the loop is most of the cost; in between, a single stream suits the prefetcher better.
constexpr int GROUP = 4;
template <class T>
constexpr std::int64_t DOT_LONG = 16000 / sizeof(T);
template <class T>
constexpr std::int64_t ADD_LONG = 8000 / sizeof(T);
constexpr std::int64_t ADD_SHORT = 16;

template <class T>
inline double short_dot(std::int64_t n, const T *a, const double *b) {
    double sum[4] = {}, rest = 0;
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; ++k) sum[k] += double(a[i + k]) * b[i + k];
    for (; i < n; ++i) rest += double(a[i]) * b[i];
    return ((sum[0] + sum[2]) + (sum[1] + sum[3])) + rest;
}

inline double tree(double *sum) {
    for (int k = 0; k < 8; ++k) sum[k] += sum[k + 8];
    for (int k = 0; k < 4; ++k) sum[k] += sum[k + 4];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
static_assert(LANES == 16);

template <class T>
inline double dense_dot(std::int64_t n, const T *a, const double *b) {
    if (n < LANES) return short_dot(n, a, b);
    double sum[LANES] = {};
    std::int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) sum[k] += double(a[i + k]) * b[i + k];
    return tree(sum) + short_dot(n - i, a + i, b + i);
}

template <class T>
inline void dense_add(std::int64_t n, double c, const T *a, double *out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] += c * double(a[i]);
}

// out[s] = <slice_s, b>
template <class T>
void dense_dots(std::int64_t count, std::int64_t n, const T *a, const double *b, double *out) {
    std::int64_t s = 0;
    for (; n >= DOT_LONG<T> && s + GROUP <= count; s += GROUP) {
        const T *slice = a + s * n;
        double sum[GROUP][LANES] = {};
        std::int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (int g = 0; g < GROUP; ++g)
                for (int k = 0; k < LANES; ++k) sum[g][k] += double(slice[g * n + i + k]) * b[i + k];
        for (int g = 0; g < GROUP; ++g) out[s + g] = tree(sum[g]) + short_dot(n - i, slice + g * n + i, b + i);
    }
    for (; s < count; ++s) out[s] = dense_dot(n, a + s * n, b);
}

template <class T>
inline void add_in_order(std::int64_t count, std::int64_t stride, std::int64_t n, const double *c, const T *a,
                         double *out) {
    const bool grouped = n <= ADD_SHORT || n >= ADD_LONG<T>;
    const T *slice[GROUP];
    double by[GROUP];
    int held = 0;
    for (std::int64_t s = 0; s < count; ++s) {
        if (c[s] == 0) continue;
        slice[held] = a + s * stride;
        by[held++] = c[s];
        if (grouped && held < GROUP) continue;
        if (held == GROUP) {
            const T *a0 = slice[0], *a1 = slice[1], *a2 = slice[2], *a3 = slice[3];
            const double c0 = by[0], c1 = by[1], c2 = by[2], c3 = by[3];
            for (std::int64_t i = 0; i < n; ++i)
                out[i] =
                    (((out[i] + c0 * double(a0[i])) + c1 * double(a1[i])) + c2 * double(a2[i])) + c3 * double(a3[i]);
        } else {
            dense_add(n, by[0], slice[0], out);
        }
        held = 0;
    }
    for (int h = 0; h < held; ++h) dense_add(n, by[h], slice[h], out);
}

// out += sum of c[s] slice_s, in the order of s for every entry. A short out[] is read back as soon as
// it is written, which stalls wherever a vector straddles cache lines: hence an aligned stand-in.
template <class T>
void dense_adds(std::int64_t count, std::int64_t stride, std::int64_t n, const double *c, const T *a, double *out) {
    constexpr std::int64_t NEAR = 1024;
    if (n > NEAR || count < 2 * GROUP) return add_in_order(count, stride, n, c, a, out);
    alignas(64) double near[NEAR];
    for (std::int64_t i = 0; i < n; ++i) near[i] = out[i];
    add_in_order(count, stride, n, c, a, near);
    for (std::int64_t i = 0; i < n; ++i) out[i] = near[i];
}
