// The set {x : sum_i omega_i (|x_i| + u_i x_i) <= tau, x_i >= 0 where required} and a point v to project; or, where a
// feature has several coordinates, the group ball {x : sum_j omega_j |x_j|_2 <= tau}.
#pragma once
#include <cstdint>

namespace levelprox {

enum class Sign { free, nonnegative, mixed };

template <class T>
struct Ball {
    std::int64_t d = 0;      // coordinates
    std::int64_t width = 1;  // of a feature: omega has d / width entries. Above 1 there are neither u nor signs.
    const T *v = nullptr;
    const T *u = nullptr;                       // null: u = 0
    const T *omega = nullptr;                   // null: omega = 1
    const std::uint8_t *nonnegative = nullptr;  // a mask, or null
    bool all_nonnegative = false;
    double tau = 0;
};

// l(y) = sum w [a - w y]_+ (projection.hpp) and -l'(y), the sum of w^2 over the active coordinates.
struct Level {
    double level, square;
};

struct Survey {
    double level_0;  // l(0), the level of v itself
    Level at_y;
    double extent;  // largest |v| among coordinates with a price
    double u_max;   // largest |u|
    bool finite;
};

}  // namespace levelprox
