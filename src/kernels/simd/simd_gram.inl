// Tiles of a Gram matrix: products of two panels of PANEL columns, which are packed row after row.
//
// Every entry is one sum over the rows in their order, a product and an addition each: no width of vectors, no
// size of tiles shows in the bits. The sizes only keep the sums in registers.

#if defined(__AVX512F__)
constexpr int WIDE = 8, TILE_ROWS = 8, TILE_VECTORS = 2;
#elif defined(__AVX2__)
constexpr int WIDE = 4, TILE_ROWS = 4, TILE_VECTORS = 2;
#else
constexpr int WIDE = 2, TILE_ROWS = 2, TILE_VECTORS = 2;
#endif
typedef double Wide __attribute__((vector_size(WIDE * sizeof(double))));
// The same, wherever it lies.
typedef double WideAnywhere __attribute__((vector_size(WIDE * sizeof(double)), aligned(sizeof(double)), may_alias));

// out[j][k] = sum of a[i][j] b[i][k] over i < rows
void panel_product(std::int64_t rows, const double *a, const double *b, double *out) {
    for (int j = 0; j < PANEL; j += TILE_ROWS) {
        for (int k = 0; k < PANEL; k += TILE_VECTORS * WIDE) {
            Wide sum[TILE_ROWS][TILE_VECTORS] = {};
            for (std::int64_t i = 0; i < rows; ++i) {
                Wide right[TILE_VECTORS];
                for (int v = 0; v < TILE_VECTORS; ++v) right[v] = *(const WideAnywhere *)(b + i * PANEL + k + v * WIDE);
                for (int t = 0; t < TILE_ROWS; ++t)
                    for (int v = 0; v < TILE_VECTORS; ++v) sum[t][v] += a[i * PANEL + j + t] * right[v];
            }
            for (int t = 0; t < TILE_ROWS; ++t)
                for (int v = 0; v < TILE_VECTORS; ++v)
                    *(WideAnywhere *)(out + (j + t) * PANEL + k + v * WIDE) = sum[t][v];
        }
    }
}
