// Projection onto {x : sum_i omega_i (|x_i| + u_i x_i) <= tau} (Theorem "prox oracle" of the paper).
//
//     min 1/2 |x - v|^2   s.t.   sum_i omega_i (|x_i| + u_i x_i) <= tau,   x_i >= 0 where required
//
// With |u| <= 1 a solution keeps the sign of v: x_i = sign(v_i) [|v_i| - w_i y]_+ with the price
// w_i = omega_i (1 + sign(v_i) u_i) >= 0, and the multiplier y solves
//
//     l(y) = sum_i w_i [|v_i| - w_i y]_+ = tau,
//
// convex, decreasing, piecewise linear: Newton from the left is monotone and finite, and one step from
// anywhere lands on the left. For other u, l is still decreasing but not convex; its breakpoints are
// sorted instead (projection_breakpoints.cpp).
//
// The result satisfies the constraint in exact arithmetic, not only up to rounding: the level is
// taken a few units in the last place below tau, the result is measured with compensated sums, and
// what is still too large is repaired.
#pragma once
#include "algorithms/ball.hpp"

namespace levelprox {

enum class Projected { done, not_finite, infeasible };

struct Projection {
    Projected status;
    double multiplier;
    int passes;  // over the coordinates
};

// `start` > 0 is a guess of the multiplier; the answer does not depend on it beyond rounding.
// For balls of width 1.
template <class T>
Projection project(const Ball<T> &ball, double start, T *x);

// The same by sorting breakpoints, for any u and weights however far apart: in double-double arithmetic.
template <class T>
Projection project_by_breakpoints(const Ball<T> &ball, T *x, int passes);

// The same onto {x : sum_j omega_j |x_j|_2 <= tau} (projection_groups.cpp).
template <class T>
Projection project_groups(const Ball<T> &ball, double start, T *x);

// v onto a set of any width: what subsolvers call.
template <class T>
Projection project_onto(Ball<T> set, const T *v, double start, T *x) {
    set.v = v;
    return set.width == 1 ? project(set, start, x) : project_groups(set, start, x);
}

}  // namespace levelprox
