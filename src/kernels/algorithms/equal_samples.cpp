#include "algorithms/equal_samples.hpp"

#include <algorithm>
#include <limits>

namespace levelprox {

namespace {

constexpr std::int64_t FEWEST_SAMPLES = 256;  // of fewer, groups save next to nothing
constexpr std::size_t SHARE = 4;              // samples for each group, at least, for groups to be of use
constexpr std::size_t MOST_VALUES = 16;       // of a column whose samples are compared
constexpr std::size_t SPARSE_SHARE = 8;       // rows for each stored entry of a column, at least, that is kept sparse

std::size_t place_of(const std::vector<double> &values, double value) {
    std::size_t place = 0;
    while (place < values.size() && values[place] != value) ++place;
    return place;
}

}  // namespace

EqualSamples::EqualSamples(std::int64_t n, const double *target, const double *offset) {
    few_ = n >= FEWEST_SAMPLES && n < std::numeric_limits<std::int32_t>::max();
    if (!few_) return;
    group_.assign(std::size_t(n), 0);
    size_.assign(1, n);
    separate(Column{target, nullptr, n});
    if (offset) separate(Column{offset, nullptr, n});
}

// The values of a column in the order in which they come; false where there are too many.
bool EqualSamples::take(const Column &column, std::vector<double> &values) const {
    for (std::int64_t p = 0; p < column.count; ++p) {
        if (place_of(values, column.values[p]) < values.size()) continue;
        if (values.size() == MOST_VALUES) return false;
        values.push_back(column.values[p]);
    }
    return true;
}

void EqualSamples::move(std::int64_t i, std::int32_t to) {
    std::int64_t &left = --size_[std::size_t(group_[std::size_t(i)])];
    empty_ += left == 0;
    ++size_[std::size_t(to)];
    group_[std::size_t(i)] = to;
}

void EqualSamples::open_group() {
    size_.push_back(0);
    few_ = size_.size() - empty_ <= group_.size() / SHARE;
}

void EqualSamples::separate(const Column &column) {
    if (!few_) return;
    std::vector<double> values;
    const bool compared = take(column, values);
    if (!compared && !column.rows) {
        few_ = false;
        return;
    }
    // Samples of a dense column with its first value stay; all others, and those of a sparse one, move, unless they are
    // alone in their group.
    std::vector<std::int32_t> moved(compared ? size_.size() * values.size() : 0, -1);
    for (std::int64_t p = 0; p < column.count && few_; ++p) {
        const std::int64_t i = column.rows ? column.rows[p] : p;
        const auto from = std::size_t(group_[std::size_t(i)]);
        if (size_[from] == 1) continue;
        std::int32_t to = std::int32_t(size_.size());
        if (compared) {
            const std::size_t place = place_of(values, column.values[p]);
            if (!column.rows && place == 0) continue;
            std::int32_t &known = moved[from * values.size() + place];
            if (known >= 0) to = known;
            known = to;
        }
        if (std::size_t(to) == size_.size()) open_group();
        move(i, to);
    }
    if (4 * empty_ > size_.size()) renumber();
}

void EqualSamples::separate(const Columns &columns) {
    if (!few_) return;
    std::vector<double> values;
    for (const Column &column : columns) {  // first whether there is any use in it
        values.clear();
        if (!column.rows && !take({column.values, nullptr, std::min<std::int64_t>(column.count, 64)}, values))
            few_ = false;
    }
    for (const Column &column : columns) separate(column);
    if (few_ && empty_ > 0) renumber();
}

// Leaves out groups without samples.
void EqualSamples::renumber() {
    std::vector<std::int32_t> number(size_.size(), -1);
    std::size_t count = 0;
    for (std::size_t g = 0; g < size_.size(); ++g) {
        if (size_[g] == 0) continue;
        number[g] = std::int32_t(count);
        size_[count++] = size_[g];
    }
    size_.resize(count);
    for (std::int32_t &group : group_) group = number[std::size_t(group)];
    empty_ = 0;
}

DistinctSamples::DistinctSamples(const EqualSamples &groups, const Columns &given, const double *target_of,
                                 const double *weight_of, const double *offset_of)
    : target(groups.count()), weight(groups.count()), offset(groups.count()) {
    const std::vector<std::int32_t> &group = groups.group();
    std::vector<std::int64_t> first(groups.count(), -1);
    for (std::size_t i = 0; i < group.size(); ++i) {
        const auto g = std::size_t(group[i]);
        weight[g] += weight_of ? weight_of[i] : 1.0;
        if (first[g] < 0) first[g] = std::int64_t(i);
    }
    for (std::size_t g = 0; g < first.size(); ++g) {
        target[g] = target_of[first[g]];
        if (offset_of) offset[g] = offset_of[first[g]];
    }
    for (const Column &column : given) {
        std::vector<double> values(groups.count());
        std::vector<std::int64_t> rows;
        if (!column.rows) {
            for (std::size_t g = 0; g < first.size(); ++g) values[g] = column.values[first[g]];
        } else {
            for (std::int64_t p = 0; p < column.count; ++p)
                values[std::size_t(group[std::size_t(column.rows[p])])] = column.values[p];
            for (std::size_t g = 0; g < values.size(); ++g)
                if (values[g] != 0) rows.push_back(std::int64_t(g));
        }
        if (!rows.empty() && SPARSE_SHARE * rows.size() < values.size()) {
            for (std::size_t p = 0; p < rows.size(); ++p) values[p] = values[std::size_t(rows[p])];
            values.resize(rows.size());
        } else {
            rows.clear();
        }
        values_.push_back(std::move(values));
        rows_.push_back(std::move(rows));
        const bool sparse = !rows_.back().empty();
        columns.push_back(
            {values_.back().data(), sparse ? rows_.back().data() : nullptr, std::int64_t(values_.back().size())});
    }
}

}  // namespace levelprox
