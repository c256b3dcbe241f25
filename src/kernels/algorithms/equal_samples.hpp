// Groups of samples that are equal in target, offset and every column of a fit.
//
// A loss depends on the samples of a group through their number, or the sum of their weights, alone: a fit over one row
// for each group has the same psi, gradient, Hessian and bounds as one over all samples. Of columns of a few values, as
// of categories, and of sparse ones, which are 0 in most samples, groups are far fewer than samples.
//
// Groups may be finer than need be: entries of a sparse column with many values get groups of their own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/orthonormal.hpp"

namespace levelprox {

class EqualSamples {
public:
    // Groups of the same target and the same offset; a null offset is 0.
    EqualSamples(std::int64_t n, const double *target, const double *offset);

    // Whether groups are few enough, compared with the samples, to be of use; if not, they are not known.
    bool are_few() const { return few_; }

    // Separates samples that differ in a column.
    void separate(const Column &column);
    void separate(const Columns &columns);

    std::size_t count() const { return size_.size(); }
    const std::vector<std::int32_t> &group() const { return group_; }  // of each sample

private:
    bool take(const Column &column, std::vector<double> &values) const;
    void move(std::int64_t i, std::int32_t to);
    void open_group();
    void renumber();

    std::vector<std::int32_t> group_;
    std::vector<std::int64_t> size_;  // of each group
    std::size_t empty_ = 0;           // groups without samples
    bool few_ = true;
};

// One row for each group: weights are sums, columns have the values of the first sample.
struct DistinctSamples {
    DistinctSamples(const EqualSamples &groups, const Columns &columns, const double *target, const double *weight,
                    const double *offset);

    std::vector<double> target, weight, offset;
    Columns columns;

private:
    std::vector<std::vector<double>> values_;
    std::vector<std::vector<std::int64_t>> rows_;
};

}  // namespace levelprox
