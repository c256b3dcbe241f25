#include "algorithms/quadratic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cholesky.hpp"
#include "algorithms/projection.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double LONGEST = 1e10, SHORTEST = 1e-10;  // of steps, where Q has a unit diagonal
constexpr double CG_ENOUGH = 1e-8;                  // by which the square of the residual falls on a face
constexpr int MANY = 3;                             // coordinates that leave a face at once
constexpr double WORTHWHILE = 0.5;                  // of a step
constexpr double MOST_SHORTENED = 1e-12;            // of x, for its rounding
constexpr int SHORTER = 8;                          // tries of a step on a curved face
constexpr int SETTLED = 2;                          // steps on the same face before it is searched
constexpr int RESTLESS = 20;         // steps without that: faces that change for ever, where Q hardly bends
constexpr double BEYOND = 1e3;       // times what the level allows: a step that says nothing of where x goes
constexpr std::size_t DIRECT = 128;  // coordinates of a face whose system is factorised
constexpr double SMALLEST = std::numeric_limits<double>::min();

using Vector = std::vector<double>;

double dot(const Vector &a, const Vector &b) {
    return simd().dense<double>().dot(std::int64_t(a.size()), a.data(), b.data());
}

double largest(const Vector &a) {
    double most = 0;
    for (const double value : a) most = std::max(most, std::fabs(value));
    return most;
}

class Minimiser {
public:
    Minimiser(const Quadratic &Q, const double *gradient, const double *diagonal, const Ball<double> &set,
              const QuadraticSettings &settings, QuadraticState &state, Poll &poll)
        : Q_(Q), set_(set), scaled_(set), settings_(settings), state_(state), poll_(poll), d_(state.x.size()),
          width_(std::size_t(set.width)), unit_(d_), prices_(d_ / width_), x_(d_), slope_(d_), shifted_(d_), trial_(d_),
          move_(d_), image_(d_), spread_(d_) {
        for (std::size_t j = 0; j < prices_.size(); ++j) {
            double bend = 0, pull = 0;  // one unit for all coefficients of a feature: their norm must stay a norm
            for (std::size_t k = 0; k < width_; ++k) {
                bend += diagonal[j * width_ + k] / double(width_);
                pull = std::max(pull, std::fabs(gradient[j * width_ + k]));
            }
            const double omega = set.omega ? set.omega[j] : 1.0;
            // Where Q hardly bends its own unit would take a coordinate far beyond what the level allows.
            if (set.tau > 0 && bend >= SMALLEST) bend = std::max(bend, pull * (omega / set.tau) / BEYOND);
            const double unit = bend > 0 ? 1 / std::sqrt(bend) : 1.0;
            std::fill_n(unit_.begin() + std::ptrdiff_t(j * width_), width_, unit);
            // Without a level nothing has a price, and signs may change freely.
            prices_[j] = std::isinf(set.tau) ? 0.0 : omega * unit;
        }
        for (std::size_t i = 0; i < d_; ++i) {
            x_[i] = state.x[i] / unit_[i];
            slope_[i] = gradient[i] * unit_[i];
        }
        scaled_.omega = prices_.data();
        begin_ = x_, first_slope_ = slope_;
    }

    void run() {
        double step = 1, first = 0;
        int settled = 0, restless = 0;
        while (true) {
            look(step);
            double residual = largest(move_) / step;
            if (first == 0) first = residual;
            const double enough = std::max(settings_.relative * first, 8 * EPS * largest(x_));
            if (step > 1 && residual <= enough) {  // the set may have cut a long step short, and the residual with it
                step = 1;
                look(step);
                residual = largest(move_);
            }
            state_.residual = first > 0 ? residual / first : 0;
            state_.accurate = residual <= enough;
            if (state_.accurate || exhausted()) return;
            const bool same = same_face();
            apply(move_, image_);
            const double length = dot(move_, move_), bend = dot(move_, image_);
            // A projected step falls by at least |move|²/step; near the end that is lost in the rounding of <slope,
            // move>.
            if (!advance(bend, length / step)) return;
            step = std::clamp(bend > 0 ? length / bend : 1.0, SHORTEST, LONGEST);
            settled = same ? settled + 1 : 0;
            if (settled >= SETTLED || ++restless >= RESTLESS)
                width_ == 1 ? search_face() : search_groups(), settled = restless = 0;
            poll_.check();
        }
    }

