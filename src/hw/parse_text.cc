#include "hw/parse_text.h"

#include <algorithm>
#include <charconv>

namespace sparkpilot {
namespace {

constexpr int kMaxProcessors = 4096;
constexpr size_t kLongestPlain = 256;

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kAround(" \t\r\n\0", 5);
  const size_t begin = text.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kAround) + 1 - begin);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::optional<std::string_view> next_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::vector<std::string_view> words(std::string_view text, size_t most) {
  std::vector<std::string_view> out;
  while (out.size() < most) {
    const size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return out;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::optional<int64_t> to_integer(std::string_view text, int base) {
  if (base == 16 && (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X")) text.remove_prefix(2);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string plain(std::string_view text) {
  const std::string_view inner = trim(text);
  const bool printable = std::all_of(inner.begin(), inner.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return printable && inner.size() <= kLongestPlain ? std::string(inner) : std::string();
}

std::optional<std::string> read_word(Source& source, const std::string& path) {
  const std::optional<std::string> text = source.read(path, 4096);
  const std::string_view word = text ? trim(*text) : std::string_view();
  if (word.empty() || contains(word, "\n")) return std::nullopt;
  return std::string(word);
}

std::optional<int64_t> read_integer(Source& source, const std::string& path) {
  const std::optional<std::string> word = read_word(source, path);
  return word ? to_integer(*word) : std::nullopt;
}

std::string read_plain(Source& source, const std::string& path) { return plain(read_text(source, path, 4096)); }

std::string read_text(Source& source, const std::string& path, size_t limit) {
  return source.read(path, limit).value_or(std::string());
}

bool exists(Source& source, const std::string& path) { return source.access(path) != Access::absent; }

std::string setting(std::string_view text, std::string_view key) {
  std::string value;
  while (const auto line = next_line(text)) {
    const std::string_view entry = trim(*line);
    if (entry.size() <= key.size() || entry.substr(0, key.size()) != key || entry[key.size()] != '=') continue;
    std::string_view found = trim(entry.substr(key.size() + 1));
    if (found.size() >= 2 && (found[0] == '"' || found[0] == '\'') && found.back() == found[0]) {
      found = found.substr(1, found.size() - 2);
    }
    value = plain(found);
  }
  return value;
}

std::vector<int> to_processors(std::string_view list) {
  std::vector<int> out;
  list = trim(list);
  while (!list.empty() && out.size() < kMaxProcessors) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view range = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const size_t dash = std::min(range.find('-'), range.size());
    const auto first = within(to_integer(range.substr(0, dash)), 0, kMaxProcessors - 1);
    const auto last = dash == range.size() ? first : within(to_integer(range.substr(dash + 1)), 0, kMaxProcessors - 1);
    if (!first || !last) return {};
    for (int i = *first; i <= *last; ++i) out.push_back(i);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace sparkpilot
