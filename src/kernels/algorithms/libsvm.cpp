// One pass without going back: regular tokens are read directly; any other token is parsed as a whole.
#include "algorithms/libsvm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "algorithms/decimal.hpp"

namespace levelprox::libsvm {

namespace {

constexpr std::int64_t LARGEST_INT32 = std::numeric_limits<std::int32_t>::max();
constexpr std::ptrdiff_t INDEX_DIGITS = 18;  // so many never overflow

// What ends a token: blanks, the line's end, a comment.
constexpr std::array<bool, 256> ENDS = [] {
    std::array<bool, 256> ends{};
    for (const char c : {' ', '\t', '\r', '\n', '#'}) ends[static_cast<unsigned char>(c)] = true;
    return ends;
}();

bool ends_token(char c) { return ENDS[static_cast<unsigned char>(c)]; }

const char *token_end(const char *at) {
    while (!ends_token(*at)) ++at;
    return at;
}

bool is_whole(const char *begin, const char *end) {
    for (const char *at = begin; at < end; ++at)
        if (!is_digit(*at)) return false;
    return begin < end;
}

// nan, inf and infinity, as C and Python write and read them.
bool is_not_finite(const char *begin, const char *end) {
    begin += *begin == '-' || *begin == '+';
    std::string word(begin, end);
    for (char &c : word) c = char(c | 0x20);
    return word == "nan" || word == "inf" || word == "infinity";
}

// One element of an array that changes its type in place: upwards from its end, downwards from its beginning.
template <class To, class From>
void convert(Block &block, std::int64_t k) {
    From from;
    std::memcpy(&from, block.as<char>() + std::size_t(k) * sizeof(From), sizeof(From));
    const To to = To(from);
    std::memcpy(block.as<char>() + std::size_t(k) * sizeof(To), &to, sizeof(To));
}

std::int64_t more(std::int64_t room) { return room < 1024 ? 1024 : room + room / 4; }

}  // namespace

Parser::Parser(const Settings &settings) : settings_(settings) { clear(); }

std::size_t Parser::feed(const char *text, std::size_t size, std::int64_t rows) {
    const char *const end = text + size;
    const char *at = carried_.empty() ? text : read_carried(text, end);
    text_ = text;
    text_place_ = place_;
    if (in_comment_) at = skip_comment(at, end);
    const char *stop = end;  // behind the last byte that ends a token
    while (stop > at && !ends_token(stop[-1])) --stop;
    if (trouble_.fault == Fault::none) at = read_text(at, stop, end, rows);
    if (trouble_.fault != Fault::none) return size;
    if (at == stop && at < end) {
        carry(at, end);
        at = end;
    }
    place_ = place(at);
    return std::size_t(at - text);
}

void Parser::finish() {
    if (!carried_.empty()) {
        const char blank = ' ';
        read_carried(&blank, &blank + 1);
    }
    if (trouble_.fault == Fault::none) end_line(place_);
}

// Completes the token that the previous block left incomplete; returns the position after it.
const char *Parser::read_carried(const char *at, const char *end) {
    while (at < end && !ends_token(*at) && carried_.size() <= TOKEN_LIMIT) carried_ += *at++;
    if (at == end && carried_.size() <= TOKEN_LIMIT) return at;
    carried_ += ' ';
    text_ = carried_.data();
    text_place_ = carried_place_;
    token(carried_.data());
    carried_.clear();
    return at;
}

// The token that begins here and ends in a later text; more than the limit says no more than that it is too long.
void Parser::carry(const char *at, const char *end) {
    carried_.assign(at, std::min(std::size_t(end - at), TOKEN_LIMIT + 1));
    carried_place_ = place(at);
}

const char *Parser::read_text(const char *at, const char *stop, const char *end, std::int64_t rows) {
    while (at < stop) {
        switch (*at) {
            case ' ':
            case '\t':
            case '\r': ++at; break;
            case '\n':
                end_line(place(++at));
                if (rows_ == rows) return at;
                break;
            case '#': at = skip_comment(at, end); break;
            default:
                at = token(at);
                if (trouble_.fault != Fault::none) return at;
        }
    }
    return at;
}

const char *Parser::skip_comment(const char *at, const char *end) {
    const void *newline = std::memchr(at, '\n', std::size_t(end - at));
    in_comment_ = newline == nullptr;
    return in_comment_ ? end : static_cast<const char *>(newline);
}

void Parser::end_line(std::int64_t next) {
    if (has_label_) indptr.as<std::int64_t>()[++rows_] = entries_;
    has_label_ = false;
    ++line_;
    line_place_ = next;
}

const char *Parser::token(const char *begin) { return has_label_ ? item(begin) : label(begin); }

const char *Parser::label(const char *begin) {
    const char *const end = token_end(begin);
    if (std::size_t(end - begin) > TOKEN_LIMIT) return fail(Fault::token_too_long, begin, end);
    if (place(begin) == 0 && end - begin >= 3 && std::memcmp(begin, "\xEF\xBB\xBF", 3) == 0) {
        line_place_ = 3;  // a byte order mark, which is in no column
        begin += 3;
        if (begin == end) return end;
    }
    const Decimal decimal = scan_decimal(begin);
    double value = 0;
    if (decimal.digits == 0 || decimal.end != end || !to_double(decimal, value))
        return fail(fault_of_label(begin, end), begin, end);
    if (rows_ == row_room_) make_room_for_rows();
    labels.as<double>()[rows_] = value;
    has_label_ = true;
    has_query_ = false;
    before_ = -1;
    return end;
}

// index:value as it should be; anything else is left to irregular_item.
const char *Parser::item(const char *begin) {
    const char *at = begin;
    std::int64_t column = settings_.zero_based ? 0 : -1;
    std::uint64_t index = 0;
    while (is_digit(*at)) index = 10 * index + std::uint64_t(*at++ - '0');
    if (at - begin > INDEX_DIGITS || *at != ':') return irregular_item(begin);
    column += std::int64_t(index);
    if (column <= before_ || column >= settings_.features || at == begin) return irregular_item(begin);
    const Decimal decimal = scan_decimal(at + 1);
    double value = 0;
    if (decimal.digits == 0 || !ends_token(*decimal.end) || decimal.end - begin > std::ptrdiff_t(TOKEN_LIMIT))
        return irregular_item(begin);
    if (!to_double(decimal, value) || !fits(value)) return irregular_item(begin);
    push_entry(column, value);
    return decimal.end;
}

// qid:n is passed over; all else is a fault, and which one is said.
const char *Parser::irregular_item(const char *begin) {
    const char *const end = token_end(begin), *const colon = std::find(begin, end, ':');
    if (std::size_t(end - begin) > TOKEN_LIMIT) return fail(Fault::token_too_long, begin, end);
    if (colon == end) return fail(Fault::no_colon, begin, end);
    if (std::string_view(begin, colon) == "qid" && before_ < 0 && !has_query_) {
        has_query_ = true;
        return is_whole(colon + 1, end) ? end : fail(Fault::query, colon + 1, end);
    }
    const Fault fault = fault_of_index(begin, colon);
    return fault == Fault::none ? fail(fault_of_value(colon + 1, end), colon + 1, end) : fail(fault, begin, end);
}

Fault Parser::fault_of_label(const char *begin, const char *end) const {
    const std::string_view token(begin, end);
    if (token.find(':') != token.npos) return Fault::no_label;
    if (token.find(',') != token.npos) return Fault::several_labels;
    const Decimal decimal = scan_decimal(begin);
    const bool is_number = decimal.digits > 0 && decimal.end == end;
    return is_number || is_not_finite(begin, end) ? Fault::label_not_finite : Fault::label;
}

Fault Parser::fault_of_index(const char *begin, const char *colon) const {
    if (begin == colon) return Fault::no_index;
    if (*begin == '-' && is_whole(begin + 1, colon)) return Fault::negative_index;
    if (!is_whole(begin, colon)) return Fault::index;
    if (colon - begin > INDEX_DIGITS) return Fault::index_too_large;
    std::int64_t column = settings_.zero_based ? 0 : -1;
    std::int64_t index = 0;
    std::from_chars(begin, colon, index);
    column += index;
    if (column < 0) return Fault::zero_index;
    if (column >= settings_.features) return Fault::index_too_large;
    if (column < before_) return Fault::order;
    return column == before_ ? Fault::repeated : Fault::none;
}

Fault Parser::fault_of_value(const char *begin, const char *end) const {
    if (begin == end) return Fault::no_value;
    const Decimal decimal = scan_decimal(begin);
    if (decimal.digits > 0 && decimal.end == end) return Fault::value_too_large;
    return is_not_finite(begin, end) ? Fault::value_not_finite : Fault::value;
}

const char *Parser::fail(Fault fault, const char *at, const char *end) {
    const std::int64_t before = before_ + (settings_.zero_based ? 0 : 1);
    trouble_ = {fault, line_, place(at) - line_place_ + 1, before, std::string(at, end)};
    return end;
}

bool Parser::fits(double value) const { return !settings_.single || std::isfinite(float(value)); }

void Parser::push_entry(std::int64_t column, double value) {
    if (entries_ == entry_room_) make_room_for_entries();
    if (column > LARGEST_INT32) widen();
    if (wide_) indices.as<std::int64_t>()[entries_] = column;
    else indices.as<std::int32_t>()[entries_] = std::int32_t(column);
    if (settings_.single) values.as<float>()[entries_] = float(value);
    else values.as<double>()[entries_] = value;
    ++entries_;
    before_ = column;
    features_ = std::max(features_, column + 1);
}

void Parser::make_room_for_rows() {
    row_room_ = more(row_room_);
    labels.resize(std::size_t(row_room_) * sizeof(double));
    indptr.resize(std::size_t(row_room_ + 1) * sizeof(std::int64_t));
    indptr.as<std::int64_t>()[0] = 0;
}

void Parser::make_room_for_entries() {
    entry_room_ = more(entry_room_);
    resize_entries();
}

void Parser::resize_entries() {
    indices.resize(std::size_t(entry_room_) * (wide_ ? sizeof(std::int64_t) : sizeof(std::int32_t)));
    values.resize(std::size_t(entry_room_) * (settings_.single ? sizeof(float) : sizeof(double)));
}

void Parser::widen() {
    if (wide_) return;
    wide_ = true;
    resize_entries();
    for (std::int64_t k = entries_ - 1; k >= 0; --k) convert<std::int64_t, std::int32_t>(indices, k);
}

void Parser::pack(std::int64_t features) {
    if (std::max({features, rows_, entries_}) > LARGEST_INT32) widen();
    entry_room_ = entries_;
    resize_entries();
    labels.resize(std::size_t(rows_) * sizeof(double));
    for (std::int64_t i = 0; i <= rows_ && !wide_; ++i) convert<std::int32_t, std::int64_t>(indptr, i);
    indptr.resize(std::size_t(rows_ + 1) * (wide_ ? sizeof(std::int64_t) : sizeof(std::int32_t)));
}

void Parser::clear() {
    rows_ = row_room_ = entries_ = entry_room_ = 0;
    wide_ = false;
    make_room_for_rows();
}

}  // namespace levelprox::libsvm
