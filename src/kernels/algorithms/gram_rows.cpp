#include "algorithms/gram_rows.hpp"

#include <algorithm>

#include "simd/simd.hpp"

namespace levelprox {

namespace {

constexpr std::int64_t KEPT_NUMBERS = std::int64_t(1) << 23;  // of computed rows

}  // namespace

GramRows GramRows::of_samples(std::int64_t n, std::int64_t d, const double *samples, const double *ridge) {
    return {d, double(n) * double(d), true, [=](std::int64_t j, double *row) {
                std::vector<double> column(static_cast<std::size_t>(n));
                for (std::int64_t i = 0; i < n; ++i) column[std::size_t(i)] = samples[i * d + j];
                std::fill(row, row + d, 0.0);
                simd().f64.dense.adds(n, d, d, column.data(), samples, row);
                if (ridge != nullptr) row[j] += ridge[j];
            }};
}

const double *GramRows::row(std::int64_t j) {
    if (complete()) return gram_ + j * d_;
    std::vector<double> &row = known_[std::size_t(keep_ ? j : 0)];
    if (row.empty() || !keep_) {
        if ((count_ + 1) * d_ > KEPT_NUMBERS && count_ > 0) {
            for (auto &other : known_) other = {};
            count_ = 0;
        }
        std::vector<double> computed(std::size_t(d_), 0.0);
        compute_(j, computed.data());
        row = std::move(computed);
        ++count_;
    }
    return row.data();
}

}  // namespace levelprox