    // In the user's coordinates again. Rounding may have carried x out of the set by a few units in the last place.
    void finish() {
        // The model is a parabola: half the sum of its slopes at both ends tells the fall between them.
        double fall = 0;
        for (std::size_t i = 0; i < d_; ++i) fall -= (x_[i] - begin_[i]) * (first_slope_[i] + slope_[i]) / 2;
        state_.decrease = fall;
        for (std::size_t i = 0; i < d_; ++i) shifted_[i] = x_[i] * unit_[i];
        // Of those units a projection would take the same from every coordinate, and all of a small one: where columns
        // differ in scale it is another point. A shorter x is in the set as well, and every coordinate keeps its
        // digits.
        double excess = project_onto(set_, shifted_.data(), 0, state_.x.data()).multiplier;
        for (double less = 4 * EPS; excess > 0 && less < MOST_SHORTENED; less *= 2) {
            for (double &value : shifted_) value *= 1 - less;
            excess = project_onto(set_, shifted_.data(), 0, state_.x.data()).multiplier;
            ++state_.projections;
        }
        ++state_.projections;
    }

private:
    // move_ = P(x - step·slope) - x, and the multiplier of that projection per unit step.
    void look(double step) {
        for (std::size_t i = 0; i < d_; ++i) shifted_[i] = x_[i] - step * slope_[i];
        project_into(shifted_, trial_, state_.multiplier * step);
        state_.multiplier = last_multiplier_ / step;
        for (std::size_t i = 0; i < d_; ++i) move_[i] = trial_[i] - x_[i];
    }

    void project_into(const Vector &from, Vector &to, double guess) {
        last_multiplier_ = project_onto(scaled_, from.data(), guess, to.data()).multiplier;
        ++state_.projections;
    }

    // x += t·move with the best t in [0, 1]; image_ is Q·move. False where nothing is gained any more.
    bool advance(double bend, double least = 0) {
        const double fall = std::max(-dot(slope_, move_), least);
        if (!(fall > 0) || !std::isfinite(fall) || !std::isfinite(bend)) return false;
        const double t = bend > fall ? fall / bend : 1.0;
        for (std::size_t i = 0; i < d_; ++i) {
            // A whole step lands where the projection put it: on zeros exactly.
            x_[i] = t == 1 ? x_[i] + move_[i] : x_[i] + t * move_[i];
            if (t == 1 && trial_[i] == 0) x_[i] = 0;
            slope_[i] += t * image_[i];
        }
        return true;
    }

    bool same_face() const {
        for (std::size_t i = 0; i < d_; ++i)
            if ((trial_[i] > 0) != (x_[i] > 0) || (trial_[i] < 0) != (x_[i] < 0)) return false;
        return true;
    }

    void apply(const Vector &v, Vector &out) {
        for (std::size_t i = 0; i < d_; ++i) spread_[i] = v[i] * unit_[i];
        Q_.apply(spread_.data(), out.data(), poll_);
        for (std::size_t i = 0; i < d_; ++i) out[i] *= unit_[i];
        ++state_.products;
    }

    // Products with Q, and what conjugate gradients on a part of it come to.
    bool exhausted() const { return state_.products + work_ >= settings_.max_products; }

    bool bounded_below(std::size_t i) const {
        return set_.all_nonnegative || (set_.nonnegative && set_.nonnegative[i]);
    }

    // Whether a coordinate is free to change its sign on the way.
    bool may_turn(std::int64_t i) const { return prices_[std::size_t(i)] == 0 && !bounded_below(std::size_t(i)); }

    double price(std::size_t i) const {
        const double u = set_.u ? set_.u[i] : 0.0;
        return prices_[i] * (1 + (x_[i] < 0 ? -u : u));
    }

    // Minimise over the coordinates that are not zero (and those that cost nothing), with the level held if it binds:
    // straight towards the minimiser of the face, dropping the first coordinate that would change its sign on the way,
    // and on from there. Along a direction in which Q hardly bends that is the way to the next corner.
    void search_face() {
        bool binds = state_.multiplier > 0;
        for (std::size_t corner = 0; corner <= d_; ++corner) {
            std::vector<std::int64_t> face;
            Vector normal;
            double spent = 0;
            for (std::size_t i = 0; i < d_; ++i) {
                if (x_[i] == 0 && !may_turn(std::int64_t(i))) continue;
                face.push_back(std::int64_t(i));
                normal.push_back(x_[i] == 0 ? 0.0 : std::copysign(price(i), x_[i]));
                spent += std::fabs(normal.back() * x_[i]);
            }
            binds = binds && spent >= set_.tau * (1 - 1e-9);
            const Vector found = minimiser_on(face, binds ? normal : Vector(face.size()));
            double t = 1, costs = 0;
            std::int64_t blocking = -1;
            int changing = 0;
            for (std::size_t k = 0; k < face.size(); ++k) {
                const std::int64_t i = face[k];
                costs += normal[k] * found[k];
                if (may_turn(i)) continue;
                const double until = x_[i] * found[k] < 0 ? -x_[i] / found[k] : 2.0;
                if (until < t) t = until, blocking = i;
                changing += until < 1;
            }
            if (changing > MANY && leap(face, found)) continue;
            bool reaches_level = false;
            if (!binds && costs > 0 && spent + t * costs > set_.tau) {
                t = std::max(0.0, (set_.tau - spent) / costs), blocking = -1, reaches_level = true;
            }
            std::fill(move_.begin(), move_.end(), 0.0);
            for (std::size_t k = 0; k < face.size(); ++k) {
                const std::int64_t i = face[k];
                move_[i] = t * found[k];
                // Columns that repeat one another reach zero together; rounding must not carry one of them past it.
                const bool arrives = i == blocking || (x_[i] + move_[i]) * x_[i] <= 0;
                if (arrives && !may_turn(i)) move_[i] = -x_[i];
            }
            apply(move_, image_);
            for (std::size_t i = 0; i < d_; ++i) x_[i] += move_[i], slope_[i] += image_[i];
            if (reaches_level) {
                binds = true;
                if (t == 0 && corner > 0) return;
                continue;
            }
            if (blocking < 0 || exhausted()) return;
            poll_.check();
        }
    }

