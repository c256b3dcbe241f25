#include "algorithms/class_samples.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "algorithms/exact.hpp"
#include "algorithms/multinomial.hpp"
#include "algorithms/threads.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

ColumnPointers from(const ColumnPointers &columns, std::int64_t begin) {
    ColumnPointers part(columns.size());
    for (std::size_t j = 0; j < columns.size(); ++j) part[j] = columns[j] + begin;
    return part;
}

// (K, m) -> (m, K)
std::vector<double> by_feature(std::size_t m, std::size_t K, const std::vector<double> &by_class) {
    std::vector<double> out(m * K);
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < K; ++k) out[j * K + k] = by_class[k * m + j];
    return out;
}

// A block of K x K numbers from those of its pairs of classes; rows begin every `stride` numbers.
void fill_block(std::size_t K, const double *pair, std::size_t step, double *block, std::size_t stride) {
    for (std::size_t a = 0; a < K; ++a) block[a * stride + a] = 0;
    for (std::size_t a = 0, q = 0; a < K; ++a)
        for (std::size_t b = a + 1; b < K; ++b, ++q) {
            const double value = pair[q * step];
            block[a * stride + b] = block[b * stride + a] = -value;
            block[a * stride + a] += value;
            block[b * stride + b] += value;
        }
}

}  // namespace

ClassSamples::ClassSamples(std::int64_t n, std::int64_t classes, const std::int64_t *label, const double *weight,
                           const double *offset)
    : n_(n), K_(classes), label_(label), share_(std::size_t(n)), origin_(std::size_t(n * classes)) {
    const std::int64_t least = std::max(CHUNK, (n + MOST_CHUNKS - 1) / MOST_CHUNKS);
    chunk_rows_ = (least + BLOCK - 1) / BLOCK * BLOCK;
    const double total = sum_of(n, weight);
    for (std::int64_t i = 0; i < n; ++i) {
        share_[std::size_t(i)] = (weight ? weight[i] : 1.0) / total;
        for (std::int64_t k = 0; offset && k < K_; ++k) origin_[std::size_t(k * n + i)] = offset[i * K_ + k];
    }
}

template <class Body>
void ClassSamples::in_blocks(std::int64_t work, Poll &poll, const Body &body) const {
    const std::int64_t count = chunks();
    const std::int64_t step = std::max(BLOCK, ROUND / std::max<std::int64_t>(count * work, 1) / BLOCK * BLOCK);
    for (std::int64_t done = 0; done < std::min(chunk_rows_, n_); done += step) {
        poll.check();
        parallel_for(count, std::min(n_, count * step) * work / 4, [&](std::int64_t c) {
            const std::int64_t end = std::min(n_, c * chunk_rows_ + std::min(chunk_rows_, done + step));
            for (std::int64_t begin = c * chunk_rows_ + done; begin < end; begin += BLOCK)
                body(c, begin, std::min(end, begin + BLOCK));
        });
    }
    poll.check();
}

template <class Body>
std::vector<double> ClassSamples::summed(std::int64_t slots, std::int64_t work, Poll &poll, const Body &body) const {
    std::vector<double> sums(std::size_t(slots * std::max<std::int64_t>(chunks(), 1)));
    in_blocks(work, poll, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
        body(begin, end, sums.data() + chunk * slots);
    });
    for (std::int64_t c = 1; c < chunks(); ++c)
        for (std::int64_t q = 0; q < slots; ++q) sums[std::size_t(q)] += sums[std::size_t(c * slots + q)];
    sums.resize(std::size_t(slots));
    return sums;
}

void ClassSamples::move(const ColumnPointers &columns, const std::vector<double> &x, std::vector<double> &margins,
                        Poll &poll) const {
    const auto m = std::int64_t(columns.size());
    in_blocks(m * K_, poll, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        simd().combine(end - begin, m, from(columns, begin).data(), K_, x.data(), n_, margins.data() + begin);
    });
}

