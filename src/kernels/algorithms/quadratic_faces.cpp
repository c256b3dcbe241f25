#include <algorithm>
#include <cmath>

#include "algorithms/quadratic_minimiser.hpp"

namespace levelprox {
namespace {

constexpr double LEVEL_TOLERANCE = 1e-9;  // relative: the level binds
constexpr double LEAST_DECREASE = 0.5;    // of a jump, relative to the curvature along it
constexpr int MOST_SHORTENINGS = 8;       // of a step on the curved face of groups

}  // namespace

// Minimises over the coordinates that are not zero and those without a price, with the level held if it binds. Moves
// straight towards the minimiser on the face, drops the first coordinate that would change its sign on the way, and
// continues on the smaller face. Where Q is nearly flat this leads to a vertex of the set.
void QuadraticMinimiser::search_face() {
    bool level_binds = state_.multiplier > 0;
    for (std::size_t vertex = 0; vertex <= d_; ++vertex) {
        // The minimiser on the face.
        const Face face = nonzero_face();
        level_binds = level_binds && face.spent >= set_.tau * (1 - LEVEL_TOLERANCE);
        const Vector direction = minimiser_on(face.indices, level_binds ? face.normal : Vector(face.indices.size()));

        // How far x can go towards it.
        FaceStep step = longest_step(face, direction);
        if (step.n_blocking > MOST_BLOCKING && jump(face.indices, direction)) continue;
        if (step.n_blocking > MOST_BLOCKING && has_factor() && jump_shorter(face.indices, direction)) continue;
        if (!level_binds) stop_at_level(face, step);
        move_on_face(face, direction, step);

        // Continue with the level held, or on a smaller face.
        if (step.reaches_level) {
            level_binds = true;
            if (step.length == 0 && vertex > 0) return;
            continue;
        }
        if (step.blocking < 0 || is_exhausted()) return;
        poll_.check();
    }
}

QuadraticMinimiser::Face QuadraticMinimiser::nonzero_face() const {
    Face face;
    for (std::size_t i = 0; i < d_; ++i) {
        if (x_[i] == 0 && !is_unpriced_and_free(std::int64_t(i))) continue;
        face.indices.push_back(std::int64_t(i));
        face.normal.push_back(x_[i] == 0 ? 0.0 : std::copysign(price(i), x_[i]));
        face.spent += std::fabs(face.normal.back() * x_[i]);
    }
    return face;
}

QuadraticMinimiser::FaceStep QuadraticMinimiser::longest_step(const Face &face, const Vector &direction) const {
    FaceStep step;
    for (std::size_t k = 0; k < face.indices.size(); ++k) {
        const std::int64_t i = face.indices[k];
        step.cost += face.normal[k] * direction[k];
        if (is_unpriced_and_free(i)) continue;
        const double until_zero = x_[i] * direction[k] < 0 ? -x_[i] / direction[k] : 2.0;
        if (until_zero < step.length) {
            step.length = until_zero;
            step.blocking = i;
        }
        if (until_zero < 1) ++step.n_blocking;
    }
    return step;
}

// Shortens a step that would leave the level set.
void QuadraticMinimiser::stop_at_level(const Face &face, FaceStep &step) const {
    if (!(step.cost > 0 && face.spent + step.length * step.cost > set_.tau)) return;
    step.length = std::max(0.0, (set_.tau - face.spent) / step.cost);
    step.blocking = -1;
    step.reaches_level = true;
}

void QuadraticMinimiser::move_on_face(const Face &face, const Vector &direction, const FaceStep &step) {
    std::fill(move_.begin(), move_.end(), 0.0);
    for (std::size_t k = 0; k < face.indices.size(); ++k) {
        const std::int64_t i = face.indices[k];
        move_[i] = step.length * direction[k];
        // Coordinates of equal columns reach zero together; rounding must not carry one of them past it.
        const bool reaches_zero = i == step.blocking || (x_[i] + move_[i]) * x_[i] <= 0;
        if (reaches_zero && !is_unpriced_and_free(i)) move_[i] = -x_[i];
    }
    apply(move_, image_);
    for (std::size_t i = 0; i < d_; ++i) {
        x_[i] += move_[i];
        slope_[i] += image_[i];
    }
}

// The same for features of several coefficients, whose face is curved: one Newton step on the Lagrangian, whose
// curvature across x_j is y p_j / |x_j|, and the projection of the point it reaches.
void QuadraticMinimiser::search_group_face() {
    Vector norms;
    Face face = nonzero_groups(norms);
    if (!(state_.multiplier > 0)) std::fill(face.normal.begin(), face.normal.end(), 0.0);
    Vector direction = conjugate_gradients(face.indices, face.normal, norms);

    // Where Q is nearly flat, the step is so long that the face is a different one where it ends: shorten it.
    for (int tries = 0; tries < MOST_SHORTENINGS && !jump(face.indices, direction); ++tries)
        for (double &value : direction) value /= 4;
}

QuadraticMinimiser::Face QuadraticMinimiser::nonzero_groups(Vector &norms) const {
    Face face;
    for (std::size_t j = 0; j < prices_.size(); ++j) {
        double square = 0;
        for (std::size_t k = 0; k < width_; ++k) square += x_[j * width_ + k] * x_[j * width_ + k];
        if (square == 0 && prices_[j] > 0) continue;
        norms.push_back(std::sqrt(square));
        for (std::size_t k = 0; k < width_; ++k) {
            face.indices.push_back(std::int64_t(j * width_ + k));
            face.normal.push_back(square > 0 ? prices_[j] * x_[face.indices.back()] / norms.back() : 0.0);
        }
    }
    return face;
}

// Moves to the projection of x + direction. Returns false, and leaves x, where that hardly decreases the model.
bool QuadraticMinimiser::jump(const Indices &face, const Vector &direction) {
    shifted_ = x_;
    for (std::size_t k = 0; k < face.size(); ++k) shifted_[face[k]] += direction[k];
    project(shifted_, trial_, 0);
    for (std::size_t i = 0; i < d_; ++i) move_[i] = trial_[i] - x_[i];
    apply(move_, image_);
    const double bend = dot(move_, image_), decrease = -dot(slope_, move_);
    return decrease > LEAST_DECREASE * bend && advance(bend);
}

// The same with a part of the direction: on a large face along which Q is nearly flat many coordinates reach zero on
// the way, and one vertex after another takes long.
bool QuadraticMinimiser::jump_shorter(const Indices &face, Vector direction) {
    for (int tries = 0; tries < MOST_SHORTENINGS && !is_exhausted(); ++tries) {
        for (double &value : direction) value /= 4;
        if (jump(face, direction)) return true;
    }
    return false;
}

bool QuadraticMinimiser::is_nonnegative(std::size_t i) const {
    return set_.all_nonnegative || (set_.nonnegative && set_.nonnegative[i]);
}

// Whether a coordinate may change its sign within a face.
bool QuadraticMinimiser::is_unpriced_and_free(std::int64_t i) const {
    return prices_[std::size_t(i)] == 0 && !is_nonnegative(std::size_t(i));
}

double QuadraticMinimiser::price(std::size_t i) const {
    const double u = set_.u ? set_.u[i] : 0.0;
    return prices_[i] * (1 + (x_[i] < 0 ? -u : u));
}

}  // namespace levelprox
