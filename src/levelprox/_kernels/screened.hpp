// Projected steps that look only at the coordinates they may move.
//
//     x+ = P(v),   v = x - t (g + q + gamma (x - c)),   P onto {sum omega_i (|x_i| + u_i x_i) <= tau}, |u| <= 1
//
// g is the gradient of a minibatch and touches few coordinates, q a full gradient or nothing. The ends of
// P are known from their multiplier y alone: a coordinate with |v_j| <= y w_j, w_j its price on the side of
// v_j, goes to zero. So guess kappa, leave out the coordinates that are zero now and have
// |v_j| <= kappa w_j, and project the others. Call the multiplier found y'.
//
//   y' >= kappa: at y' the coordinates left out are at zero and add nothing to the level. They obey the
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

#include "ball.hpp"
#include "design.hpp"
#include "projection.hpp"

namespace levelprox {

class Screened {
public:
    // `full` is q, or null for none; x is changed in place; `multiplier` is a guess of y per unit step.
    Screened(const Ball<double> &set, std::int64_t d, const double *center, double gamma, const double *full, double *x,
             double multiplier)
        : set_(set), d_(d), center_(center), gamma_(gamma), full_(full), x_(x), gradient_(d), marks_(d), touched_list_(d + 1),
          touched_{marks_.data(), touched_list_.data()}, base_(d), index_(d), v_(d), projected_(d), multiplier_(multiplier) {
        if (set_.u) u_.resize(d);
        if (set_.omega) omega_.resize(d);
        if (set_.nonnegative) nonnegative_.resize(d);
        for (std::int64_t j = 0; j < d; ++j) {
            if (x_[j] == 0 && center_[j] == 0) continue;
            base_[in_base_++] = j;
            marks_[j] = BASE;
        }
    }

    // Where the minibatch adds g; zero again after each step.
    double *gradient() { return gradient_.data(); }
    const double *x() const { return x_; }
    Touched &touched() { return touched_; }

    // One step of length t. Unless it is done, x stays where it was.
    Projected step(double t) {
        double kappa = multiplier_ * t * share_;
        if (!std::isfinite(kappa)) kappa = 0;
        Projection outcome = try_step(t, kappa);
        if (outcome.status == Projected::done && outcome.multiplier < kappa) {
            share_ *= CAUTION;
            kappa = outcome.multiplier * ALMOST;
            outcome = try_step(t, kappa);
            if (outcome.status == Projected::done && outcome.multiplier < kappa) outcome = try_step(t, 0);
        } else {
            share_ += (BOLDEST - share_) * RECOVERY;
        }
        if (outcome.status == Projected::done) {
            multiplier_ = outcome.multiplier / t;
            write();
        }
        forget_batch();
        return outcome.status;
    }

    double multiplier() const { return multiplier_; }  // of the last projection, per unit step
    std::int64_t projections() const { return projections_; }
    std::int64_t listed() const { return listed_total_; }

private:
    static constexpr std::uint8_t BASE = 2;  // x_j or c_j is not zero
    // kappa as a part of the last multiplier: less after a guess that was too high, slowly more again.
    static constexpr double CAUTION = 0.8, BOLDEST = 0.95, RECOVERY = 0.02, ALMOST = 1 - 1e-9;

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

    // v of every coordinate that kappa does not send to zero.
    void list(double t, double kappa) {
        listed_ = 0;
        for (std::int64_t k = 0; k < in_base_; ++k) {
            const std::int64_t j = base_[k];
            put(j, x_[j] - t * (gradient_[j] + q(j) + gamma_ * (x_[j] - center_[j])));
        }
        for (std::int64_t k = 0; k < touched_.count; ++k) {
            const std::int64_t j = touched_.list[k];
            if (!(marks_[j] & BASE)) put_unless_screened(j, -t * (gradient_[j] + q(j)), kappa);
        }
        if (!full_) return;
        shorten(kappa / t);
        for (const std::int64_t j : shortlist_)
            if (!marks_[j]) put_unless_screened(j, -t * full_[j], kappa);
    }

    double q(std::int64_t j) const { return full_ ? full_[j] : 0.0; }

    void put(std::int64_t j, double v) {
        index_[listed_] = j;
        v_[listed_] = v;
        if (set_.u) u_[listed_] = set_.u[j];
        if (set_.omega) omega_[listed_] = set_.omega[j];
        if (set_.nonnegative) nonnegative_[listed_] = set_.nonnegative[j];
        ++listed_;
    }

    void put_unless_screened(std::int64_t j, double v, double kappa) {
        if (v < 0 && must_be_nonnegative(j)) return;
        if (std::fabs(v) <= kappa * price(j, v)) return;  // not so for NaN: the projection will report it
        put(j, v);
    }

    bool must_be_nonnegative(std::int64_t j) const { return set_.all_nonnegative || (set_.nonnegative && set_.nonnegative[j]); }

    // As the projection forms it: omega (1 + sign(v) u).
    double price(std::int64_t j, double v) const {
        const double w = set_.u ? 1 + (v < 0 ? -set_.u[j] : set_.u[j]) : 1.0;
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
        in_base_ = 0;
        for (std::int64_t k = 0; k < listed_; ++k) {
            const std::int64_t j = index_[k];
            x_[j] = projected_[k];
            const bool stays = x_[j] != 0 || center_[j] != 0;
            base_[in_base_] = j;
            in_base_ += stays;
            marks_[j] = stays ? BASE : 0;
        }
    }

    void forget_batch() {
        for (std::int64_t k = 0; k < touched_.count; ++k) {
            const std::int64_t j = touched_.list[k];
            gradient_[j] = 0;
            marks_[j] &= BASE;
        }
        touched_.count = 0;
    }

    Ball<double> set_;
    std::int64_t d_;
    const double *center_;
    double gamma_;
    const double *full_;
    double *x_;
    std::vector<double> gradient_;
    std::vector<std::uint8_t> marks_;
    std::vector<std::int64_t> touched_list_;
    Touched touched_;
    std::vector<std::int64_t> base_;  // supp(x) and supp(c)
    std::int64_t in_base_ = 0;
    std::vector<std::int64_t> index_, shortlist_;  // the coordinates listed; zero ones with a large q
    std::int64_t listed_ = 0;
    std::vector<double> v_, u_, omega_, projected_;
    std::vector<std::uint8_t> nonnegative_;
    double floor_ = std::numeric_limits<double>::infinity();
    double share_ = 0.5, multiplier_;
    std::int64_t projections_ = 0, listed_total_ = 0;
};

}  // namespace levelprox
