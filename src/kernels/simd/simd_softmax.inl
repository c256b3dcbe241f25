// Samples with K margins each, those of a class side by side: softmax, and products with a few columns.
//
// Every entry is computed by itself, or summed over the columns in their order: neither the instruction set nor the
// grouping shows in the bits.

// p_k = exp(z_k) / sum_l exp(z_l) for `count` <= SAMPLES samples; class k begins at k * stride. Only differences to the
// largest margin are raised to powers. `others` is the sum of the powers besides that of the (first) largest margin.
inline void softmax_block(int count, std::int64_t K, std::int64_t stride, const double *z, double *p, double *largest,
                          double *others) {
    double top[SAMPLES];
    for (int i = 0; i < count; ++i) {
        largest[i] = z[i];
        top[i] = 0;
        others[i] = 0;
    }
    for (std::int64_t k = 1; k < K; ++k)
        for (int i = 0; i < count; ++i) {
            const double margin = z[k * stride + i];
            const bool more = margin > largest[i];
            largest[i] = more ? margin : largest[i];
            top[i] = more ? double(k) : top[i];
        }
    for (std::int64_t k = 0; k < K; ++k)
        for (int i = 0; i < count; ++i) {
            const double margin = z[k * stride + i];
            const double power = exp_of_minus(margin == largest[i] ? 0.0 : largest[i] - margin);
            p[k * stride + i] = power;
            others[i] += top[i] == double(k) ? 0.0 : power;
        }
    for (std::int64_t k = 0; k < K; ++k)
        for (int i = 0; i < count; ++i) p[k * stride + i] /= 1.0 + others[i];
}

void softmax_rows(std::int64_t rows, std::int64_t K, std::int64_t stride, const double *z, double *p, double *largest,
                  double *others) {
    for (std::int64_t i = 0; i < rows; i += SAMPLES) {
        const int count = int(rows - i < SAMPLES ? rows - i : SAMPLES);
        softmax_block(count, K, stride, z + i, p + i, largest + i, others + i);
    }
}

// out_k += sum_j x[j K + k] column_j for CLASSES classes.
template <int CLASSES>
inline void combine_classes(std::int64_t rows, std::int64_t m, const double *const *columns, std::int64_t K,
                            const double *x, std::int64_t stride, double *out) {
    constexpr int VECTORS = 2;
    std::int64_t i = 0;
    for (; i + VECTORS * WIDE <= rows; i += VECTORS * WIDE) {
        Wide sum[CLASSES][VECTORS];
        for (int t = 0; t < CLASSES; ++t)
            for (int v = 0; v < VECTORS; ++v) sum[t][v] = *(const WideAnywhere *)(out + t * stride + i + v * WIDE);
        for (std::int64_t j = 0; j < m; ++j) {
            Wide column[VECTORS];
            for (int v = 0; v < VECTORS; ++v) column[v] = *(const WideAnywhere *)(columns[j] + i + v * WIDE);
            for (int t = 0; t < CLASSES; ++t)
                for (int v = 0; v < VECTORS; ++v) sum[t][v] += x[j * K + t] * column[v];
        }
        for (int t = 0; t < CLASSES; ++t)
            for (int v = 0; v < VECTORS; ++v) *(WideAnywhere *)(out + t * stride + i + v * WIDE) = sum[t][v];
    }
    for (; i < rows; ++i)
        for (int t = 0; t < CLASSES; ++t) {
            double sum = out[t * stride + i];
            for (std::int64_t j = 0; j < m; ++j) sum += x[j * K + t] * columns[j][i];
            out[t * stride + i] = sum;
        }
}

void combine(std::int64_t rows, std::int64_t m, const double *const *columns, std::int64_t K, const double *x,
             std::int64_t stride, double *out) {
    std::int64_t k = 0;
    for (; k + 4 <= K; k += 4) combine_classes<4>(rows, m, columns, K, x + k, stride, out + k * stride);
    for (; k < K; ++k) combine_classes<1>(rows, m, columns, K, x + k, stride, out + k * stride);
}