    // The same for features of several coefficients, whose face is curved: one Newton step on the Lagrangian, which
    // bends by y p_j / |x_j| across x_j, and the projection of where it leads.
    void search_groups() {
        std::vector<std::int64_t> face;
        Vector normal, norms;
        for (std::size_t j = 0; j < prices_.size(); ++j) {
            double square = 0;
            for (std::size_t k = 0; k < width_; ++k) square += x_[j * width_ + k] * x_[j * width_ + k];
            if (square == 0 && prices_[j] > 0) continue;
            norms.push_back(std::sqrt(square));
            for (std::size_t k = 0; k < width_; ++k) {
                face.push_back(std::int64_t(j * width_ + k));
                normal.push_back(square > 0 ? prices_[j] * x_[face.back()] / norms.back() : 0.0);
            }
        }
        if (!(state_.multiplier > 0)) std::fill(normal.begin(), normal.end(), 0.0);
        Vector found = conjugate_gradients(face, normal, norms);
        // Where Q hardly bends the step is so long that the curved face is another where it leads: a shorter one.
        for (int tries = 0; tries < SHORTER && !leap(face, found); ++tries)
            for (double &value : found) value /= 4;
    }

    // Qp += y (p_j / |x_j|) (p - u <u, p>), feature by feature, u = x_j / |x_j|; `normal` is p_j u.
    void bend_groups(const Vector &normal, const Vector &norms, const Vector &p, Vector &Qp) const {
        for (std::size_t j = 0; j < norms.size(); ++j) {
            double square = 0, along = 0;
            for (std::size_t k = j * width_; k < (j + 1) * width_; ++k)
                square += normal[k] * normal[k], along += normal[k] * p[k];
            if (square == 0) continue;
            const double bend = state_.multiplier * std::sqrt(square) / norms[j];
            for (std::size_t k = j * width_; k < (j + 1) * width_; ++k)
                Qp[k] += bend * (p[k] - normal[k] * along / square);
        }
    }

    // Many coordinates at once, by the projection of the face's minimiser; false where that is hardly a way down.
    bool leap(const std::vector<std::int64_t> &face, const Vector &found) {
        shifted_ = x_;
        for (std::size_t k = 0; k < face.size(); ++k) shifted_[face[k]] += found[k];
        project_into(shifted_, trial_, 0);
        for (std::size_t i = 0; i < d_; ++i) move_[i] = trial_[i] - x_[i];
        apply(move_, image_);
        const double bend = dot(move_, image_), fall = -dot(slope_, move_);
        return fall > WORTHWHILE * bend && advance(bend);
    }

    // argmin over v of <slope, v> + v'Qv/2 on the face, with <normal, v> = 0: by its equations, where they are few.
    Vector minimiser_on(const std::vector<std::int64_t> &face, const Vector &normal) {
        Vector v = face.size() <= DIRECT ? solved_directly(face, normal) : Vector();
        return v.empty() ? conjugate_gradients(face, normal) : v;
    }

