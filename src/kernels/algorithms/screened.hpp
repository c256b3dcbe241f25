// Projected steps that read only the coordinates that may move.
//
//     x+ = P(v),   v = x - t (g + q + gamma (x - c)),   P onto {sum omega_i (|x_i| + u_i x_i) <= tau}, |u| <= 1
//
// g is the gradient of a minibatch and touches few coordinates, q a full gradient or nothing. The ends of
// P are known from their multiplier y alone: a coordinate with |v_j| <= y w_j, w_j its price on the side of
// v_j, goes to zero. So guess kappa, leave out the coordinates that are zero now and have
// |v_j| <= kappa w_j, and project the others. Call the multiplier found y'.
//
//   y' >= kappa: at y' the coordinates left out are at zero and add nothing to the level. They satisfy the
//                optimality conditions of the whole problem, so this is its projection, not a nearby point.
//   y' < kappa:  some of them might have stayed. The level of a part is at most the level of all, so y' is
//                at most the multiplier y of the whole: do it again with kappa = y', and at worst with 0.
//
// Rounding changes nothing here: |v_j| <= fl(kappa w_j) <= fl(y' w_j), as rounding keeps order, so the
// passes of the projection, which form |v_j| - fl(w_j y'), would have written the same zeros.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "algorithms/ball.hpp"
#include "algorithms/design.hpp"
#include "algorithms/projection.hpp"

namespace levelprox {

class Screened {
public:
    // `full` is q, or null for none; x is changed in place; `multiplier` is a guess of y per unit step.
    Screened(const Ball<double> &set, std::int64_t d, const double *center, double gamma, const double *full, double *x,
             double multiplier)
        : set_(set), d_(d), center_(center), gamma_(gamma), full_(full), x_(x), gradient_(d), in_base_(d), touched_(d),
          base_(d + 1), index_(d + 1), v_(d + 1), projected_(d), multiplier_(multiplier) {
        if (set_.u) u_.resize(d);
        if (set_.omega) omega_.resize(d);
        if (set_.nonnegative) nonnegative_.resize(d);
        for (std::int64_t j = 0; set_.u && j < d; ++j) u_outside_ |= set_.u[j] != 0 && center_[j] == 0;
        find_base();
    }

    // Where the minibatch adds g; zero again after each step.
    double *gradient() { return gradient_.data(); }
    const double *x() const { return x_; }
    Touched &touched() { return touched_; }

    // One step of length t, once `touched` has collected where the gradient is. Unless it is done, x stays where it
    // was.
    Projected step(double t) {
        double kappa = multiplier_ * t * share_;
        if (!std::isfinite(kappa)) kappa = 0;
        if (full_) shorten(kappa / t);
        const std::int64_t candidates =
            base_count_ + (touched_.end() - touched_.begin()) + std::int64_t(shortlist_.size());
        const Projection outcome = candidates > d_ / MANY ? whole_step(t) : screened_step(t, kappa);
        if (outcome.status == Projected::done) multiplier_ = outcome.multiplier / t;
        for (const std::int64_t j : touched_) gradient_[j] = 0;
        return outcome.status;
    }

    double multiplier() const { return multiplier_; }  // of the last projection, per unit step
    std::int64_t projections() const { return projections_; }
    std::int64_t listed() const { return listed_total_; }

private:
    static constexpr std::int64_t MANY = 4;  // coordinates are many from a fourth of all on
    // kappa as a part of the last multiplier: less after a guess that was too high, slowly more again.
    static constexpr double CAUTION = 0.8, BOLDEST = 0.95, RECOVERY = 0.02, ALMOST = 1 - 1e-9;

    // Many coordinates: go through memory in its order, and project all of them.
    Projection whole_step(double t) {
        const auto move_all = [&](auto q) {
            std::int64_t count = 0;
            for (std::int64_t j = 0; j < d_; ++j) {
                v_[j] = moved(j, q(j), t);
                count += (x_[j] != 0) | (center_[j] != 0);
            }
            base_count_ = count;  // of x as it was: enough to choose the kind of the next step
        };
        if (full_) move_all([&](std::int64_t j) { return full_[j]; });
        else move_all([](std::int64_t) { return 0.0; });
        base_known_ = false;
        Ball<double> all = set_;
        all.d = d_;
        all.v = v_.data();
        ++projections_;
        listed_total_ += d_;
        return project(all, multiplier_ * t, x_);
    }

    Projection screened_step(double t, double kappa) {
        if (!base_known_) find_base();
        Projection outcome = try_step(t, kappa);
        if (outcome.status == Projected::done && outcome.multiplier < kappa) {
            share_ *= CAUTION;
            kappa = outcome.multiplier * ALMOST;
            outcome = try_step(t, kappa);
            if (outcome.status == Projected::done && outcome.multiplier < kappa) outcome = try_step(t, 0);
        } else {
            share_ += (BOLDEST - share_) * RECOVERY;
        }
        if (outcome.status == Projected::done) write();
        return outcome;
    }

    void find_base() {
        base_count_ = 0;
        for (std::int64_t j = 0; j < d_; ++j) {
            in_base_[j] = (x_[j] != 0) | (center_[j] != 0);
            base_[base_count_] = j;
            base_count_ += in_base_[j];
        }
        base_known_ = true;
    }

