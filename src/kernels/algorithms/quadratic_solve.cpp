#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cholesky.hpp"
#include "algorithms/quadratic_minimiser.hpp"

namespace levelprox {
namespace {

constexpr std::size_t LARGEST_FACTORISED = 4096;  // of all faces
constexpr std::size_t FEW_CG_STEPS = 6;           // a sixth of the coordinates: as much work as half a factor
constexpr std::size_t MOST_UPDATES = 8;           // an eighth of the coordinates: beyond it a new factor costs less
constexpr double CG_REDUCTION = 1e-8;             // of the squared residual, by conjugate gradients
constexpr std::size_t CG_EXTRA_STEPS = 20;        // beyond one per coordinate
constexpr double LEAST_PIVOT = 1e-14;             // of a matrix with a unit diagonal
constexpr double SMALLEST_NORMAL = std::numeric_limits<double>::min();

}  // namespace

// argmin over v of <slope, v> + v'Qv/2 on the face, with <normal, v> = 0.
//
// Small faces by a factor. On a large one conjugate gradients need few steps where Q is well conditioned. Where they do
// not, a factor is computed, and updated for as long as faces differ in few coordinates.
QuadraticMinimiser::Vector QuadraticMinimiser::minimiser_on(const Indices &face, const Vector &normal) {
    const std::size_t m = face.size();
    if (m <= MOST_FACTORISED) {
        const Vector v = solve_directly(face, normal);
        if (!v.empty()) return v;
        return conjugate_gradients(face, normal);
    }
    if (is_singular_ || m > LARGEST_FACTORISED) return conjugate_gradients(face, normal);
    Vector v;
    if (!update_factor(face)) {
        if (conjugate_gradients(face, normal, {}, m / FEW_CG_STEPS, v)) return v;
        if (is_exhausted() || is_blocked(face, v)) return v;
        if (!set_factor(face)) return conjugate_gradients(face, normal);
    }
    Vector solution = solve_by_factor(face, normal);
    return solution.empty() ? conjugate_gradients(face, normal) : solution;
}

// Whether more than a few coordinates reach zero on the way.
bool QuadraticMinimiser::is_blocked(const Indices &face, const Vector &direction) const {
    int n_blocking = 0;
    for (std::size_t k = 0; k < face.size(); ++k)
        n_blocking += !is_unpriced_and_free(face[k]) && (x_[face[k]] + direction[k]) * x_[face[k]] < 0;
    return n_blocking > MOST_BLOCKING;
}

// The same by a Cholesky factor. Empty where Q is not available as a matrix, or is singular.
QuadraticMinimiser::Vector QuadraticMinimiser::solve_directly(const Indices &face, const Vector &normal) {
    return factor_.indices == face || set_factor(face) ? solve_by_factor(face, normal) : Vector();
}

// Factorises the block of Q on a face, scaled to a unit diagonal. Returns false where there is no such matrix.
bool QuadraticMinimiser::set_factor(const Indices &face) {
    const std::size_t m = face.size();
    factor_.indices.clear();
    factor_.L.assign(m * m, 0.0);
    factor_.unit.assign(m, 0.0);
    is_singular_ = true;
    if (!Q_.block(face, factor_.L.data())) return false;
    Vector &L = factor_.L, &unit = factor_.unit;
    for (std::size_t j = 0; j < m; ++j) {
        if (!(L[j * m + j] >= SMALLEST_NORMAL)) return false;  // subnormal numbers have lost digits
        unit[j] = 1 / std::sqrt(L[j * m + j]);
    }
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k <= j; ++k) L[j * m + k] *= unit[j] * unit[k];
    work_ += double(m) * double(m) * double(m) / 3 / (double(d_) * double(d_));
    if (!factorise(m, L, LEAST_PIVOT, [&] { poll_.check(); })) return false;
    factor_.indices = face;
    is_singular_ = false;
    return true;
}