ClassPoint ClassSamples::at(const std::vector<double> &margins, Poll &poll) const {
    ClassPoint point;
    point.p.resize(std::size_t(n_ * K_));
    point.others.resize(std::size_t(n_));
    point.lack.resize(std::size_t(n_));
    std::vector<HeadTail> sums(std::size_t(std::max<std::int64_t>(chunks(), 1)), HeadTail{0, 0});
    in_blocks(16 * K_, poll, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
        double largest[BLOCK];
        simd().softmax(end - begin, K_, n_, margins.data() + begin, point.p.data() + begin, largest,
                       point.others.data() + begin);
        HeadTail &sum = sums[std::size_t(chunk)];
        for (std::int64_t i = begin; i < end; ++i) {
            const auto place = std::size_t(i);
            if (share_[place] == 0) {  // counts nothing, even where its loss is infinite
                for (std::int64_t k = 0; k < K_; ++k) point.p[std::size_t(k * n_ + i)] = 0;
                point.others[place] = point.lack[place] = 0;
                continue;
            }
            const double own = margins[std::size_t(label_[i] * n_ + i)];
            point.lack[place] = own == largest[i - begin] ? 0.0 : largest[i - begin] - own;
            const double loss = share_[place] * (std::log1p(point.others[place]) + point.lack[place]);
            const HeadTail next = two_sum(sum.head, loss);
            sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
        }
    });
    HeadTail whole{0, 0};
    for (const HeadTail &sum : sums) {
        const HeadTail next = two_sum(whole.head, sum.head);
        whole = {next.head, std::isfinite(next.head) ? whole.tail + next.tail + sum.tail : 0.0};
    }
    point.loss = whole.head + whole.tail;
    return point;
}

// s_i dl/dz_k / sum s. For the sample's own class minus the sum of the others, or a sure prediction loses its digits.
inline double ClassSamples::slope(const ClassPoint &point, std::int64_t k, std::int64_t i) const {
    const auto place = std::size_t(i);
    const double p = point.p[std::size_t(k * n_ + i)];
    if (k != label_[i]) return share_[place] * p;
    return share_[place] * (point.lack[place] == 0 ? -point.others[place] / (1 + point.others[place]) : p - 1);
}

std::vector<double> ClassSamples::gradient(const ColumnPointers &columns, const ClassPoint &point, Poll &poll) const {
    const auto m = std::int64_t(columns.size());
    const auto sums = summed(K_ * m, K_ * m, poll, [&](std::int64_t begin, std::int64_t end, double *out) {
        const ColumnPointers part = from(columns, begin);
        double slopes[BLOCK];
        for (std::int64_t k = 0; k < K_; ++k) {
            for (std::int64_t i = begin; i < end; ++i) slopes[i - begin] = slope(point, k, i);
            simd().column_dots(end - begin, m, part.data(), slopes, out + k * m);
        }
    });
    return by_feature(std::size_t(m), std::size_t(K_), sums);
}

std::vector<double> ClassSamples::hessian_product(const ColumnPointers &columns, const ClassPoint &point,
                                                  const std::vector<double> &v, Poll &poll) const {
    const auto m = std::int64_t(columns.size());
    const auto sums = summed(K_ * m, 2 * K_ * m, poll, [&](std::int64_t begin, std::int64_t end, double *out) {
        const std::int64_t rows = end - begin;
        const ColumnPointers part = from(columns, begin);
        const auto moved = std::make_unique<double[]>(std::size_t(K_ * BLOCK));
        simd().combine(rows, m, part.data(), K_, v.data(), BLOCK, moved.get());
        double mean[BLOCK] = {};
        for (std::int64_t k = 0; k < K_; ++k) {
            const double *p = point.p.data() + k * n_ + begin, *change = moved.get() + k * BLOCK;
            for (std::int64_t i = 0; i < rows; ++i) mean[i] += p[i] * change[i];
        }
        for (std::int64_t k = 0; k < K_; ++k) {
            const double *p = point.p.data() + k * n_ + begin, *share = share_.data() + begin;
            double *change = moved.get() + k * BLOCK;
            for (std::int64_t i = 0; i < rows; ++i) change[i] = share[i] * p[i] * (change[i] - mean[i]);
            simd().column_dots(rows, m, part.data(), change, out + k * m);
        }
    });
    return by_feature(std::size_t(m), std::size_t(K_), sums);
}