    Projection try_step(double t, double kappa) {
        list(t, kappa);
        Ball<double> part = set_;
        part.d = listed_;
        part.v = v_.data();
        if (set_.u) part.u = u_.data();
        if (set_.omega) part.omega = omega_.data();
        if (set_.nonnegative) part.nonnegative = nonnegative_.data();
        ++projections_;
        listed_total_ += listed_;
        return project(part, multiplier_ * t, projected_.data());
    }

    // A list in the making. A put has no branch: what is kept follows from memory far away, and a guess of the
    // processor's that fails would wait for it. Lists are passed by value, so that they stay in registers.
    struct List {
        std::int64_t *index;
        double *v;
        std::int64_t count = 0;
        void put(std::int64_t j, double value, bool keep) {
            index[count] = j;
            v[count] = value;
            count += keep;
        }
    };

    // v of every coordinate that kappa does not send to zero.
    void list(double t, double kappa) {
        if (full_) shorten(kappa / t);
        listed_ = add_shortlist(t, kappa, add_touched(t, kappa, add_base(t, {index_.data(), v_.data()}))).count;
        for (std::int64_t k = 0; set_.u && k < listed_; ++k) u_[k] = set_.u[index_[k]];
        for (std::int64_t k = 0; set_.omega && k < listed_; ++k) omega_[k] = set_.omega[index_[k]];
        for (std::int64_t k = 0; set_.nonnegative && k < listed_; ++k) nonnegative_[k] = set_.nonnegative[index_[k]];
    }

    List add_base(double t, List to) const {
        for (std::int64_t k = 0; k < base_count_; ++k) to.put(base_[k], moved(base_[k], q(base_[k]), t), true);
        return to;
    }

    List add_touched(double t, double kappa, List to) const {
        for (const std::int64_t j : touched_) {
            const double v = -t * (gradient_[j] + q(j));
            to.put(j, v, !in_base_[j] & !is_screened(j, v, kappa));
        }
        return to;
    }

    // Of the coordinates that q alone may move, those in neither of the other lists.
    List add_shortlist(double t, double kappa, List to) const {
        const std::int64_t *touched = touched_.begin();
        for (const std::int64_t j : shortlist_) {  // both lists rise
            while (touched != touched_.end() && *touched < j) ++touched;
            const bool seen = in_base_[j] || (touched != touched_.end() && *touched == j);
            const double v = -t * full_[j];
            to.put(j, v, !seen & !is_screened(j, v, kappa));
        }
        return to;
    }

    double moved(std::int64_t j, double q, double t) const {
        return x_[j] - t * (gradient_[j] + q + gamma_ * (x_[j] - center_[j]));
    }

    double q(std::int64_t j) const { return full_ ? full_[j] : 0.0; }

    // Whether v_j of a coordinate outside the base goes to zero for every multiplier from kappa on. Not so for
    // NaN: the projection will report it.
    bool is_screened(std::int64_t j, double v, double kappa) const {
        return ((v < 0) & must_be_nonnegative(j)) | (std::fabs(v) <= kappa * price(j, v));
    }

    bool must_be_nonnegative(std::int64_t j) const {
        return set_.all_nonnegative || (set_.nonnegative && set_.nonnegative[j]);
    }

    // As the projection forms it: omega (1 + sign(v) u). Only for j outside the base, where u is mostly 0.
    double price(std::int64_t j, double v) const {
        const double w = u_outside_ ? 1 + (v < 0 ? -set_.u[j] : set_.u[j]) : 1.0;
        return set_.omega ? w * set_.omega[j] : w;
    }

    // Make the shortlist hold every j with |q_j| > ratio w_j, and not many more: those that may leave zero
    // although the batch does not touch them. With ratio = 0, an inactive constraint, that is all of q.
    void shorten(double ratio) {
        if (ratio >= floor_ && (ratio <= 8 * floor_ || ratio == 0)) return;
        floor_ = std::isfinite(ratio) ? ratio / 2 : 0;
        shortlist_.clear();
        for (std::int64_t j = 0; j < d_; ++j) {
            const double v = -full_[j];
            if (v == 0 || (v < 0 && must_be_nonnegative(j)) || std::fabs(v) <= floor_ * price(j, v)) continue;
            shortlist_.push_back(j);
        }
    }

    void write() {
        std::int64_t count = 0;
        for (std::int64_t k = 0; k < listed_; ++k) {
            const std::int64_t j = index_[k];
            x_[j] = projected_[k];
            const bool stays = x_[j] != 0 || center_[j] != 0;
            base_[count] = j;
            count += stays;
            in_base_[j] = stays;
        }
        base_count_ = count;
    }

    Ball<double> set_;
    std::int64_t d_;
    const double *center_;
    double gamma_;
    const double *full_;
    double *x_;
    bool u_outside_ = false;  // u is not 0 everywhere where c is
    std::vector<double> gradient_;
    std::vector<std::uint8_t> in_base_;  // x_j or c_j is not zero
    Touched touched_;
    std::vector<std::int64_t> base_;
    std::int64_t base_count_ = 0;
    bool base_known_ = false;                      // or only how many there are
    std::vector<std::int64_t> index_, shortlist_;  // the coordinates listed; zero ones with a large q
    std::int64_t listed_ = 0;
    std::vector<double> v_, u_, omega_, projected_;
    std::vector<std::uint8_t> nonnegative_;
    double floor_ = std::numeric_limits<double>::infinity();
    double share_ = 0.5, multiplier_;
    std::int64_t projections_ = 0, listed_total_ = 0;
};

}  // namespace levelprox
