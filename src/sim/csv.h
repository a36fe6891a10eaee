// Tables of text with commas between their fields (RFC 4180, but no field holds a line break), as others may have
// written them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::sim {

// Reads `text` line by line; `name` is the file's in errors. Lines end in LF or CRLF, empty ones are passed over, a
// byte-order mark at the beginning too.
class CsvReader {
 public:
  static constexpr size_t kMostColumns = 256, kLongestLine = 65536;

  CsvReader(std::string_view text, std::string name);
  // The next line's fields, without quotes; false at the end. Fails (user) on a line or a number of fields beyond the
  // limits, and on quotes that do not match.
  bool next();
  const std::vector<std::string>& fields() const { return fields_; }
  int64_t line() const { return line_; }  // of fields(), from 1
  // The field as a number that is neither NaN nor infinite; fails (user) on anything else, naming line and column.
  double number(size_t column, std::string_view heading) const;
  // Fails (user) with "FILE:LINE: column N (HEADING): WHAT"
  [[noreturn]] void fail_at(size_t column, std::string_view heading, std::string_view what) const;

 private:
  void split(std::string_view line);

  std::string_view rest_;
  std::string name_;
  int64_t line_ = 0;
  std::vector<std::string> fields_;
};

// A text on one line: control characters as spaces.
std::string one_line(std::string_view text);
// A file's name for tables and JSON: bytes that are not UTF-8 become U+FFFD, as JSON would have them.
std::string valid_utf8(std::string_view text);
// one_line() as a field: in quotes where it has to be.
std::string csv_field(std::string_view text);

}  // namespace sparkpilot::sim
