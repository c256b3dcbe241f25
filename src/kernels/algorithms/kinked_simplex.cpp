#include "algorithms/kinked_simplex.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double PIVOT_SHARE = 1e-9;        // of |row||edge|: what a pivot must not be below
constexpr double LEVEL_SHARE = 1e-10;       // of the slope along an edge: beyond the last kink f may be level
constexpr double INDEPENDENT_SHARE = 1e-3;  // of |row|: the least part that is independent of others in the first basis
constexpr std::size_t NEAREST_PER_COORDINATE = 3;       // rows that a first basis is chosen from
constexpr double GUESS_FACTOR = 8, LAST_GUESS = 1e100;  // of how far along an edge its minimum is
constexpr int EDGES_BETWEEN_REFRESHES = 32;

double norm(const double *v, std::size_t size, std::size_t stride = 1) {
    double square = 0;
    for (std::size_t r = 0; r < size; ++r) square += v[r * stride] * v[r * stride];
    return std::sqrt(square);
}

// Takes from some rows, coordinate after coordinate, their parts along a direction of length 1.
void remove_direction(std::size_t dimension, std::size_t count, const std::vector<double> &direction,
                      std::vector<double> &left) {
    std::vector<double> part(count);
    const auto &dense = simd().dense<double>();
    for (std::size_t r = 0; r < dimension; ++r)
        dense.add(std::int64_t(count), direction[r], &left[r * count], part.data());
    for (std::size_t r = 0; r < dimension; ++r)
        dense.add(std::int64_t(count), -direction[r], part.data(), &left[r * count]);
}

// One descent: the vertex, and what is updated along edges.
class Descent {
public:
    Descent(const KinkedRows &rows, std::vector<std::size_t> basis, double steepest, std::size_t n, Poll &poll)
        : rows_(rows), m_(rows.dimension), steepest_(steepest), rounding_(4 * EPSILON * (std::sqrt(double(n)) + 100)),
          basis_(std::move(basis)), w_(m_), y_(m_), u_(rows.count), poll_(poll) {}

    KinkedVertex run(std::size_t most) {
        bool bounded = true, fresh = false;
        int since = 0;
        for (std::size_t edges = 0; edges < most; ++edges) {
            poll_.check();
            if (!fresh && (since == 0 || since >= EDGES_BETWEEN_REFRESHES)) {
                if (!refresh()) break;
                fresh = true;
                since = 0;
            }
            std::size_t leaves = find_leaving();
            if (leaves == NONE && !fresh) {
                if (!refresh()) break;
                fresh = true;
                since = 0;
                leaves = find_leaving();
            }
            if (leaves == NONE) break;
            if (!move_along_edge(leaves)) {
                bounded = false;
                break;
            }
            fresh = false;
            ++since;
        }
        if (since != 0 && refresh()) find_leaving();
        for (std::size_t p = 0; p < m_ && most > 0; ++p)
            u_[basis_[p]] = std::clamp(y_[p], rows_.low[basis_[p]], rows_.high[basis_[p]]);
        return {std::move(basis_), std::move(w_), std::move(u_), bounded};
    }

private:
    static constexpr std::size_t NONE = SIZE_MAX;

    // Q_B^-1, w, s, u outside the basis and v from the rows; false where the basis is singular.
    bool refresh() {
        matrix_.resize(m_ * m_);
        for (std::size_t p = 0; p < m_; ++p)
            for (std::size_t r = 0; r < m_; ++r) matrix_[p * m_ + r] = rows_.q[r * rows_.count + basis_[p]];
        std::vector<double> inverse = inverse_of(m_, matrix_);
        if (inverse.empty()) return false;
        inverse_ = std::move(inverse);
        std::fill(w_.begin(), w_.end(), 0.0);
        for (int repeat = 0; repeat < 2; ++repeat) {
            std::vector<double> missed(m_);
            for (std::size_t p = 0; p < m_; ++p) {
                missed[p] = rows_.kink[basis_[p]];
                for (std::size_t r = 0; r < m_; ++r) missed[p] -= matrix_[p * m_ + r] * w_[r];
            }
            for (std::size_t r = 0; r < m_; ++r)
                for (std::size_t p = 0; p < m_; ++p) w_[r] += inverse_[r * m_ + p] * missed[p];
        }
        s_ = rows_.along(w_.data());
        terms_ = rows_.terms;
        for (std::size_t i = 0; i < rows_.count; ++i) {
            s_[i] -= rows_.kink[i];
            u_[i] = s_[i] > 0 ? rows_.high[i] : rows_.low[i];
        }
        for (const std::size_t i : basis_) s_[i] = u_[i] = 0;
        for (std::size_t i = 0; i < rows_.count; ++i) terms_ += std::abs(u_[i]) * rows_.length[i];
        v_ = rows_.combined(u_);
        for (std::size_t r = 0; r < m_; ++r) v_[r] += rows_.gradient[r];
        return true;
    }