// Turns the factor of the last face into that of this one. Returns false, and leaves no factor, where there is none, or
// they differ in many coordinates.
bool QuadraticMinimiser::update_factor(const Indices &face) {
    Indices &known = factor_.indices;
    if (known.empty()) return false;
    const auto is_in = [](const Indices &sorted, std::int64_t i) {
        return std::binary_search(sorted.begin(), sorted.end(), i);
    };
    Indices sorted = known, added;
    std::sort(sorted.begin(), sorted.end());
    for (const std::int64_t i : face)
        if (!is_in(sorted, i)) added.push_back(i);
    const std::size_t removed = known.size() + added.size() - face.size();
    if ((removed + added.size()) * MOST_UPDATES > face.size()) {
        known.clear();
        return false;
    }
    for (std::size_t k = known.size(); k-- > 0;) {
        if (is_in(face, known[k])) continue;
        const double m = double(known.size());
        remove_from_factor(known.size(), factor_.L, k);
        known.erase(known.begin() + std::ptrdiff_t(k));
        factor_.unit.erase(factor_.unit.begin() + std::ptrdiff_t(k));
        work_ += 2 * m * m / (double(d_) * double(d_));
        poll_.check();
    }
    for (const std::int64_t i : added)
        if (!append_to_face(i)) {
            known.clear();
            return false;
        }
    return true;
}

// Adds a coordinate to the factor. Returns false where its matrix would be singular.
bool QuadraticMinimiser::append_to_face(std::int64_t i) {
    const std::size_t m = factor_.indices.size();
    Vector row(m + 1);
    Q_.row(i, factor_.indices, row.data());
    if (!(row[m] >= SMALLEST_NORMAL)) return false;
    const double unit = 1 / std::sqrt(row[m]);
    for (std::size_t k = 0; k < m; ++k) row[k] *= unit * factor_.unit[k];
    row[m] = 1;
    work_ += double(m) * double(m) / (double(d_) * double(d_));
    if (!append_to_factor(m, factor_.L, row, LEAST_PIVOT)) return false;
    factor_.indices.push_back(i);
    factor_.unit.push_back(unit);
    return true;
}

// The minimiser on a face whose factor is known, in the order of the face; empty where it is not finite.
QuadraticMinimiser::Vector QuadraticMinimiser::solve_by_factor(const Indices &face, const Vector &normal) const {
    const std::size_t m = face.size();
    const Indices &order = factor_.indices;
    Vector v(m), unit(m), scaled_normal(m);
    std::vector<std::size_t> place(m);
    for (std::size_t k = 0; k < m; ++k) {
        place[k] =
            order[k] == face[k] ? k : std::size_t(std::lower_bound(face.begin(), face.end(), order[k]) - face.begin());
        unit[k] = factor_.unit[k] / unit_[order[k]];  // from this scale to that of x
        v[k] = -slope_[order[k]] * unit[k];
        scaled_normal[k] = normal[place[k]] * unit[k];
    }
    solve_factorised(m, factor_.L, v);

    // The condition <normal, v> = 0, by its multiplier.
    if (dot(normal, normal) > 0) {
        Vector across = scaled_normal;
        solve_factorised(m, factor_.L, across);
        const double multiplier = dot(scaled_normal, v) / dot(scaled_normal, across);
        for (std::size_t k = 0; k < m; ++k) v[k] -= multiplier * across[k];
    }

    Vector out(m);
    for (std::size_t k = 0; k < m; ++k) out[place[k]] = v[k] * unit[k];
    const bool is_finite = std::all_of(out.begin(), out.end(), [](double value) { return std::isfinite(value); });
    return is_finite ? out : Vector();
}

// The same by conjugate gradients in the plane <normal, v> = 0. With `norms` of the features, Q includes the curvature
// of the level set.
QuadraticMinimiser::Vector QuadraticMinimiser::conjugate_gradients(const Indices &face, const Vector &normal,
                                                                   const Vector &norms) {
    Vector v;
    conjugate_gradients(face, normal, norms, face.size() + CG_EXTRA_STEPS, v);
    return v;
}

