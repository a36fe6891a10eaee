#include "sim/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace sparkpilot::sim {

CsvReader::CsvReader(std::string_view text, std::string name) : rest_(text), name_(std::move(name)) {
  if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
}

bool CsvReader::next() {
  while (!rest_.empty()) {
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.size() > kLongestLine) {
      fail("{}:{}: a line of {} bytes, expected at most {}", name_, line_, line.size(), kLongestLine);
    }
    split(line);
    return true;
  }
  return false;
}

void CsvReader::split(std::string_view line) {
  fields_.clear();
  for (size_t at = 0;; ++at) {
    if (fields_.size() == kMostColumns) fail("{}:{}: more than {} columns", name_, line_, kMostColumns);
    std::string& field = fields_.emplace_back();
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        if (at >= line.size()) fail("{}:{}: column {}: a quote without its end", name_, line_, fields_.size());
        if (line[at] == '"' && (++at >= line.size() || line[at] != '"')) break;
        field += line[at];
      }
      if (at < line.size() && line[at] != ',') {
        fail("{}:{}: column {}: text behind a quoted field", name_, line_, fields_.size());
      }
    } else {
      const size_t end = std::min(line.find(',', at), line.size());
      field = line.substr(at, end - at);
      at = end;
    }
    if (at >= line.size()) return;
  }
}

double CsvReader::number(size_t column, std::string_view heading) const {
  if (column >= fields_.size()) fail_at(column, heading, "the line ends before it");
  std::string_view text = fields_[column];
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) {
    fail_at(column, heading, fmt::format("expected a number, got \"{}\"", fields_[column].substr(0, 40)));
  }
  return value;
}

void CsvReader::fail_at(size_t column, std::string_view heading, std::string_view what) const {
  fail("{}:{}: column {} ({}): {}", name_, line_, column + 1, heading, what);
}

std::string one_line(std::string_view text) {
  std::string plain(text);
  for (char& c : plain) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return plain;
}

std::string valid_utf8(std::string_view text) {
  return parse_json(json_text(nlohmann::ordered_json(text))).get<std::string>();
}

std::string csv_field(std::string_view text) {
  std::string plain = one_line(text);
  if (plain.find_first_of(",\"") == std::string::npos) return plain;
  std::string quoted = "\"";
  for (const char c : plain) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace sparkpilot::sim
