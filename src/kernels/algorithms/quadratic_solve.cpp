#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cholesky.hpp"
#include "algorithms/quadratic_minimiser.hpp"

namespace levelprox {
namespace {

constexpr std::size_t MOST_FACTORISED = 128;  // coordinates of a face whose system is solved by a Cholesky factor
constexpr double CG_REDUCTION = 1e-8;         // of the squared residual, by conjugate gradients
constexpr std::size_t CG_EXTRA_STEPS = 20;    // beyond one per coordinate
constexpr double SMALLEST_NORMAL = std::numeric_limits<double>::min();

}  // namespace

// argmin over v of <slope, v> + v'Qv/2 on the face, with <normal, v> = 0.
QuadraticMinimiser::Vector QuadraticMinimiser::minimiser_on(const Indices &face, const Vector &normal) {
    if (face.size() <= MOST_FACTORISED) {
        const Vector v = solve_directly(face, normal);
        if (!v.empty()) return v;
    }
    return conjugate_gradients(face, normal);
}

// The same by a Cholesky factor. Empty where Q is not available as a matrix, or is singular.
QuadraticMinimiser::Vector QuadraticMinimiser::solve_directly(const Indices &face, const Vector &normal) {
    // The block of Q, scaled to a unit diagonal.
    const std::size_t m = face.size();
    Vector L(m * m), v(m), unit(m);
    if (!Q_.block(face, L.data())) return {};
    for (std::size_t j = 0; j < m; ++j) {
        if (!(L[j * m + j] >= SMALLEST_NORMAL)) return {};  // subnormal numbers have lost digits
        unit[j] = 1 / std::sqrt(L[j * m + j]);
    }
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k <= j; ++k) L[j * m + k] *= unit[j] * unit[k];
    for (std::size_t k = 0; k < m; ++k) unit[k] /= unit_[face[k]];  // from this scale to that of x

    // The minimiser without the condition <normal, v> = 0.
    work_ += double(m) * double(m) * double(m) / 3 / (double(d_) * double(d_));
    if (!factorise(m, L)) return {};
    for (std::size_t k = 0; k < m; ++k) v[k] = -slope_[face[k]] * unit[k];
    solve_factorised(m, L, v);

    // The condition, by its multiplier.
    if (dot(normal, normal) > 0) {
        Vector across(m), scaled_normal(m);
        for (std::size_t k = 0; k < m; ++k) across[k] = scaled_normal[k] = normal[k] * unit[k];
        solve_factorised(m, L, across);
        const double multiplier = dot(scaled_normal, v) / dot(scaled_normal, across);
        for (std::size_t k = 0; k < m; ++k) v[k] -= multiplier * across[k];
    }

    for (std::size_t k = 0; k < m; ++k) v[k] *= unit[k];
    const bool is_finite = std::all_of(v.begin(), v.end(), [](double value) { return std::isfinite(value); });
    return is_finite ? v : Vector();
}

// The same by conjugate gradients in the plane <normal, v> = 0. With `norms` of the features, Q includes the curvature
// of the level set.
QuadraticMinimiser::Vector QuadraticMinimiser::conjugate_gradients(const Indices &face, const Vector &normal,
                                                                   const Vector &norms) {
    const std::size_t m = face.size();
    Vector block(m * m), v(m), r(m), p(m), Qp(m);
    const bool has_matrix = scaled_block(face, block);
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
    for (std::size_t n = 0; n < m + CG_EXTRA_STEPS && rr > enough && rr > 0 && !is_exhausted(); ++n) {
        // Qp
        if (has_matrix) {
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
        if (!(bend > 0) || !std::isfinite(bend)) break;
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
        if (!has_matrix && std::sqrt(rr) <= settings_.relative * std::sqrt(enough / CG_REDUCTION)) break;
        poll_.check();
    }
    return v;
}

// The block of the scaled Q. Returns false where Q is not available as a matrix.
bool QuadraticMinimiser::scaled_block(const Indices &face, Vector &block) const {
    const std::size_t m = face.size();
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
