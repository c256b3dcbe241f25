#include "algorithms/level_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/quadratic.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

using Vector = std::vector<double>;
constexpr double LAST_DIGITS = 4 * std::numeric_limits<double>::epsilon();
constexpr double LEVEL_DIGITS = 32 * std::numeric_limits<double>::epsilon();
constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double RIDGE = 1e-12;  // of the diagonal of H: equal columns must not make it singular
constexpr int MOST_STEPS = 500;
constexpr int PATIENCE = 5;     // steps that hardly lower the residual
constexpr double HARDLY = 0.9;  // of the residual before
constexpr int MOST_TIGHTENINGS = 3;
constexpr double LEAST_PRODUCTS = 500, MOST_PRODUCTS = 5000;  // with H, of one subproblem,
constexpr double MULTIPLICATIONS = 3e8;                       // and of what these may cost

class LevelModel {
public:
    LevelModel(const LevelSet &set, const FeatureUnits &units, const double *hessian,
               const LevelModelSettings &settings, LevelModelState &state, Poll &poll)
        : set_(set), units_(units), hessian_(hessian), settings_(settings), state_(state), poll_(poll),
          d_(std::size_t(set.dimension())), center_(state.x), slope_(state.gradient), value_(state.psi), diagonal_(d_),
          ridge_(d_), bends_(d_), model_(set.dimension(), hessian, ridge_.data()) {
        for (std::size_t i = 0; i < d_; ++i) {
            diagonal_[i] = hessian[i * d_ + i];
            ridge_[i] = RIDGE * diagonal_[i] + settings.gamma;
            bends_[i] = diagonal_[i] + ridge_[i];
        }
    }

    void run() {
        const bool free = set_.is_vacuous();
        int patience = PATIENCE;
        while (state_.steps < MOST_STEPS && patience > 0 && !is_enough()) {
            const double before = state_.psi, last = state_.residual;
            step(free);
            ++state_.steps;
            measure();
            if (!free) polish();
            if (state_.residual > HARDLY * last) --patience;
            // A step that was only rounding lowers neither the residual nor, up to its last digits, q.
            if (state_.residual >= last && state_.psi >= before - LAST_DIGITS * std::fabs(before)) return;
            poll_.check();
        }
    }

private:
    bool is_enough() const { return state_.residual <= settings_.enough.at(state_.y); }

    // Of q: its own, and what it costs that every point is a few units in the last place inside the level.
    double last_digits() const { return LAST_DIGITS * std::fabs(state_.psi) + LEVEL_DIGITS * state_.y * set_.level; }

    void measure() {
        const Best best =
            kkt_residual(set_, units_, state_.x.data(), state_.gradient.data(), settings_.scale, settings_.curvature);
        state_.residual = std::max(best.stationarity, best.complementarity);
        state_.y = best.y;
    }

    // q and its gradient at x; false, and the state unchanged, where q is above the value at the last point or is not
    // finite. `proximal` is gamma/2 |x - last|^2.
    bool accept(const Vector &x, double proximal) {
        Vector move(d_), gradient(d_);
        for (std::size_t i = 0; i < d_; ++i) move[i] = x[i] - center_[i];
        model_.add_product(move.data(), gradient.data());
        double rise = 0;
        for (std::size_t i = 0; i < d_; ++i) {
            rise += move[i] * (slope_[i] + gradient[i] / 2);
            gradient[i] += slope_[i];
        }
        const double psi = value_ + rise;
        if (!(psi + proximal <= state_.psi + last_digits())) return false;
        if (!std::all_of(gradient.begin(), gradient.end(), [](double g) { return std::isfinite(g); })) return false;
        state_.x = x;
        state_.psi = psi;
        state_.gradient = std::move(gradient);
        return true;
    }

    // One step of LCPP. g_k >= g holds up to rounding: where that violates the level, which happens for large |x|, the
    // step is repeated in a smaller set, and in the worst case x stays.
    void step(bool free) {
        SurrogateSet near =
            settings_.surrogate ? settings_.surrogate(state_.x.data()) : majorise(set_, state_.x.data());
        if (free) near.tau = INF;
        const double lam = set_.penalty->lam;
        const Vector center = state_.x;  // of the proximal term
        for (int tries = 0; tries < MOST_TIGHTENINGS; ++tries) {
            const LevelModelState before = state_;
            for (int n = 0; n < settings_.max_steps; ++n)
                if (!minimise(near, center)) break;
            const double excess = set_.g(state_.x.data()) - set_.level;
            if (excess <= 0) return;
            const int projections = state_.projections;
            state_ = before;
            state_.projections = projections;
            near.tau = std::max(0.0, near.tau - 4 * excess / lam);
        }
    }

    // Minimises q, with its proximal term, over the surrogate set. Returns false if x stays.
    bool minimise(const SurrogateSet &near, const Vector &center) {
        const double lam = set_.penalty->lam, gamma = settings_.gamma;
        Vector slope = state_.gradient;
        if (gamma > 0)
            for (std::size_t i = 0; i < d_; ++i) slope[i] += gamma * (state_.x[i] - center[i]);
        QuadraticState found;
        found.x = state_.x;
        found.multiplier = state_.multiplier * lam;
        const double products = std::clamp(MULTIPLICATIONS / (double(d_) * double(d_)), LEAST_PRODUCTS, MOST_PRODUCTS);
        minimise_quadratic(model_, slope.data(), bends_.data(), near.ball(set_), {settings_.accuracy, int(products)},
                           found, factor_, poll_);
        state_.multiplier = found.multiplier / lam;
        state_.projections += found.projections;
        if (found.x == state_.x) return false;
        double proximal = 0;
        if (gamma > 0)
            for (std::size_t i = 0; i < d_; ++i) {
                const double to = found.x[i] - center[i], from = state_.x[i] - center[i];
                proximal += gamma / 2 * (to * to - from * from);
            }
        return accept(found.x, proximal);
    }

    // Newton steps on the KKT system, for as long as the residual halves.
    void polish() {
        while (!is_enough() && state_.y > 0) {
            const std::vector<std::int64_t> places = free_places(set_, state_.x.data());
            const std::size_t m = places.size();
            if (m == 0) return;
            Vector block(m * m), x = state_.x;
            for (std::size_t i = 0; i < m; ++i)
                for (std::size_t j = 0; j < m; ++j)
                    block[i * m + j] = hessian_[std::size_t(places[i]) * d_ + std::size_t(places[j])];
            const double last = state_.residual, y = state_.y;
            if (!kkt_newton_step(set_, units_, places, std::move(block), state_.gradient.data(), y, x, saddle_)) return;
            if (!accept(x, 0)) return;
            state_.multiplier = y;
            measure();
            if (state_.residual > last / 2) return;
            poll_.check();
        }
    }

    const LevelSet &set_;
    const FeatureUnits &units_;
    const double *hessian_;
    LevelModelSettings settings_;
    LevelModelState &state_;
    Poll &poll_;
    std::size_t d_;
    Vector center_, slope_;  // c and the gradient there
    double value_;           // q(c)
    Vector diagonal_, ridge_, bends_;
    DenseQuadratic model_;
    FaceFactor factor_;
    SaddleDirection saddle_;
};

}  // namespace

void solve_level_model(const LevelSet &set, const FeatureUnits &units, const double *hessian,
                       const LevelModelSettings &settings, LevelModelState &state, Poll &poll) {
    LevelModel(set, units, hessian, settings, state, poll).run();
}

}  // namespace levelprox
