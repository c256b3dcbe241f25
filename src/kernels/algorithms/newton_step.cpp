#include "algorithms/newton_step.hpp"

#include <cmath>

#include "algorithms/cholesky.hpp"

namespace levelprox {

std::vector<double> ridged_newton_step(std::vector<double> H, double share, const std::vector<double> &ridge,
                                       const std::vector<double> &g) {
    const std::size_t m = g.size();
    std::vector<double> unit(m), step(m);
    for (std::size_t j = 0; j < m; ++j) {
        H[j * m + j] += share * ridge[j];
        if (!(H[j * m + j] > 0)) return {};
        unit[j] = std::sqrt(H[j * m + j]);
    }
    for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t k = 0; k < j; ++k) H[j * m + k] /= unit[j] * unit[k];
        H[j * m + j] = 1;
        step[j] = -g[j] / unit[j];
    }
    if (!factorise(m, H)) return {};
    solve_factorised(m, H, step);
    for (std::size_t j = 0; j < m; ++j) {
        step[j] /= unit[j];
        if (!std::isfinite(step[j])) return {};
    }
    return step;
}

NewtonStep pivoted_newton_step(std::vector<double> H, double mu, const std::vector<double> &reference,
                               const std::vector<double> &g, double least) {
    const std::size_t m = g.size();
    std::vector<double> unit(m), pivot(m), rhs(m);
    for (std::size_t j = 0; j < m; ++j) {
        const double diagonal = H[j * m + j] + (mu > 0 ? mu * reference[j] : 0.0);
        if (!std::isfinite(diagonal)) return {};
        unit[j] = diagonal > 0 ? std::sqrt(diagonal) : 0.0;
        pivot[j] = diagonal > 0 ? 1.0 : 0.0;
        for (std::size_t k = 0; k < j; ++k) {
            H[j * m + k] = unit[j] > 0 && unit[k] > 0 ? H[j * m + k] / unit[j] / unit[k] : 0.0;
            H[k * m + j] = H[j * m + k];
        }
        H[j * m + j] = pivot[j];
        rhs[j] = unit[j] > 0 ? -g[j] / unit[j] : 0.0;
    }
    // Column p of L overwrites column order[p] of H; v = L^-1 rhs on the way.
    std::vector<std::size_t> order;
    std::vector<bool> used(m);
    std::vector<double> v;
    while (order.size() < m) {
        std::size_t next = m;
        for (std::size_t j = 0; j < m; ++j)
            if (!used[j] && pivot[j] > least && (next == m || pivot[j] > pivot[next])) next = j;
        if (next == m) break;
        used[next] = true;
        const double root = std::sqrt(pivot[next]);
        for (std::size_t j = 0; j < m; ++j) {
            if (used[j]) continue;
            double entry = H[j * m + next];
            for (std::size_t p = 0; p < order.size(); ++p) entry -= H[j * m + order[p]] * H[next * m + order[p]];
            H[j * m + next] = entry / root;
            pivot[j] -= H[j * m + next] * H[j * m + next];
        }
        double value = rhs[next];
        for (std::size_t p = 0; p < order.size(); ++p) value -= H[next * m + order[p]] * v[p];
        v.push_back(value / root);
        H[next * m + next] = root;
        order.push_back(next);
    }
    NewtonStep found{std::vector<double>(m), {}, {}, 0};
    for (std::size_t j = 0; j < m; ++j) {
        if (used[j]) continue;
        double slope = rhs[j];
        for (std::size_t p = 0; p < order.size(); ++p) slope -= H[j * m + order[p]] * v[p];
        found.flat.push_back(j);
        found.slope.push_back(unit[j] > 0 ? slope * unit[j] : -g[j]);
    }
    for (std::size_t p = order.size(); p-- > 0;) {
        double value = v[p];
        for (std::size_t q = p + 1; q < order.size(); ++q) value -= H[order[q] * m + order[p]] * found.step[order[q]];
        found.step[order[p]] = value / H[order[p] * m + order[p]];
    }
    for (std::size_t j = 0; j < m; ++j) {
        if (unit[j] > 0) found.step[j] /= unit[j];
        if (!std::isfinite(found.step[j])) return {};
        found.decrement -= found.step[j] * g[j];
    }
    found.decrement = std::max(found.decrement, 0.0);
    return found;
}

}  // namespace levelprox
