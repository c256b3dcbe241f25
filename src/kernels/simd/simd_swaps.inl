// Which features may gain more than others in place of one that leaves (algorithms/gram_search.cpp).

constexpr std::int64_t SWAP_BLOCK = 64;

inline bool may_gain(double pull, double left, double across, double step, double inverse, double least) {
    const double slope = pull - across * step;
    return slope * slope > least * (left - across * across * inverse);
}

std::int64_t swap_block(std::int64_t from, std::int64_t n, const double *pull, const double *left, const double *across,
                        double step, double inverse, double least) {
    for (; from + SWAP_BLOCK <= n; from += SWAP_BLOCK) {
        std::int64_t count = 0;
        for (std::int64_t j = from; j < from + SWAP_BLOCK; ++j)
            count += may_gain(pull[j], left[j], across[j], step, inverse, least) ? 1 : 0;
        if (count > 0) return from;
    }
    for (std::int64_t j = from; j < n; ++j)
        if (may_gain(pull[j], left[j], across[j], step, inverse, least)) return from;
    return n;
}
