#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "route/log/route.h"

namespace sparkpilot::drive {
namespace {

constexpr size_t kDongle = 16, kLog = 20;  // characters
constexpr int kMaxSegments = 100'000;      // of one route: ten weeks of recording

// selfdrive/test/process_replay/test_processes.py, source_segments, as of 2026.
constexpr std::array<std::string_view, 18> kCiSegments = {
    "937ccb7243511b65|2022-05-24--16-03-09--1",  "02c45f73a2e5c6e9|2021-01-01--19-08-22--1",
    "d545129f3ca90f28|2022-11-07--20-43-08--3",  "0982d79ebb0de295|2021-01-04--17-13-21--13",
    "0982d79ebb0de295|2021-01-03--20-03-36--6",  "8011d605be1cbb77|000000cc--8e8d8ec716--6",
    "eb140f119469d9ab|2021-06-12--10-46-24--27", "7d2244f34d1bbcda|2021-06-25--12-25-37--26",
    "4deb27de11bee626|2021-02-20--11-28-55--8",  "17fc16d840fe9d21|2023-04-26--13-28-44--5",
    "341dccd5359e3c97|2022-09-12--10-35-33--3",  "376bf99325883932|2022-10-27--13-41-22--1",
    "35336926920f3571|2021-02-12--18-38-48--46", "de9592456ad7d144|2021-06-29--11-00-15--6",
    "bd6a637565e91581|2021-10-30--15-14-53--4",  "54827bf84c38b14f|2023-01-26--21-59-07--4",
    "bc095dc92e101734|000000db--ee9fe46e57--1",  "2c912ca5de3b1ee9|0000025d--6eb6bcbca4--4",
};

// Letters and digits: ids are lower-case, but those of regenerated test routes are not.
bool is_id(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); });
}

// "2021-01-04--17-13-21": a pattern in which 'd' is a digit and any other character is literal; or
// "0000010e--5b26bc3be7".
bool is_log(std::string_view text) {
  constexpr std::string_view kTime = "dddd-dd-dd--dd-dd-dd";
  if (text.size() != kLog) return false;
  bool time = true;
  for (size_t i = 0; i < kLog; ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    time = time && (kTime[i] == 'd' ? digit : text[i] == kTime[i]);
  }
  return time || (text.substr(8, 2) == "--" && is_id(text.substr(0, 8)) && is_id(text.substr(10)));
}

// One number of a range; empty for an empty text.
std::optional<int> parse_bound(std::string_view name, std::string_view text) {
  if (text.empty()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kMaxSegments || value < -kMaxSegments) {
    fail("{}: expected a segment's number up to {}, got \"{}\"", name, kMaxSegments, text);
  }
  return value;
}

bool looks_like_range(std::string_view text) {
  return !text.empty() && text.find_first_not_of("-0123456789:") == std::string_view::npos;
}

void parse_range(std::string_view name, std::string_view text, RouteName& out) {
  std::array<std::string_view, 3> parts;
  size_t count = 0;
  for (size_t begin = 0; begin <= text.size(); ++count) {
    if (count == parts.size()) fail("{}: expected start:stop:step, got \"{}\"", name, text);
    const size_t end = std::min(text.find(':', begin), text.size());
    parts[count] = text.substr(begin, end - begin);
    begin = end + 1;
  }
  out.slice = count > 1;
  out.start = parse_bound(name, parts[0]);
  out.stop = parse_bound(name, parts[1]);
  out.step = parse_bound(name, parts[2]);
  if (out.step && *out.step < 1) fail("{}: expected a step of at least 1, got {}", name, *out.step);
}

}  // namespace

std::string RouteName::str() const { return dongle.empty() ? log : dongle + "|" + log; }

std::optional<RouteName> parse_route_name(std::string_view text) {
  RouteName name;
  std::string_view rest = text;
  if (rest.size() > kDongle && is_id(rest.substr(0, kDongle)) &&
      std::string_view("|/_").find(rest[kDongle]) != std::string_view::npos) {
    name.dongle = rest.substr(0, kDongle);
    rest.remove_prefix(kDongle + 1);
  }
  if (!is_log(rest.substr(0, kLog))) return std::nullopt;
  name.log = rest.substr(0, kLog);
  rest.remove_prefix(kLog);
  if (rest.ends_with("/")) rest.remove_suffix(1);
  if (rest.size() >= 2 && rest[rest.size() - 2] == '/') {
    const char kind = rest.back();
    if (kind == 'r' || kind == 'q' || kind == 'a') {
      name.logs = kind == 'r' ? LogKind::full : kind == 'q' ? LogKind::decimated : LogKind::automatic;
      rest.remove_suffix(2);
    }
  }
  if (rest.empty()) return name;
  const size_t separator = rest.starts_with("--") ? 2 : rest.starts_with("/") ? 1 : 0;
  rest.remove_prefix(separator);
  if (separator == 0 || !looks_like_range(rest)) return std::nullopt;
  parse_range(text, rest, name);
  return name;
}

std::span<const std::string_view> ci_segments() { return kCiSegments; }

}  // namespace sparkpilot::drive