// The same with at most so many steps. Returns whether they led to the end.
bool QuadraticMinimiser::conjugate_gradients(const Indices &face, const Vector &normal, const Vector &norms,
                                             std::size_t most_steps, Vector &v) {
    const std::size_t m = face.size();
    Vector block, r(m), p(m), Qp(m);
    v.assign(m, 0.0);
    const bool is_sparse = Q_.is_sparse(), has_matrix = is_sparse || scaled_block(face, block);
    const double normal_square = dot(normal, normal);
    const auto remove_normal = [&](Vector &w) {
        if (normal_square == 0) return;
        const double along = dot(normal, w) / normal_square;
        for (std::size_t k = 0; k < m; ++k) w[k] -= along * normal[k];
    };

    for (std::size_t k = 0; k < m; ++k) r[k] = -slope_[face[k]];
    remove_normal(r);
    p = r;
    double rr = dot(r, r);
    const double enough = rr * CG_REDUCTION;
    for (std::size_t n = 0; n < most_steps && rr > enough && rr > 0 && !is_exhausted(); ++n) {
        // Qp
        if (is_sparse) {
            apply_on_face(face, p, Qp);
            --state_.products;  // it is counted as work
        } else if (has_matrix) {
            const auto size = std::int64_t(m);
            std::fill(Qp.begin(), Qp.end(), 0.0);
            simd().dense<double>().adds(size, size, size, p.data(), block.data(), Qp.data());
        } else {
            apply_on_face(face, p, Qp);
        }
        work_ += double(m) * double(m) / (double(d_) * double(d_));
        add_group_curvature(normal, norms, p, Qp);

        // The minimum along p.
        const double bend = dot(p, Qp);
        if (!(bend > 0) || !std::isfinite(bend)) return true;
        const double t = rr / bend;
        for (std::size_t k = 0; k < m; ++k) {
            v[k] += t * p[k];
            r[k] -= t * Qp[k];
        }
        remove_normal(r);

        // The next direction.
        const double next = dot(r, r);
        for (std::size_t k = 0; k < m; ++k) p[k] = r[k] + next / rr * p[k];
        rr = next;

        // A product with a matrix-free Q is a pass over the data: stop at the accuracy that the caller requests.
        if (!has_matrix && std::sqrt(rr) <= settings_.relative * std::sqrt(enough / CG_REDUCTION)) return true;
        poll_.check();
    }
    return !(rr > enough);
}

// The block of the scaled Q. Returns false where Q is not available as a matrix.
bool QuadraticMinimiser::scaled_block(const Indices &face, Vector &block) const {
    const std::size_t m = face.size();
    block.resize(m * m);
    if (!Q_.block(face, block.data())) return false;
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < m; ++k) block[j * m + k] *= unit_[face[j]] * unit_[face[k]];
    return true;
}

// out = Qv over the coordinates of the face, by a product with the whole of Q.
void QuadraticMinimiser::apply_on_face(const Indices &face, const Vector &v, Vector &out) {
    Vector whole(d_), image(d_);
    for (std::size_t k = 0; k < face.size(); ++k) whole[face[k]] = v[k];
    apply(whole, image);
    for (std::size_t k = 0; k < face.size(); ++k) out[k] = image[face[k]];
}

// Qp += y (p_j / |x_j|) (p - u <u, p>), feature by feature, u = x_j / |x_j|; `normal` is p_j u.
void QuadraticMinimiser::add_group_curvature(const Vector &normal, const Vector &norms, const Vector &p,
                                             Vector &Qp) const {
    for (std::size_t j = 0; j < norms.size(); ++j) {
        double square = 0, along = 0;
        for (std::size_t k = j * width_; k < (j + 1) * width_; ++k) {
            square += normal[k] * normal[k];
            along += normal[k] * p[k];
        }
        if (square == 0) continue;
        const double bend = state_.multiplier * std::sqrt(square) / norms[j];
        for (std::size_t k = j * width_; k < (j + 1) * width_; ++k) Qp[k] += bend * (p[k] - normal[k] * along / square);
    }
}

}  // namespace levelprox
