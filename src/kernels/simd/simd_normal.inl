// The normal equations of a few columns, a block of rows at a time: every dot product has LANES partial sums, added in
// a fixed tree, so that neither the instruction set nor the grouping below shows in the bits.

constexpr std::int64_t NORMAL_ROWS = 256;
#if defined(__AVX512F__)
constexpr int TOGETHER = 4;  // columns that share their visit to another one; as many as registers hold the sums of
#else
constexpr int TOGETHER = 2;
#endif

// out[g] += <columns[g], b> for TOGETHER columns of n entries.
inline void dots_together(std::int64_t n, const double *const *columns, const double *b, double *out) {
    constexpr int VECTORS = LANES / WIDE;
    const std::int64_t whole = n / LANES * LANES;
    Wide sum[TOGETHER][VECTORS] = {};
    for (std::int64_t i = 0; i < whole; i += LANES)
        for (int v = 0; v < VECTORS; ++v) {
            const Wide right = *(const WideAnywhere *)(b + i + v * WIDE);
            for (int g = 0; g < TOGETHER; ++g) sum[g][v] += *(const WideAnywhere *)(columns[g] + i + v * WIDE) * right;
        }
    for (int g = 0; g < TOGETHER; ++g) {
        double lanes[LANES];
        for (int v = 0; v < VECTORS; ++v) *(WideAnywhere *)(lanes + v * WIDE) = sum[g][v];
        out[g] += tree(lanes) + short_dot(n - whole, columns[g] + whole, b + whole);
    }
}

// The same for one column, bit for bit.
inline double whole_and_rest(std::int64_t n, const double *column, const double *b) {
    double lanes[LANES] = {};
    std::int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l) lanes[l] += column[i + l] * b[i + l];
    return tree(lanes) + short_dot(n - i, column + i, b + i);
}

// out[j] += <column_j, b>.
void column_dots(std::int64_t rows, std::int64_t m, const double *const *columns, const double *b, double *out) {
    std::int64_t j = 0;
    for (; j + TOGETHER <= m; j += TOGETHER) dots_together(rows, columns + j, b, out + j);
    for (; j < m; ++j) out[j] += whole_and_rest(rows, columns[j], b);
}

// hessian[j m + k] += sum_i bend_i column_j[i] column_k[i] for k <= j. At most NORMAL_ROWS rows.
void column_gram(std::int64_t rows, std::int64_t m, const double *const *columns, const double *bend, double *hessian) {
    double bent[NORMAL_ROWS];
    for (std::int64_t j = 0; j < m; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) bent[i] = bend[i] * columns[j][i];
        column_dots(rows, j + 1, columns, bent, hessian + j * m);
    }
}

// Both of them: gradient[j] += <column_j, slope>, and the Hessian.
void normal(std::int64_t rows, std::int64_t m, const double *const *columns, const double *slope, const double *bend,
            double *gradient, double *hessian) {
    column_dots(rows, m, columns, slope, gradient);
    column_gram(rows, m, columns, bend, hessian);
}
