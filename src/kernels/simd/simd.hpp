// The loops that profit from wide vectors, one table of them per instruction set.
//
// simd.inl is compiled once per instruction set (simd_baseline.cpp, simd_avx2.cpp, simd_avx512.cpp);
// `simd()` picks the widest table this processor runs. Every loop keeps the same number of partial
// sums and uses no contraction, so all tables give the same bits.
#pragma once
#include <cstdint>
#include <string>

#include "algorithms/ball.hpp"

namespace levelprox {

template <class T>
struct DenseTable {
    // <a, b>, accumulated in float64.
    double (*dot)(std::int64_t n, const T *a, const double *b);
    // out += c a
    void (*add)(std::int64_t n, double c, const T *a, double *out);
    // The same for `count` slices of n entries that follow each other in memory, bit for bit:
    // out[s] = <slice_s, b>, and out += sum of c[s] slice_s, where a zero c[s] costs nothing and slices start every
    // `stride` entries.
    void (*dots)(std::int64_t count, std::int64_t n, const T *a, const double *b, double *out);
    void (*adds)(std::int64_t count, std::int64_t stride, std::int64_t n, const double *c, const T *a, double *out);
};

template <class T>
struct ProjectionTable {
    Survey (*survey)(const Ball<T> &, double y);
    Level (*level)(const Ball<T> &, double y);
    double (*last_breakpoint)(const Ball<T> &);
    double (*write)(const Ball<T> &, double y, T *out);
};

template <class T>
struct Tables {
    DenseTable<T> dense;
    ProjectionTable<T> projection;
};

constexpr int PANEL = 16;  // columns that a Gram matrix is computed by

struct Simd {
    const char *name;
    // out[j][k] = sum of a[i][j] b[i][k] over i < rows, in this order; all three have PANEL columns.
    void (*panel_product)(std::int64_t rows, const double *a, const double *b, double *out);
    // gradient[j] += <column_j, slope>, hessian[j m + k] += sum_i bend_i column_j[i] column_k[i] for k <= j; at most
    // 256 rows.
    void (*normal)(std::int64_t rows, std::int64_t m, const double *const *columns, const double *slope,
                   const double *bend, double *gradient, double *hessian);
    // Either by itself: out[j] += <column_j, b>, and the Hessian.
    void (*column_dots)(std::int64_t rows, std::int64_t m, const double *const *columns, const double *b, double *out);
    void (*column_gram)(std::int64_t rows, std::int64_t m, const double *const *columns, const double *bend,
                        double *hessian);
    // p_k = exp(z_k) / sum_l exp(z_l) of every sample, those of a class side by side and the next class `stride`
    // further; with its largest margin and the sum of exp(z_l - largest) over all other classes.
    void (*softmax)(std::int64_t rows, std::int64_t K, std::int64_t stride, const double *z, double *p, double *largest,
                    double *others);
    // out_k += sum_j x[j K + k] column_j for every class k.
    void (*combine)(std::int64_t rows, std::int64_t m, const double *const *columns, std::int64_t K, const double *x,
                    std::int64_t stride, double *out);
    // The logistic loss of n margins, and its derivatives; those that are not null.
    void (*logistic)(std::int64_t n, const double *z, const double *b, double *value, double *derivative,
                     double *curvature);
    // The Fenchel-Young gaps of the logistic loss at v = slope + bend * along, weighted as slope and bend are; infinite
    // outside the domain of its conjugate.
    double (*logistic_gap)(std::int64_t n, const double *b, const double *weight, double total, const double *slope,
                           const double *bend, const double *along);
    // The first block of 64 features, from the block that begins at `from`, in which some
    // (pull_j - across_j step)^2 > least (left_j - across_j^2 inverse); n where there is none.
    std::int64_t (*swap_block)(std::int64_t from, std::int64_t n, const double *pull, const double *left,
                               const double *across, double step, double inverse, double least);
    Tables<float> f32;
    Tables<double> f64;

    template <class T>
    const DenseTable<T> &dense() const {
        if constexpr (sizeof(T) == 4) return f32.dense;
        else return f64.dense;
    }
    template <class T>
    const ProjectionTable<T> &projection() const {
        if constexpr (sizeof(T) == 4) return f32.projection;
        else return f64.projection;
    }
};

extern const Simd simd_baseline, simd_avx2, simd_avx512;

const Simd &simd();                      // the table in use
void use_simd(const std::string &name);  // "baseline", "avx2", "avx512" or "auto"; throws if not available

}  // namespace levelprox
