// Which places of a vector were written to, found again in rising order.
//
// Writing a mark is two plain stores, one for the place and one for its block of 64; only marked blocks are
// searched. A list kept while marking would be in the order of the data, and every later use of it would jump
// about in memory.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace levelprox {

class Touched {
public:
    explicit Touched(std::int64_t places)
        : blocks_(round_up(round_up(places, BLOCK) / BLOCK, WORD)), places_(round_up(places, BLOCK)), list_(places + 1),
          size_(places) {}

    void add(std::int64_t place) {
        places_[place] = 1;
        blocks_[place / BLOCK] = 1;
    }

    // The places marked since the last call, and no marks any more.
    void collect() {
        count_ = 0;
        in_marked_words(blocks_.data(), 0, std::int64_t(blocks_.size()), [&](std::int64_t block) {
            in_marked_words(places_.data(), block * BLOCK, (block + 1) * BLOCK,
                            [&](std::int64_t place) { list_[count_++] = place; });
        });
    }
    // The places where `values` is not zero, if there are so many that marks would cost more.
    void collect_nonzero(const double *values) {
        std::int64_t count = 0;
        for (std::int64_t place = 0; place < size_; ++place) {
            list_[count] = place;
            count += values[place] != 0;
        }
        count_ = count;
    }

    const std::int64_t *begin() const { return list_.data(); }
    const std::int64_t *end() const { return list_.data() + count_; }

private:
    static constexpr std::int64_t BLOCK = 64, WORD = 8;

    // found(i) for every i in begin..end whose byte is 1, and 0 for it; eight bytes at a time.
    template <class F>
    static void in_marked_words(std::uint8_t *bytes, std::int64_t begin, std::int64_t end, F &&found) {
        for (std::int64_t at = begin; at < end; at += WORD) {
            std::uint64_t word;
            std::memcpy(&word, bytes + at, WORD);
            if (word == 0) continue;
            std::memset(bytes + at, 0, WORD);
            if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
            for (; word != 0; word &= word - 1) found(at + std::countr_zero(word) / 8);
        }
    }

    static std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

    std::vector<std::uint8_t> blocks_, places_;
    std::vector<std::int64_t> list_;
    std::int64_t size_, count_ = 0;
};

}  // namespace levelprox