// Adds a block of rows to <w_ab, X_j X_l> for l <= j: for each of these pairs of columns a product of probabilities,
// in tiles of PANEL classes.
void ClassSamples::add_by_panels(const ColumnPointers &part, const ClassPoint &point, std::int64_t begin,
                                 std::int64_t end, double *out) const {
    const auto m = std::int64_t(part.size());
    const std::int64_t rows = end - begin, panels = (K_ + PANEL - 1) / PANEL, size = BLOCK * PANEL;
    std::vector<double> p(std::size_t(panels * size)), bent(p.size());
    for (std::int64_t k = 0; k < K_; ++k)
        for (std::int64_t r = 0; r < rows; ++r)
            p[std::size_t(k / PANEL * size + r * PANEL + k % PANEL)] = point.p[std::size_t(k * n_ + begin + r)];
    double tile[PANEL * PANEL];
    for (std::int64_t j = 0; j < m; ++j)
        for (std::int64_t l = 0; l <= j; ++l) {
            for (std::int64_t v = 0; v < panels; ++v)
                for (std::int64_t r = 0; r < rows; ++r) {
                    const double weight =
                        share_[std::size_t(begin + r)] * part[std::size_t(j)][r] * part[std::size_t(l)][r];
                    const std::size_t place = std::size_t(v * size + r * PANEL);
                    for (std::size_t q = 0; q < PANEL; ++q) bent[place + q] = weight * p[place + q];
                }
            for (std::int64_t u = 0; u < panels; ++u)
                for (std::int64_t v = u; v < panels; ++v) {
                    simd().panel_product(rows, &p[std::size_t(u * size)], &bent[std::size_t(v * size)], tile);
                    for (std::int64_t a = u * PANEL; a < std::min(K_, (u + 1) * PANEL); ++a)
                        for (std::int64_t b = std::max(a + 1, v * PANEL); b < std::min(K_, (v + 1) * PANEL); ++b)
                            out[pair(a, b) * m * m + j * m + l] += tile[(a - u * PANEL) * PANEL + b - v * PANEL];
                }
        }
}

std::vector<double> ClassSamples::hessian(const ColumnPointers &columns, const ClassPoint &point, Poll &poll) const {
    const auto m = std::int64_t(columns.size());
    const std::int64_t square = m * m;
    const auto sums =
        summed(pairs() * square, pairs() * square / 2, poll, [&](std::int64_t begin, std::int64_t end, double *out) {
            const ColumnPointers part = from(columns, begin);
            if (K_ >= 2 * PANEL) return add_by_panels(part, point, begin, end, out);
            double weight[BLOCK];
            for (std::int64_t a = 0; a < K_; ++a)
                for (std::int64_t b = a + 1; b < K_; ++b, out += square) {
                    const double *p = point.p.data() + a * n_, *q = point.p.data() + b * n_;
                    for (std::int64_t i = begin; i < end; ++i) weight[i - begin] = share_[std::size_t(i)] * p[i] * q[i];
                    simd().column_gram(end - begin, m, part.data(), weight, out);
                }
        });
    const auto K = std::size_t(K_), M = std::size_t(m), N = M * K;
    std::vector<double> hessian(N * N);
    for (std::size_t j = 0; j < M; ++j)
        for (std::size_t l = 0; l <= j; ++l)
            for (const auto &[row, column] : {std::pair(j, l), std::pair(l, j)})
                fill_block(K, sums.data() + j * M + l, std::size_t(square), &hessian[row * K * N + column * K], N);
    return hessian;
}

// w_ab of each sample, row after row: PANEL columns in each panel.
void ClassSamples::pair_weights(const ClassPoint &point, std::int64_t begin, std::int64_t end, double *out) const {
    for (std::int64_t a = 0, q = 0; a < K_; ++a)
        for (std::int64_t b = a + 1; b < K_; ++b, ++q) {
            double *to = out + q / PANEL * BLOCK * PANEL + q % PANEL;
            const double *p = point.p.data() + a * n_, *other = point.p.data() + b * n_;
            for (std::int64_t i = begin; i < end; ++i)
                to[(i - begin) * PANEL] = share_[std::size_t(i)] * p[i] * other[i];
        }
}

// Adds a block of rows to <w_ab, X_j X_l> for all columns j and those l inside, and at the end to <w_ab, X_j X_j>:
// tiles of PANEL columns and PANEL pairs of classes.
void ClassSamples::add_cross(const ColumnPointers &columns, const std::vector<std::size_t> &inside,
                             const ClassPoint &point, std::int64_t begin, std::int64_t end,
                             std::vector<double> &sums) const {
    const auto d = std::int64_t(columns.size()), m = std::int64_t(inside.size()), rows = end - begin;
    const std::int64_t left = (d + PANEL - 1) / PANEL, right = (pairs() + PANEL - 1) / PANEL, size = BLOCK * PANEL;
    std::vector<double> X(std::size_t(left * size)), W(std::size_t(right * size));
    for (std::int64_t j = 0; j < d; ++j)
        for (std::int64_t r = 0; r < rows; ++r)
            X[std::size_t(j / PANEL * size + r * PANEL + j % PANEL)] = columns[std::size_t(j)][begin + r];
    pair_weights(point, begin, end, W.data());
    const auto add_tiles = [&](const double *columns_of, const double *weights, double *out) {
        double tile[PANEL * PANEL];
        for (std::int64_t u = 0; u < left; ++u)
            for (std::int64_t v = 0; v < right; ++v, out += PANEL * PANEL) {
                simd().panel_product(rows, columns_of + u * size, weights + v * size, tile);
                for (int q = 0; q < PANEL * PANEL; ++q) out[q] += tile[q];
            }
    };
    const std::int64_t slots = left * right * PANEL * PANEL;
    parallel_for(m + 1, (m + 1) * slots * rows / 4, [&](std::int64_t l) {
        std::vector<double> bent(l < m ? W : X);
        if (l < m) {
            const double *column = columns[inside[std::size_t(l)]] + begin;
            for (std::int64_t v = 0; v < right; ++v)
                for (std::int64_t r = 0; r < rows; ++r)
                    for (int q = 0; q < PANEL; ++q) bent[std::size_t(v * size + r * PANEL + q)] *= column[r];
            add_tiles(X.data(), bent.data(), sums.data() + l * slots);
        } else {
            for (double &value : bent) value *= value;
            add_tiles(bent.data(), W.data(), sums.data() + l * slots);
        }
    });
}

