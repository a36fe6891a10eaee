#include "cli/fit.h"

#include <algorithm>

namespace sparkpilot::cli {
namespace {

constexpr std::string_view kLeftOut = "...";

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The first `width` columns of a text without colour codes.
std::string_view head(std::string_view text, size_t width) {
  size_t end = 0;
  for (size_t columns = 0; end < text.size(); ++end) {
    if (!continues(text[end]) && ++columns > width) break;
  }
  return text.substr(0, end);
}

std::string_view tail(std::string_view text, size_t width) {
  size_t begin = text.size();
  for (size_t columns = 0; begin > 0 && columns < width; --begin) columns += !continues(text[begin - 1]);
  return text.substr(begin);
}

// Start of the next part of a path or of a qualified name ("/Conv", "::Conv"), from `from` on.
size_t part_at(std::string_view name, size_t from) { return std::min(name.find('/', from), name.find("::", from)); }

// As many of the last parts as fit; empty if there is one part, or if not even the last one fits.
std::string last_parts(std::string_view name, size_t width) {
  if (base_name(name).size() == name.size()) return {};
  for (size_t at = part_at(name, 0); at != std::string_view::npos; at = part_at(name, at + 1)) {
    const std::string_view parts = name.substr(at);
    if (kLeftOut.size() + width_of(parts) <= width) return std::string(kLeftOut) + std::string(parts);
  }
  return width_of(base_name(name)) <= width ? std::string(base_name(name)) : std::string();
}

// Whether a text with spaces is a path, whose end says more than its beginning: "my models/vision.onnx".
bool ends_in_file(std::string_view text) {
  const std::string_view base = base_name(text);
  return base.size() < text.size() && base.find(' ') == std::string_view::npos &&
         base.find('.') != std::string_view::npos;
}

}  // namespace

size_t width_of(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if (!continues(text[i])) {
      ++width;
    }
  }
  return width;
}

std::string_view base_name(std::string_view name) {
  const size_t slash = name.rfind('/'), colons = name.rfind("::");
  const size_t begin =
      std::max(slash == std::string_view::npos ? 0 : slash + 1, colons == std::string_view::npos ? 0 : colons + 2);
  return begin < name.size() ? name.substr(begin) : name;
}

std::string fitted(std::string_view text, size_t width) {
  if (width_of(text) <= width || text.find('\x1b') != std::string_view::npos) return std::string(text);
  if (width <= kLeftOut.size()) return std::string(head(text, width));
  const size_t room = width - kLeftOut.size();
  if (text.find(' ') != std::string_view::npos && !ends_in_file(text)) {
    std::string_view kept = head(text, room);
    kept = kept.substr(0, kept.find_last_not_of(' ') + 1);
    return std::string(kept) + std::string(kLeftOut);
  }
  if (std::string parts = last_parts(text, width); !parts.empty()) return parts;
  text = base_name(text);
  const size_t back = (room + 1) / 2;
  return std::string(head(text, room - back)) + std::string(kLeftOut) + std::string(tail(text, back));
}

std::string wrapped(std::string_view text, size_t indent, int columns) {
  constexpr size_t kMinRoom = 16;
  const auto wide = static_cast<size_t>(std::max(columns, 0));
  if (wide < indent + kMinRoom || indent + width_of(text) <= wide) return std::string(text);
  const size_t room = wide - indent;
  std::string out;
  size_t taken = 0;
  while (!text.empty()) {
    const std::string word = fitted(text.substr(0, text.find(' ')), room);
    text.remove_prefix(std::min(text.find(' '), text.size() - 1) + 1);
    if (taken > 0 && taken + 1 + width_of(word) > room) {
      out += '\n' + std::string(indent, ' ');
      taken = 0;
    }
    if (taken > 0) out += ' ', ++taken;
    out += word;
    taken += width_of(word);
  }
  return out;
}

}  // namespace sparkpilot::cli
