// A growing list of coordinates, each in it once: what a sparse step has to look at.
#pragma once
#include <cstdint>
#include <vector>

namespace levelprox {

class Coordinates {
public:
    explicit Coordinates(std::int64_t dimension) : marked_(std::size_t(dimension), 0) {}

    void add(std::int64_t j) {
        if (marked_[std::size_t(j)]) return;
        marked_[std::size_t(j)] = 1;
        list_.push_back(j);
    }
    void add_all() {
        for (std::int64_t j = 0; j < std::int64_t(marked_.size()); ++j) add(j);
    }
    void clear() {
        for (std::int64_t j : list_) marked_[std::size_t(j)] = 0;
        list_.clear();
    }
    bool contains(std::int64_t j) const { return marked_[std::size_t(j)] != 0; }
    const std::vector<std::int64_t> &list() const { return list_; }

private:
    std::vector<std::uint8_t> marked_;
    std::vector<std::int64_t> list_;
};

}  // namespace levelprox