ClassDerivatives ClassSamples::derivatives(const ColumnPointers &columns, const std::vector<std::size_t> &inside,
                                           const ClassPoint &point, Poll &poll) const {
    const std::size_t d = columns.size(), m = inside.size(), K = std::size_t(K_);
    const std::size_t right = (std::size_t(pairs()) + PANEL - 1) / PANEL, left = (d + PANEL - 1) / PANEL;
    const std::size_t slots = left * right * PANEL * PANEL;
    std::vector<double> sums((m + 1) * slots);
    for (std::int64_t begin = 0; begin < n_; begin += BLOCK) {
        add_cross(columns, inside, point, begin, std::min(n_, begin + BLOCK), sums);
        poll.check();
    }
    ClassDerivatives found;
    found.gradient = gradient(columns, point, poll);
    found.cross.resize(d * K * m * K);
    found.own.resize(d * K * K);
    std::vector<double> pair(static_cast<std::size_t>(pairs()));
    for (std::size_t j = 0; j < d; ++j)
        for (std::size_t l = 0; l <= m; ++l) {
            const double *from = &sums[l * slots + j / PANEL * right * PANEL * PANEL + j % PANEL * PANEL];
            for (std::size_t q = 0; q < pair.size(); ++q) pair[q] = from[q / PANEL * PANEL * PANEL + q % PANEL];
            if (l < m) fill_block(K, pair.data(), 1, &found.cross[j * K * m * K + l * K], m * K);
            else fill_block(K, pair.data(), 1, &found.own[j * K * K], K);
        }
    return found;
}

std::vector<double> ClassSamples::by_sample(const std::vector<double> &margins) const {
    std::vector<double> out(margins.size());
    for (std::int64_t k = 0; k < K_; ++k)
        for (std::int64_t i = 0; i < n_; ++i) out[std::size_t(i * K_ + k)] = margins[std::size_t(k * n_ + i)];
    return out;
}

std::vector<double> ClassSamples::by_class(const double *margins) const {
    std::vector<double> out(origin_.size());
    for (std::int64_t k = 0; k < K_; ++k)
        for (std::int64_t i = 0; i < n_; ++i) out[std::size_t(k * n_ + i)] = margins[i * K_ + k];
    return out;
}

std::vector<double> ClassSamples::slopes(const ClassPoint &point) const {
    std::vector<double> sums(static_cast<std::size_t>(K_));
    for (std::int64_t k = 0; k < K_; ++k)
        for (std::int64_t i = 0; i < n_; ++i) sums[std::size_t(k)] += std::abs(slope(point, k, i));
    return sums;
}

double ClassSamples::slope_times_margins(const ClassPoint &point, const std::vector<double> &margins) const {
    double sum = 0;
    for (std::int64_t k = 0; k < K_; ++k)
        for (std::int64_t i = 0; i < n_; ++i)
            if (share_[std::size_t(i)] != 0) sum += std::abs(slope(point, k, i) * margins[std::size_t(k * n_ + i)]);
    return sum;
}

double ClassSamples::largest_change(const std::vector<double> &along) const {
    double largest = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
        double least = along[std::size_t(i)], most = least;
        for (std::int64_t k = 1; k < K_; ++k) {
            least = std::min(least, along[std::size_t(k * n_ + i)]);
            most = std::max(most, along[std::size_t(k * n_ + i)]);
        }
        largest = std::max(largest, most - least);
    }
    return largest;
}

}  // namespace levelprox
