// Full passes over the slices of X, by several threads, with bits that do not depend on their number.
//
// Two kinds of pass. Where each slice has a result of its own (dot), slices are shared out. Where all slices
// add to one vector (add), either the vector is cut, which dense slices allow: every entry still sees the
// slices in their order; or the slices are cut into chunks, as many as the sizes of X alone make worthwhile,
// each with an accumulator of its own, added up in the order of the chunks.
//
// Work is done in rounds of some ten milliseconds; a pending Ctrl-C is noticed between them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/design.hpp"
#include "algorithms/interrupt.hpp"
#include "algorithms/threads.hpp"

namespace levelprox {

constexpr std::int64_t ROUND = std::int64_t(1) << 25;  // stored entries between two checks for Ctrl-C
constexpr std::int64_t GRAIN = std::int64_t(1) << 17;  // stored entries that are worth a task

// Stored entries of slices begin..end, where a slice counts one besides: empty ones are work too.
inline std::int64_t work_of(const Slices &slices, std::int64_t begin, std::int64_t end) {
    return slices.stored(begin, end) + (end - begin);
}

// The same in time, for parallel_for: an entry that is stored with its index takes longer.
inline std::int64_t effort_of(const Slices &slices, std::int64_t work) { return slices.divisible ? work : 4 * work; }

// The last slice that a task starting at `begin` can reach with that much work, at least one on; at most `last`.
inline std::int64_t reach(const Slices &slices, std::int64_t begin, std::int64_t last, std::int64_t work) {
    std::int64_t fits = begin + 1, beyond = last + 1;
    while (beyond - fits > 1) {
        const std::int64_t middle = fits + (beyond - fits) / 2;
        (work_of(slices, begin, middle) <= work ? fits : beyond) = middle;
    }
    return fits;
}

// All slices in pieces of a task's work each. Pieces of many slices hold a multiple of four: dense ones go in fours.
inline std::vector<std::int64_t> cut(const Slices &slices) {
    std::vector<std::int64_t> cuts(1, 0);
    for (std::int64_t begin = 0; begin < slices.count; cuts.push_back(begin)) {
        const std::int64_t end = reach(slices, begin, slices.count, GRAIN);
        begin = slices.count < 64 ? end : std::min(slices.count, begin + (end - begin + 3) / 4 * 4);
    }
    return cuts;
}

// body(k, begin, end) for every piece, several at a time; what it computes must not depend on the cut.
template <class Body>
void for_pieces(const Slices &slices, const std::vector<std::int64_t> &cuts, Poll &poll, const Body &body) {
    const std::int64_t pieces = std::int64_t(cuts.size()) - 1;
    for (std::int64_t first = 0, last; first < pieces; first = last) {
        for (last = first + 1; last < pieces && work_of(slices, cuts[first], cuts[last]) < ROUND;) ++last;
        parallel_for(last - first, effort_of(slices, work_of(slices, cuts[first], cuts[last])),
                     [&](std::int64_t k) { body(first + k, cuts[first + k], cuts[first + k + 1]); });
        poll.check();
    }
}

template <class Body>
void for_pieces(const Slices &slices, Poll &poll, const Body &body) {
    for_pieces(slices, cut(slices), poll,
               [&](std::int64_t, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

// body(begin, end) over ranges of 0..n, with that much work in all.
template <class Body>
void for_ranges(std::int64_t n, std::int64_t step, std::int64_t work, const Body &body) {
    parallel_for((n + step - 1) / step, work, [&](std::int64_t k) { body(k * step, std::min(n, (k + 1) * step)); });
}

// How X is cut where all slices add to one vector of `length` entries.
class Chunks {
public:
    // As many chunks as have a task's work each; accumulators may take a tenth of the memory of X, or some MiB, and
    // adding them up must stay a small part of the pass.
    explicit Chunks(const Slices &slices) : slices_(slices) {
        constexpr std::int64_t MOST = 32, ALLOWED = std::int64_t(1) << 22;
        const std::int64_t count = slices.count, work = work_of(slices, 0, count),
                           length = std::max<std::int64_t>(slices.length, 1);
        const std::int64_t spared = std::max(slices.bytes() / 10, ALLOWED) / std::int64_t(sizeof(double)) / length;
        const std::int64_t cheap = std::max<std::int64_t>(1 + work / (16 * length), work >= 8 * length ? 2 : 1);
        const std::int64_t most = std::min({MOST, work / GRAIN, 1 + spared, cheap});
        cuts_.assign(1, 0);
        for (std::int64_t k = 1, chunks = std::max<std::int64_t>(most, 1); k <= chunks; ++k) {
            const std::int64_t begin = cuts_.back();
            if (begin == count) break;
            const std::int64_t share = (work - work_of(slices, 0, begin)) / (chunks - k + 1);
            cuts_.push_back(k == chunks ? count : reach(slices, begin, count, share));
        }
    }

    std::int64_t count() const { return std::int64_t(cuts_.size()) - 1; }

    // out = the sum over all slices, where body(chunk, begin, end, sum) adds slices begin..end to `sum`. The pieces of
    // a chunk come in their order.
    template <class Body>
    void add_up(double *out, Poll &poll, const Body &body) const {
        const std::int64_t length = slices_.length;
        if (count() == 0) return void(std::fill_n(out, length, 0.0));
        // The first chunk adds to `out` itself.
        const auto rest = std::make_unique_for_overwrite<double[]>(std::size_t((count() - 1) * length));
        const auto sum_of = [&](std::int64_t k) { return k == 0 ? out : rest.get() + (k - 1) * length; };
        std::vector<std::int64_t> reached(cuts_.begin(), cuts_.end() - 1);
        const std::int64_t step = std::max(ROUND / count(), GRAIN);
        const std::int64_t effort =
            effort_of(slices_, std::min(work_of(slices_, 0, slices_.count), count() * step));  // of a round
        for (bool fresh = true, more = true; more; fresh = false) {
            parallel_for(count(), effort, [&](std::int64_t k) {
                if (fresh) std::fill_n(sum_of(k), length, 0.0);
                if (reached[k] == cuts_[k + 1]) return;
                const std::int64_t end = reach(slices_, reached[k], cuts_[k + 1], step);
                body(k, reached[k], end, sum_of(k));
                reached[k] = end;
            });
            poll.check();
            more = false;
            for (std::int64_t k = 0; k < count(); ++k) more |= reached[k] < cuts_[k + 1];
        }
        if (count() == 1) return;
        for_ranges(length, std::max<std::int64_t>(GRAIN / count(), 1), count() * length,
                   [&](std::int64_t from, std::int64_t to) {
                       for (std::int64_t k = 1; k < count(); ++k) {
                           const double *sum = sum_of(k);
                           for (std::int64_t i = from; i < to; ++i) out[i] += sum[i];
                       }
                   });
    }

private:
    const Slices &slices_;
    std::vector<std::int64_t> cuts_;
};

// out_s = <slice_s, in>, entries squared if so.
inline void dot_pass(const Slices &slices, bool squares, const double *in, double *out, Poll &poll) {
    for_pieces(slices, poll, [&](std::int64_t begin, std::int64_t end) {
        if (squares) slices.dot_squares(begin, end, in, out + begin);
        else slices.dot(begin, end, in, out + begin);
    });
}

// out = sum of coefficient_s slice_s, entries squared if so.
inline void add_pass(const Slices &slices, bool squares, const double *coefficient, double *out, Poll &poll) {
    constexpr std::int64_t WIDTH = 2048;  // of `out` at a time: it stays in the nearest cache
    const auto add = [&](std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to, double *sum) {
        squares ? slices.add_squares(begin, end, from, to, coefficient + begin, sum)
                : slices.add(begin, end, from, to, coefficient + begin, sum);
    };
    if (!slices.divisible || slices.length < 2 * WIDTH) {
        Chunks(slices).add_up(out, poll, [&](std::int64_t, std::int64_t begin, std::int64_t end, double *sum) {
            add(begin, end, 0, slices.length, sum);
        });
        return;
    }
    std::fill_n(out, slices.length, 0.0);
    const bool small = slices.stored(0, slices.count) < 2 * GRAIN;
    for (std::int64_t begin = 0, end; begin < slices.count; begin = end) {
        end = reach(slices, begin, slices.count, ROUND);
        for_ranges(slices.length, small ? slices.length : WIDTH, effort_of(slices, work_of(slices, begin, end)),
                   [&](std::int64_t from, std::int64_t to) { add(begin, end, from, to, out + from); });
        poll.check();
    }
}

// out = Xx, out = X'r
inline void matvec(const Design &X, const double *x, double *out, Poll &poll) {
    if (X.by_rows) dot_pass(*X.slices, false, x, out, poll);
    else add_pass(*X.slices, false, x, out, poll);
}

inline void rmatvec(const Design &X, const double *r, double *out, Poll &poll) {
    if (X.by_rows) add_pass(*X.slices, false, r, out, poll);
    else dot_pass(*X.slices, false, r, out, poll);
}

}  // namespace levelprox