    // Empty where Q is not at hand as a matrix, or singular.
    Vector solved_directly(const std::vector<std::int64_t> &face, const Vector &normal) {
        const std::size_t m = face.size();
        Vector L(m * m), v(m), unit(m);
        if (!Q_.block(face, L.data())) return {};
        for (std::size_t j = 0; j < m; ++j) {
            if (!(L[j * m + j] >= SMALLEST)) return {};  // below it numbers have lost their digits
            unit[j] = 1 / std::sqrt(L[j * m + j]);
        }
        for (std::size_t j = 0; j < m; ++j)
            for (std::size_t k = 0; k <= j; ++k) L[j * m + k] *= unit[j] * unit[k];
        for (std::size_t k = 0; k < m; ++k) unit[k] /= unit_[face[k]];  // from the one scale to the other
        work_ += double(m) * double(m) * double(m) / 3 / (double(d_) * double(d_));
        if (!factorise(m, L)) return {};
        for (std::size_t k = 0; k < m; ++k) v[k] = -slope_[face[k]] * unit[k];
        solve_factorised(m, L, v);
        if (dot(normal, normal) > 0) {
            Vector across(m), prices(m);
            for (std::size_t k = 0; k < m; ++k) across[k] = prices[k] = normal[k] * unit[k];
            solve_factorised(m, L, across);
            const double along = dot(prices, v) / dot(prices, across);
            for (std::size_t k = 0; k < m; ++k) v[k] -= along * across[k];
        }
        for (std::size_t k = 0; k < m; ++k) v[k] *= unit[k];
        return std::all_of(v.begin(), v.end(), [](double value) { return std::isfinite(value); }) ? v : Vector();
    }

    // The same by conjugate gradients.
    Vector conjugate_gradients(const std::vector<std::int64_t> &face, const Vector &normal, const Vector &norms = {}) {
        const std::size_t m = face.size();
        Vector block(m * m), v(m), r(m), p(m), Qp(m), wide(d_), wide_image(d_);
        const bool matrix = Q_.block(face, block.data());
        if (matrix)
            for (std::size_t j = 0; j < m; ++j)
                for (std::size_t k = 0; k < m; ++k) block[j * m + k] *= unit_[face[j]] * unit_[face[k]];
        const double square = dot(normal, normal);
        const auto tangent = [&](Vector &w) {
            if (square == 0) return;
            const double along = dot(normal, w) / square;
            for (std::size_t k = 0; k < m; ++k) w[k] -= along * normal[k];
        };
        for (std::size_t k = 0; k < m; ++k) r[k] = -slope_[face[k]];
        tangent(r);
        p = r;
        double rr = dot(r, r);
        const double enough = rr * CG_ENOUGH;
        for (std::size_t n = 0; n < m + 20 && rr > enough && rr > 0 && !exhausted(); ++n) {
            if (matrix) {
                std::fill(Qp.begin(), Qp.end(), 0.0);
                simd().dense<double>().adds(std::int64_t(m), std::int64_t(m), std::int64_t(m), p.data(), block.data(),
                                            Qp.data());
            } else {
                std::fill(wide.begin(), wide.end(), 0.0);
                for (std::size_t k = 0; k < m; ++k) wide[face[k]] = p[k];
                apply(wide, wide_image);
                for (std::size_t k = 0; k < m; ++k) Qp[k] = wide_image[face[k]];
            }
            work_ += double(m) * double(m) / (double(d_) * double(d_));
            bend_groups(normal, norms, p, Qp);
            const double bend = dot(p, Qp);
            if (!(bend > 0) || !std::isfinite(bend)) break;
            const double t = rr / bend;
            for (std::size_t k = 0; k < m; ++k) v[k] += t * p[k], r[k] -= t * Qp[k];
            tangent(r);
            const double next = dot(r, r);
            for (std::size_t k = 0; k < m; ++k) p[k] = r[k] + next / rr * p[k];
            rr = next;
            // Products of a matrix-free Q are passes over the data: no more of them than the model is worth.
            if (!matrix && std::sqrt(rr) <= settings_.relative * std::sqrt(enough / CG_ENOUGH)) break;
            poll_.check();
        }
        return v;
    }

    const Quadratic &Q_;
    Ball<double> set_, scaled_;
    QuadraticSettings settings_;
    QuadraticState &state_;
    Poll &poll_;
    std::size_t d_, width_;
    Vector unit_, prices_, x_, slope_, shifted_, trial_, move_, image_, spread_, begin_, first_slope_;
    double last_multiplier_ = 0, work_ = 0;
};

}  // namespace

void DenseQuadratic::apply(const double *v, double *out, Poll &) const {
    for (std::int64_t i = 0; i < d_; ++i) out[i] = ridge_[i] * v[i];
    simd().dense<double>().adds(d_, d_, d_, v, hessian_,
                                out);  // H is symmetric: a sum of its rows, zeros of v for free
}

bool DenseQuadratic::block(const std::vector<std::int64_t> &chosen, double *out) const {
    const std::size_t m = chosen.size();
    for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t k = 0; k < m; ++k) out[j * m + k] = hessian_[chosen[j] * d_ + chosen[k]];
        out[j * m + j] += ridge_[chosen[j]];
    }
    return true;
}

void minimise_quadratic(const Quadratic &Q, const double *gradient, const double *diagonal, const Ball<double> &set,
                        const QuadraticSettings &settings, QuadraticState &state, Poll &poll) {
    Minimiser minimiser(Q, gradient, diagonal, set, settings, state, poll);
    minimiser.run();
    minimiser.finish();
}

}  // namespace levelprox
