// Rows of a Gram matrix G, all at hand or each computed when it is first needed.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace levelprox {

class GramRows {
public:
    using Compute = std::function<void(std::int64_t j, double *row)>;

    // All of them, in rows; the array is the caller's.
    GramRows(std::int64_t d, const double *gram) : d_(d), gram_(gram) {}

    // `work`: the multiplications that a row takes; `keep`: whether to keep rows here, as far as there is room.
    GramRows(std::int64_t d, double work, bool keep, Compute compute)
        : d_(d), work_(work), keep_(keep), compute_(std::move(compute)), known_(std::size_t(keep ? d : 1)) {}

    // A'A + diag(ridge), with A in rows; the arrays are the caller's.
    static GramRows of_samples(std::int64_t n, std::int64_t d, const double *samples, const double *ridge);

    bool complete() const { return gram_ != nullptr; }
    double work() const { return work_; }
    bool keeps() const { return keep_; }  // whether rows are kept here

    // Valid until the next call.
    const double *row(std::int64_t j);

private:
    std::int64_t d_;
    const double *gram_ = nullptr;  // null where rows are computed
    double work_ = 0.0;
    bool keep_ = true;
    Compute compute_;
    std::vector<std::vector<double>> known_;
    std::int64_t count_ = 0;  // of known rows
};

}  // namespace levelprox
