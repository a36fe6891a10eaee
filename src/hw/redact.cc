#include "hw/redact.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sparkpilot {
namespace {

constexpr std::array kOrdinaryWords = {"root",  "user",   "nvidia", "dgx",    "spark",     "comma",
                                       "linux", "ubuntu", "debian", "docker", "localhost", "unknown"};
constexpr std::string_view kRemoved = "<removed>";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Each of these examines text[at...]: how many characters to replace there, and with what.
struct Match {
  size_t length = 0;
  std::string by = {};
};
using Rule = Match (*)(std::string_view text, size_t at);

bool word_starts(std::string_view text, size_t at) { return at == 0 || !is_word(text[at - 1]); }
bool word_ends(std::string_view text, size_t at) { return at >= text.size() || !is_word(text[at]); }

Match uuid(std::string_view text, size_t at) {
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (!word_starts(text, at) || text.size() - at < kShape.size()) return {};
  for (size_t i = 0; i < kShape.size(); ++i) {
    const char c = text[at + i];
    if (kShape[i] == '-' ? c != '-' : !is_hex(c)) return {};
  }
  if (!word_ends(text, at + kShape.size())) return {};
  return {kShape.size(), "<uuid>"};
}

// MAC and IPv6 addresses and InfiniBand GUIDs: hexadecimal groups of one length or with "::" between them. PCI
// addresses and times of day have fewer groups.
Match colons(std::string_view text, size_t at) {
  if (!word_starts(text, at) || (at > 0 && text[at - 1] == ':')) return {};
  size_t end = at;
  int groups = 0, empty = 0;
  while (end < text.size()) {
    const size_t begin = end;
    while (end < text.size() && end - begin < 5 && is_hex(text[end])) ++end;
    if (end - begin > 4) return {};
    ++groups;
    if (end == begin) ++empty;
    if (end >= text.size() || text[end] != ':') break;
    ++end;
  }
  if (!word_ends(text, end) || empty > 2) return {};
  const bool shortened = text.substr(at, end - at).find("::") != std::string_view::npos;
  if (groups < (shortened ? 3 : 4) || text.substr(at, end - at) == "0::") return {};  // a line of /proc/self/cgroup
  return {end - at, "<address>"};
}

// Not after a letter, a point or a dash: "libcublas.so.13.1.0.3", "v13.1.0.3".
Match ipv4(std::string_view text, size_t at) {
  if (!word_starts(text, at) || (at > 0 && (text[at - 1] == '.' || text[at - 1] == '-'))) return {};
  size_t end = at;
  for (int part = 0; part < 4; ++part) {
    if (part > 0) {
      if (end >= text.size() || text[end] != '.') return {};
      ++end;
    }
    int value = 0;
    const size_t begin = end;
    for (; end < text.size() && end - begin < 4 && is_digit(text[end]); ++end) value = value * 10 + (text[end] - '0');
    if (end == begin || value > 255) return {};
  }
  if (!word_ends(text, end) || (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]))) return {};
  const std::string_view found = text.substr(at, end - at);
  if (found == "127.0.0.1" || found == "0.0.0.0") return {};
  return {found.size(), "<address>"};
}

Match home(std::string_view text, size_t at) {
  for (const std::string_view parent : {"/home/", "/Users/"}) {
    if (text.substr(at, parent.size()) != parent) continue;
    size_t end = at + parent.size();
    const auto in_name = [](char c) {
      return is_word(c) || c == '-' || c == '.' || static_cast<unsigned char>(c) >= 0x80;
    };
    while (end < text.size() && in_name(text[end])) ++end;
    if (end > at + parent.size()) return {end - at, std::string(parent) + "user"};
  }
  return {};
}

// File systems of other machines: "nas:/export", "alice@nas:/export" at the start of a line or after a space.
Match remote(std::string_view text, size_t at) {
  if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\n' && text[at - 1] != '\t') return {};
  size_t end = at;
  while (end < text.size() && (is_word(text[end]) || text[end] == '-' || text[end] == '.' || text[end] == '@')) ++end;
  if (end == at || text.substr(end, 2) != ":/" || text.substr(end, 3) == "://") return {};
  return {end - at, "<host>"};
}

// SERIAL_NUMBER="x", Serial : x, androidboot.serialno=x.
Match serial(std::string_view text, size_t at) {
  constexpr std::string_view kWord = "serial";
  if (text.size() - at < kWord.size() ||
      !std::equal(kWord.begin(), kWord.end(), text.begin() + static_cast<ptrdiff_t>(at),
                  [](char a, char b) { return a == lower(b); })) {
    return {};
  }
  size_t key = at + kWord.size();
  while (key < text.size() && (is_word(text[key]) || text[key] == ' ' || text[key] == '\t')) ++key;
  if (key >= text.size() || (text[key] != '=' && text[key] != ':')) return {};
  const bool assigned = text[key] == '=';
  size_t value = key + 1;
  while (value < text.size() && (text[value] == ' ' || text[value] == '\t')) ++value;
  const char quote = value < text.size() && (text[value] == '"' || text[value] == '\'') ? text[value] : '\0';
  size_t end = quote ? value + 1 : value;
  while (end < text.size() && text[end] != '\n' && text[end] != quote && (quote || !assigned || text[end] != ' '))
    ++end;
  if (quote && end < text.size() && text[end] == quote) ++end;
  if (end == value) return {};
  std::string by(text.substr(at, value - at));
  if (quote) by += quote;
  by += kRemoved;
  if (quote) by += quote;
  return {end - at, by};
}

constexpr std::array<Rule, 6> kRules = {uuid, colons, ipv4, remote, home, serial};

}  // namespace

Redactor::Redactor(std::vector<std::string> names) {
  for (std::string& name : names) {
    const bool ordinary = std::find(kOrdinaryWords.begin(), kOrdinaryWords.end(), name) != kOrdinaryWords.end();
    const bool number = std::all_of(name.begin(), name.end(), is_digit);
    if (name.size() >= 2 && !ordinary && !number) names_.push_back(std::move(name));
  }
}

std::string Redactor::operator()(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    Match match;
    for (const Rule rule : kRules) {
      match = rule(text, at);
      if (match.length > 0) break;
    }
    if (match.length == 0 && word_starts(text, at)) {
      for (const std::string& name : names_) {
        if (text.substr(at, name.size()) == name && word_ends(text, at + name.size())) match = {name.size(), "<name>"};
      }
    }
    if (match.length > 0) {
      out += match.by;
      at += match.length;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool Redactor::secret_path(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  static constexpr std::array<std::string_view, 7> kSecrets{"serial",     "uuid",     "address", "guid",
                                                            "machine-id", "hostname", "gid"};
  return std::ranges::any_of(kSecrets, [&](auto secret) { return name.find(secret) != std::string_view::npos; });
}

}  // namespace sparkpilot
