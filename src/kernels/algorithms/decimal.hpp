// Decimal text to the nearest float64, the same bits as Python's float(): [+-] digits [. digits] [e [+-] digits].
#pragma once
#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace levelprox {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// What was found in the text: `mantissa` times ten to the `exponent`, exactly, where there are at most 19 digits.
struct Decimal {
    const char *begin;  // behind the sign
    const char *end;    // of what could be read
    std::uint64_t mantissa;
    std::int64_t exponent;
    int digits;  // leading zeros included; 0: no number
    bool negative;
};

// Some byte behind `at` must be none of a number's: nothing else ends the reading.
inline Decimal scan_decimal(const char *at) {
    constexpr std::int64_t HUGE_EXPONENT = 1'000'000'000;  // a larger one makes no difference, and could overflow
    Decimal found{at, at, 0, 0, 0, *at == '-'};
    if (*at == '-' || *at == '+') found.begin = ++at;
    const char *first = at;
    while (is_digit(*at)) found.mantissa = 10 * found.mantissa + std::uint64_t(*at++ - '0');
    found.digits = int(at - first);
    if (*at == '.') {
        first = ++at;
        while (is_digit(*at)) found.mantissa = 10 * found.mantissa + std::uint64_t(*at++ - '0');
        found.digits += int(at - first);
        found.exponent = first - at;
    }
    found.end = at;
    if (found.digits == 0 || (*at != 'e' && *at != 'E')) return found;
    ++at;
    const bool down = *at == '-';
    if (*at == '-' || *at == '+') ++at;
    std::int64_t power = 0;
    for (first = at; is_digit(*at); ++at)
        if (power < HUGE_EXPONENT) power = 10 * power + (*at - '0');
    if (at == first) return found;  // "1e": the number ends before the letter
    found.exponent += down ? -power : power;
    found.end = at;
    return found;
}

// Whether a number out of range is too large, rather than too small: by the place of its first digit that is not zero.
inline bool is_too_large(const Decimal &decimal) {
    std::int64_t place = decimal.exponent + decimal.digits;  // that of the first digit: d.ddd times 10^(place - 1)
    for (const char *at = decimal.begin; *at == '0' || *at == '.'; ++at) place -= *at == '0';
    return place > 0;
}

// False where no float64 is near: the number is too large. What is too small becomes zero.
inline bool to_double(const Decimal &decimal, double &out) {
    static constexpr std::array<double, 23> TEN{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    constexpr std::uint64_t EXACT = std::uint64_t(1) << 53;
    double size = 0;
    if (decimal.digits <= 19 && decimal.mantissa <= EXACT && -22 <= decimal.exponent && decimal.exponent <= 22) {
        // Both factors are exact, so that the one rounding is the right one.
        size = double(decimal.mantissa);
        size = decimal.exponent < 0 ? size / TEN[std::size_t(-decimal.exponent)]
                                    : size * TEN[std::size_t(decimal.exponent)];
    } else if (std::from_chars(decimal.begin, decimal.end, size).ec == std::errc::result_out_of_range) {
        if (is_too_large(decimal)) return false;
        size = 0;
    }
    out = decimal.negative ? -size : size;
    return true;
}

}  // namespace levelprox