    // y = u_B, and the place in the basis whose edge f falls along most steeply; NONE where it falls along none.
    std::size_t find_leaving() {
        std::fill(y_.begin(), y_.end(), 0.0);
        for (int repeat = 0; repeat < 2; ++repeat) {
            std::vector<double> missed(v_);
            for (std::size_t p = 0; p < m_; ++p)
                for (std::size_t r = 0; r < m_; ++r) missed[r] += y_[p] * rows_.q[r * rows_.count + basis_[p]];
            for (std::size_t r = 0; r < m_; ++r)
                for (std::size_t p = 0; p < m_; ++p) y_[p] -= missed[r] * inverse_[r * m_ + p];
        }
        // Samples with nearly all of the weight may have no slope left: it is then that of the others.
        double steepest = rounding_ * std::min(steepest_, terms_);
        std::size_t leaves = NONE;
        for (std::size_t p = 0; p < m_; ++p) {
            const std::size_t i = basis_[p];
            const double slope = beyond(p) / norm(&inverse_[p], m_, m_);
            if (i < rows_.count && slope > steepest) {
                steepest = slope;
                leaves = p;
            }
        }
        return leaves;
    }

    double beyond(std::size_t p) const { return std::max(y_[p] - rows_.high[basis_[p]], rows_.low[basis_[p]] - y_[p]); }

    struct Meeting {
        double t;
        std::size_t i;
        double rise;
        bool operator<(const Meeting &other) const { return t != other.t ? t < other.t : i < other.i; }
    };

    // The kinks that are met along an edge up to the minimum of f; empty where f has none. Most rows are met later:
    // only those up to a guess are sorted, and more where these are too few.
    std::vector<Meeting> meetings(const std::vector<double> &speed, double edge_length, double falls) {
        const double pivot = PIVOT_SHARE * edge_length;
        std::vector<Meeting> met;
        double rise = 0, from = 0;
        for (double until = guess_;; from = until, until = until > LAST_GUESS ? INFINITE : GUESS_FACTOR * until) {
            const std::size_t sorted = met.size();
            for (std::size_t i = 0; i < rows_.count; ++i) {
                const double s = std::abs(s_[i]), v = std::abs(speed[i]);
                if (!((s_[i] * speed[i] < 0) & (s < until * v) & (s >= from * v))) continue;
                if (v > pivot * rows_.length[i]) met.push_back({s / v, i, (rows_.high[i] - rows_.low[i]) * v});
            }
            std::sort(met.begin() + std::ptrdiff_t(sorted), met.end());
            for (std::size_t p = sorted; p < met.size(); ++p) {
                rise += met[p].rise;
                if (rise >= (1 - LEVEL_SHARE) * falls) {
                    met.resize(p + 1);
                    guess_ = 2 * met.back().t;
                    return met;
                }
            }
            if (until == INFINITE) break;
        }
        return {};
    }

    // To the minimum of f along the edge of a place in the basis; false where rounding leaves none.
    bool move_along_edge(std::size_t leaves) {
        const std::size_t out = basis_[leaves];
        const bool up = y_[leaves] > rows_.high[out];
        std::vector<double> edge(m_);
        for (std::size_t r = 0; r < m_; ++r) edge[r] = (up ? 1.0 : -1.0) * inverse_[r * m_ + leaves];
        std::vector<double> speed = rows_.along(edge.data());
        for (const std::size_t i : basis_) speed[i] = 0;
        const std::vector<Meeting> met = meetings(speed, norm(edge.data(), m_), beyond(leaves));
        if (met.empty()) return false;

        const double t = met.back().t;
        const std::size_t in = met.back().i;
        simd().dense<double>().add(std::int64_t(rows_.count), t, speed.data(), s_.data());
        s_[out] = (up ? 1.0 : -1.0) * t;
        for (const Meeting &one : met) set_slope(one.i, speed[one.i] > 0 ? rows_.high[one.i] : rows_.low[one.i]);
        set_slope(out, up ? rows_.high[out] : rows_.low[out]);
        set_slope(in, 0.0);
        s_[in] = 0;
        basis_[leaves] = in;
        replace_row(leaves, in);
        return true;
    }

    void set_slope(std::size_t i, double slope) {
        const double change = slope - u_[i];
        if (change == 0) return;
        for (std::size_t r = 0; r < m_; ++r) v_[r] += change * rows_.q[r * rows_.count + i];
        u_[i] = slope;
    }

    // Q_B^-1 after another row has taken a place in the basis.
    void replace_row(std::size_t place, std::size_t in) {
        std::vector<double> along(m_);
        for (std::size_t r = 0; r < m_; ++r)
            for (std::size_t p = 0; p < m_; ++p) along[p] += rows_.q[r * rows_.count + in] * inverse_[r * m_ + p];
        const double pivot = along[place];
        along[place] -= 1;
        for (std::size_t r = 0; r < m_; ++r) {
            const double by = inverse_[r * m_ + place] / pivot;
            for (std::size_t p = 0; p < m_; ++p) inverse_[r * m_ + p] -= by * along[p];
        }
    }

