// How far a KKT system is from holding, as a function of the multiplier y: the largest of |offset + slope y| over the
// coordinates of the support, of offset + slope y, slope <= 0, over the features at zero, and of 0; and the best y.
#pragma once
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

// Lines as Python holds them; one slope at zero stands for all of them.
struct Lines {
    std::int64_t on_support, at_zero;
    const double *support_offset, *support_slope, *zero_offset, *zero_slope;
    bool one_slope;

    Line support(std::int64_t k) const { return {support_offset[k], support_slope[k]}; }
    Line zero(std::int64_t j) const { return {zero_offset[j], zero_slope[one_slope ? 0 : j]}; }
};

class Residual {
public:
    explicit Residual(const Lines &lines) : lines_(lines) {
        std::int64_t top = -1;
        double highest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < lines.at_zero; ++j)
            if (lines.zero_offset[j] > highest) top = j, highest = lines.zero_offset[j];
        if (top < 0) return;
        // Where y >= 0 all others that fall as fast or faster stay below it: of features of one weight one is left.
        zeros_.push_back(lines.zero(top));
        if (lines.one_slope) return;
        for (std::int64_t j = 0; j < lines.at_zero; ++j)
            if (lines.zero_slope[j] > zeros_.front().slope && std::isfinite(lines.zero_offset[j])) zeros_.push_back(lines.zero(j));
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
            if (line.at(y) > most) most = line.at(y), best = line;
        return best;
    }

    // The smallest y >= 0 minimising max(residual(y), price y), by cutting planes: the maximum of lines is bracketed by
    // one that falls and one that rises; each look at their crossing finds a higher line there, which replaces one of the
    // two, or finds none, and the crossing is best.
    double best_multiplier(double price) const {
        constexpr int MANY = 200;
        const Line cost{0, price};
        Line fall = highest(0), rise = cost;
        if (fall.slope >= 0) return 0;
        double y = 0;
        for (int look = 0; look < MANY; ++look) {
            y = (fall.offset - rise.offset) / (rise.slope - fall.slope);
            const double height = fall.at(y);
            Line line = highest(y);
            if (cost.at(y) > line.at(y)) line = cost;
            if (line.at(y) <= height * (1 + 1e-14) + 1e-300 || line == fall || line == rise) return y;  // again: rounding
            (line.slope < 0 ? fall : rise) = line;
        }
        return y;
    }

private:
    Lines lines_;
    std::vector<Line> zeros_;
};

}  // namespace levelprox
