// The two storages of design.hpp. Neither owns its arrays: they are the user's, read in place.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "algorithms/design.hpp"
#include "simd/simd.hpp"

namespace levelprox {

// 0 v = 0 for finite v only, and a sum of such products vectorises where a search would not.
template <class T>
bool all_finite(std::int64_t n, const T *v) {
    constexpr int LANES = 16;
    T sum[LANES] = {}, rest = 0;
    std::int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) sum[k] += v[i + k] * T(0);
    for (; i < n; ++i) rest += v[i] * T(0);
    for (int k = 0; k < LANES; ++k) rest += sum[k];
    return rest == 0;
}

// Counts NaNs and infinities; `place` is the position of the first in v, `slice` is left to the caller.
template <class T>
Nonfinite find_nonfinite(std::int64_t n, const T *v) {
    constexpr std::int64_t BLOCK = 4096;
    Nonfinite found;
    for (std::int64_t start = 0; start < n; start += BLOCK) {
        const std::int64_t end = std::min(start + BLOCK, n);
        if (all_finite(end - start, v + start)) continue;
        for (std::int64_t i = start; i < end; ++i) {
            if (std::isfinite(v[i])) continue;
            if (found.count++ == 0) {
                found.place = i;
                found.value = double(v[i]);
            }
        }
    }
    return found;
}

template <class T>
class DenseSlices final : public Slices {
public:
    DenseSlices(const T *data, std::int64_t count, std::int64_t length) : data(data) {
        this->count = count;
        this->length = length;
        divisible = true;
    }

    const T *data;
    using Slices::add;

    void dot(std::int64_t begin, std::int64_t end, const double *in, double *out) const override {
        simd().dense<T>().dots(end - begin, length, slice(begin), in, out);
    }

    void add(std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to, const double *coefficient,
             double *out) const override {
        simd().dense<T>().adds(end - begin, length, to - from, coefficient, slice(begin) + from, out);
    }

    void add_marking(std::int64_t s, double coefficient, double *out, Touched &touched) const override {
        if (coefficient == 0) return;
        simd().dense<T>().adds(1, length, length, &coefficient, slice(s), out);
        for (std::int64_t i = 0; i < length; ++i) touched.add(i);
    }

    void dot_squares(std::int64_t begin, std::int64_t end, const double *in, double *out) const override {
        constexpr int LANES = 8;
        for (std::int64_t s = begin; s < end; ++s) {
            const T *a = slice(s);
            double sum[LANES] = {}, rest = 0;
            std::int64_t i = 0;
            for (; i + LANES <= length; i += LANES)
                for (int k = 0; k < LANES; ++k) sum[k] += square(a[i + k]) * in[i + k];
            for (; i < length; ++i) rest += square(a[i]) * in[i];
            for (int half = LANES / 2; half; half /= 2)
                for (int k = 0; k < half; ++k) sum[k] += sum[k + half];
            out[s - begin] = sum[0] + rest;
        }
    }

    void add_squares(std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to,
                     const double *coefficient, double *out) const override {
        for (std::int64_t s = begin; s < end; ++s) {
            const double c = coefficient[s - begin];
            const T *a = slice(s) + from;
            if (c == 0) continue;
            for (std::int64_t i = 0; i < to - from; ++i) out[i] += c * square(a[i]);
        }
    }

    std::int64_t stored(std::int64_t begin, std::int64_t end) const override { return (end - begin) * length; }
    std::int64_t bytes() const override { return count * length * std::int64_t(sizeof(T)); }

    Nonfinite nonfinite(std::int64_t begin, std::int64_t end) const override {
        Nonfinite found = find_nonfinite(stored(begin, end), slice(begin));
        if (found.count) {
            found.slice = begin + found.place / length;
            found.place %= length;
        }
        return found;
    }

private:
    const T *slice(std::int64_t s) const { return data + s * length; }
    static double square(T v) { return double(v) * double(v); }
};

// Slice s holds data[p] at indices[p] for indptr[s] <= p < indptr[s + 1], in any order.
template <class T, class I>
class SparseSlices final : public Slices {
public:
    SparseSlices(const T *data, const I *indices, const std::int64_t *indptr, std::int64_t count, std::int64_t length)
        : data(data), indices(indices), indptr(indptr) {
        this->count = count;
        this->length = length;
    }

    const T *data;
    const I *indices;
    const std::int64_t *indptr;
    using Slices::add;

    void dot(std::int64_t begin, std::int64_t end, const double *in, double *out) const override {
        for (std::int64_t s = begin; s < end; ++s) out[s - begin] = gather(s, in, [](T v) { return double(v); });
    }

    void add(std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t, const double *coefficient,
             double *out) const override {
        scatter(begin, end, coefficient, out, [](T v) { return double(v); });
    }

    void prefetch(std::int64_t s) const override {
        constexpr std::int64_t LINE = 64;
        for (std::int64_t p = indptr[s]; p < indptr[s + 1]; p += LINE / sizeof(T)) __builtin_prefetch(data + p);
        for (std::int64_t p = indptr[s]; p < indptr[s + 1]; p += LINE / sizeof(I)) __builtin_prefetch(indices + p);
    }

    void add_marking(std::int64_t s, double coefficient, double *out, Touched &touched) const override {
        if (coefficient == 0) return;
        for (std::int64_t p = indptr[s]; p < indptr[s + 1]; ++p) {
            const std::int64_t i = indices[p];
            out[i] += coefficient * double(data[p]);
            touched.add(i);
        }
    }

    void dot_squares(std::int64_t begin, std::int64_t end, const double *in, double *out) const override {
        for (std::int64_t s = begin; s < end; ++s)
            out[s - begin] = gather(s, in, [](T v) { return double(v) * double(v); });
    }

    void add_squares(std::int64_t begin, std::int64_t end, std::int64_t, std::int64_t, const double *coefficient,
                     double *out) const override {
        scatter(begin, end, coefficient, out, [](T v) { return double(v) * double(v); });
    }

    std::int64_t stored(std::int64_t begin, std::int64_t end) const override { return indptr[end] - indptr[begin]; }
    std::int64_t bytes() const override { return indptr[count] * std::int64_t(sizeof(T) + sizeof(I)); }

    Nonfinite nonfinite(std::int64_t begin, std::int64_t end) const override {
        Nonfinite found = find_nonfinite(stored(begin, end), data + indptr[begin]);
        if (found.count) {
            const std::int64_t p = indptr[begin] + found.place;
            found.slice = std::upper_bound(indptr + begin, indptr + end, p) - indptr - 1;
            found.place = indices[p];
        }
        return found;
    }

private:
    // Four partial sums, or each addition would wait for the one before it.
    template <class Of>
    double gather(std::int64_t s, const double *in, Of of) const {
        double sum[4] = {}, rest = 0;
        std::int64_t p = indptr[s];
        const std::int64_t end = indptr[s + 1];
        for (; p + 4 <= end; p += 4)
            for (int k = 0; k < 4; ++k) sum[k] += of(data[p + k]) * in[indices[p + k]];
        for (; p < end; ++p) rest += of(data[p]) * in[indices[p]];
        return ((sum[0] + sum[2]) + (sum[1] + sum[3])) + rest;
    }

    template <class Of>
    void scatter(std::int64_t begin, std::int64_t end, const double *coefficient, double *out, Of of) const {
        for (std::int64_t s = begin; s < end; ++s) {
            const double c = coefficient[s - begin];
            if (c == 0) continue;
            for (std::int64_t p = indptr[s]; p < indptr[s + 1]; ++p) out[indices[p]] += c * of(data[p]);
        }
    }
};

}  // namespace levelprox