    const KinkedRows &rows_;
    const std::size_t m_;
    const double steepest_, rounding_;
    std::vector<std::size_t> basis_;
    std::vector<double> w_, y_, u_, s_, v_, matrix_, inverse_;
    double guess_ = 1;
    double terms_ = 0;
    Poll &poll_;
};

}  // namespace

std::vector<double> inverse_of(std::size_t m, std::vector<double> matrix) {
    std::vector<double> inverse(m * m);
    for (std::size_t r = 0; r < m; ++r) inverse[r * m + r] = 1;
    for (std::size_t c = 0; c < m; ++c) {
        std::size_t pivot = c;
        for (std::size_t r = c + 1; r < m; ++r)
            if (std::abs(matrix[r * m + c]) > std::abs(matrix[pivot * m + c])) pivot = r;
        if (!(std::abs(matrix[pivot * m + c]) > 0)) return {};
        if (pivot != c) {
            std::swap_ranges(&matrix[c * m], &matrix[c * m] + m, &matrix[pivot * m]);
            std::swap_ranges(&inverse[c * m], &inverse[c * m] + m, &inverse[pivot * m]);
        }
        const double scale = 1 / matrix[c * m + c];
        for (std::size_t k = 0; k < m; ++k) {
            matrix[c * m + k] *= scale;
            inverse[c * m + k] *= scale;
        }
        for (std::size_t r = 0; r < m; ++r) {
            const double by = matrix[r * m + c];
            if (r == c || by == 0) continue;
            for (std::size_t k = 0; k < m; ++k) {
                matrix[r * m + k] -= by * matrix[c * m + k];
                inverse[r * m + k] -= by * inverse[c * m + k];
            }
        }
    }
    for (const double entry : inverse)
        if (!std::isfinite(entry)) return {};
    return inverse;
}

std::vector<double> KinkedRows::along(const double *w) const {
    std::vector<double> moved(count);
    simd().dense<double>().adds(std::int64_t(dimension), std::int64_t(count), std::int64_t(count), w, q.data(),
                                moved.data());
    return moved;
}

std::vector<double> KinkedRows::combined(const std::vector<double> &u) const {
    std::vector<double> sum(dimension);
    simd().dense<double>().dots(std::int64_t(dimension), std::int64_t(count), q.data(), u.data(), sum.data());
    return sum;
}

std::vector<std::size_t> KinkedRows::basis_near(const std::vector<double> &w) const {
    std::vector<double> off = along(w.data());
    for (std::size_t i = 0; i < count; ++i) off[i] = std::abs(off[i] - kink[i]);
    std::vector<std::size_t> candidates(count);
    std::iota(candidates.begin(), candidates.end(), std::size_t(0));
    const auto nearer = [&](std::size_t i, std::size_t k) { return off[i] != off[k] ? off[i] < off[k] : i < k; };
    const std::size_t nearest = std::min(NEAREST_PER_COORDINATE * dimension, samples);
    std::partial_sort(candidates.begin(), candidates.begin() + nearest, candidates.begin() + samples, nearer);
    std::sort(candidates.begin() + samples, candidates.end(), nearer);
    candidates.erase(candidates.begin() + nearest, candidates.begin() + samples);

    const auto gather = [&] {
        std::vector<double> part(dimension * candidates.size());
        for (std::size_t r = 0; r < dimension; ++r)
            for (std::size_t c = 0; c < candidates.size(); ++c)
                part[r * candidates.size() + c] = q[r * count + candidates[c]];
        return part;
    };
    std::vector<double> left = gather();
    std::vector<std::vector<double>> directions;
    std::vector<std::size_t> basis;
    bool all = false;
    while (basis.size() < dimension) {
        std::size_t place = SIZE_MAX;
        double most = -1;
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            const double size = norm(&left[c], dimension, candidates.size());
            if (!all && !(size > INDEPENDENT_SHARE * length[candidates[c]])) continue;
            if (size > most) {
                most = size;
                place = c;
            }
            if (!all) break;
        }
        if (place == SIZE_MAX) {  // of all rows the most independent one
            all = true;
            candidates.resize(count);
            std::iota(candidates.begin(), candidates.end(), std::size_t(0));
            left = gather();
            for (int repeat = 0; repeat < 2; ++repeat)
                for (const std::vector<double> &direction : directions)
                    remove_direction(dimension, count, direction, left);
            continue;
        }
        std::vector<double> direction(dimension);
        for (std::size_t r = 0; r < dimension; ++r)
            direction[r] = left[r * candidates.size() + place] / (most > 0 ? most : 1.0);
        basis.push_back(candidates[place]);
        remove_direction(dimension, candidates.size(), direction, left);
        directions.push_back(std::move(direction));
    }
    return basis;
}

KinkedVertex descend(const KinkedRows &rows, std::vector<std::size_t> basis, double steepest, std::size_t n,
                     std::size_t most, Poll &poll) {
    return Descent(rows, std::move(basis), steepest, n, poll).run(most);
}

}  // namespace levelprox
