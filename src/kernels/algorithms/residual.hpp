// How far a KKT system is from holding, as a function of the multiplier y, and the best y. All figures are in the units
// of their features. With force |offset| and price |slope| of a feature:
//   stationarity     the largest of |offset + slope y| over the coordinates of the support, of offset + slope y, slope
//   <= 0,
//                    over the features at zero, and of 0;
//   complementarity  the largest force that the level is said to hold back, min(price y, force), times the part of the
//   cost
//                    of the move it stands for that the slack would pay.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace levelprox {

struct Line {
    double offset = 0, slope = 0;
    double at(double y) const { return offset + y * slope; }
    bool operator==(const Line &) const = default;
};

// Lines as Python holds them, and what each feature can cost more than it does now; one slope or room at zero stands
// for all.
struct Lines {
    std::int64_t on_support, at_zero;
    const double *support_offset, *support_slope, *zero_offset, *zero_slope;
    bool one_slope;

    Line support(std::int64_t k) const { return {support_offset[k], support_slope[k]}; }
    Line zero(std::int64_t j) const { return {zero_offset[j], zero_slope[one_slope ? 0 : j]}; }
};

// What the slack of the level would pay for.
struct Slack {
    double slack, level, curvature;  // curvature of psi along a typical column
    const double *support_room, *zero_room;
    bool one_room;

    // The part of the cost of a move that would be paid: all of it where the slack is as large as the level, too.
    double part(double price, double force, double room) const {
        double cost = std::min(level, room);
        if (curvature > 0) cost = std::min(cost, price * force / curvature);
        return slack < cost ? slack / cost : 1.0;
    }
};

struct Best {
    double y, stationarity, complementarity;
};

class Residual {
public:
    explicit Residual(const Lines &lines) : lines_(lines) {
        std::int64_t top = -1;
        double highest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < lines.at_zero; ++j)
            if (lines.zero_offset[j] > highest) {
                top = j;
                highest = lines.zero_offset[j];
            }
        if (top < 0) return;
        // Where y >= 0 all others that fall as fast or faster stay below it: of features of one weight one is left.
        zeros_.push_back(lines.zero(top));
        if (lines.one_slope) return;
        for (std::int64_t j = 0; j < lines.at_zero; ++j)
            if (lines.zero_slope[j] > zeros_.front().slope && std::isfinite(lines.zero_offset[j]))
                zeros_.push_back(lines.zero(j));
    }

    // The line on which the largest residual at y lies.
    Line highest(double y) const {
        Line best;
        double most = 0;
        for (std::int64_t k = 0; k < lines_.on_support; ++k) {
            const Line line = lines_.support(k);
            const double value = line.at(y);
            if (!(std::fabs(value) > most)) continue;
            most = std::fabs(value);
            best = value < 0 ? Line{-line.offset, -line.slope} : line;
        }
        for (const Line &line : zeros_)
            if (line.at(y) > most) {
                most = line.at(y);
                best = line;
            }
        return best;
    }

    double stationarity(double y) const { return highest(y).at(y); }

    // `zeros`, if given, are the features at zero that count.
    double complementarity(double y, const Slack &slack, const std::vector<std::int64_t> *zeros = nullptr) const {
        if (!(y > 0) || !(slack.slack > 0)) return 0;
        double most = 0;
        const auto look = [&](double force, double price, double room) {
            const double held = std::min(price * y, force);
            if (held > most) most = std::max(most, held * slack.part(price, held, room));
        };
        for (std::int64_t k = 0; k < lines_.on_support; ++k)
            look(std::fabs(lines_.support_offset[k]), std::fabs(lines_.support_slope[k]), slack.support_room[k]);
        const auto at_zero = [&](std::int64_t j) {
            look(lines_.zero_offset[j], -lines_.zero(j).slope, slack.zero_room[slack.one_room ? 0 : j]);
        };
        if (zeros)
            for (const std::int64_t j : *zeros) at_zero(j);
        else
            for (std::int64_t j = 0; j < lines_.at_zero; ++j) at_zero(j);
        return most;
    }

    // The smallest y >= 0 minimising the stationarity, by cutting planes: the maximum of lines is bracketed by one that
    // decreases and one that increases; if there is a higher line at their crossing, it replaces one of the two,
    // otherwise the crossing is the minimum.
    double most_stationary() const {
        constexpr int MANY = 200;
        Line fall = highest(0), rise;
        if (fall.slope >= 0) return 0;
        double y = 0;
        for (int look = 0; look < MANY; ++look) {
            y = (fall.offset - rise.offset) / (rise.slope - fall.slope);
            const double height = fall.at(y);
            const Line line = highest(y);
            if (line.at(y) <= height * (1 + 1e-14) + 1e-300 || line == fall || line == rise)
                return y;  // again: rounding
            (line.slope < 0 ? fall : rise) = line;
        }
        return y;
    }

    // The y >= 0 minimising the larger of both residuals. Up to the most stationary y one falls and the other rises.
    Best best(const Slack &slack) const {
        constexpr int HALVINGS = 50;
        const auto height = [](const Best &b) { return std::max(b.stationarity, b.complementarity); };
        const double y = most_stationary();
        Best high{y, stationarity(y), complementarity(y, slack)};
        if (high.complementarity <= high.stationarity) return high;
        Best low{0, stationarity(0), 0};
        Residual between = *this;  // without the features that cannot decide between low and high
        std::vector<std::int64_t> holding;
        bool all = true;
        for (int look = 0; look < HALVINGS && high.y - low.y > 1e-12 * high.y; ++look) {
            const double half = low.y + (high.y - low.y) / 2;
            const Best middle{half, between.stationarity(half),
                              all ? complementarity(half, slack) : complementarity(half, slack, &holding)};
            if (middle.complementarity > middle.stationarity) {
                high = middle;
                continue;
            }
            low = middle;
            between.drop_below(low.y, high.stationarity);
            if (all) holding = holding_more(high.y, low.complementarity, slack);
            all = false;
        }
        return height(low) <= height(high) ? low : high;
    }

private:
    // Drop the features at zero whose residual is nowhere above `least` from y on.
    void drop_below(double y, double least) {
        std::erase_if(zeros_, [&](const Line &line) { return line.at(y) <= least * (1 - ROUNDING); });
    }

    // The features at zero of which more than `least` is held back at y; less is held back at a smaller y.
    std::vector<std::int64_t> holding_more(double y, double least, const Slack &slack) const {
        std::vector<std::int64_t> found;
        for (std::int64_t j = 0; j < lines_.at_zero; ++j) {
            const double price = -lines_.zero(j).slope, held = std::min(price * y, lines_.zero_offset[j]);
            if (held <= least * (1 - ROUNDING)) continue;
            const double room = slack.zero_room[slack.one_room ? 0 : j];
            if (held * slack.part(price, held, room) * (1 + ROUNDING) > least) found.push_back(j);
        }
        return found;
    }

    static constexpr double ROUNDING = 1e-12;
    Lines lines_;
    std::vector<Line> zeros_;
};

}  // namespace levelprox
