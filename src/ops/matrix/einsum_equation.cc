#include "ops/matrix/einsum_equation.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot {
namespace {

constexpr char kEllipsis = '.';
constexpr char kFirstEllipsisLabel = 1;  // axis i from the right has label kFirstEllipsisLabel + i

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A term with its ellipsis, if any, replaced by one '.'.
std::string parse_term(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (is_letter(text[i])) {
      out += text[i];
    } else if (text.substr(i, 3) == "..." && out.find(kEllipsis) == std::string::npos) {
      out += kEllipsis;
      i += 2;
    } else {
      fail("equation has an unexpected \"{}\"", text.substr(i, 3));
    }
  }
  return out;
}

// The term with its ellipsis replaced by `axes` labels.
std::string written_out(const std::string& term, int axes) {
  const size_t at = term.find(kEllipsis);
  if (at == std::string::npos) return term;
  std::string labels;
  for (int i = axes - 1; i >= 0; --i) labels += static_cast<char>(kFirstEllipsisLabel + i);
  return term.substr(0, at) + labels + term.substr(at + 1);
}

}  // namespace

EinsumEquation::EinsumEquation(std::string_view text, const std::vector<int>& ranks) {
  const size_t arrow = text.find("->");
  const std::string_view left = text.substr(0, arrow);
  int widest = 0;  // axes of the longest ellipsis
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = left.find(',', begin);
    if (inputs.size() == ranks.size()) fail("equation has more terms than the {} operands", ranks.size());
    const std::string term = parse_term(left.substr(begin, end == std::string_view::npos ? end : end - begin));
    const bool ellipsis = term.find(kEllipsis) != std::string::npos;
    const int rank = ranks[inputs.size()], named = static_cast<int>(term.size()) - (ellipsis ? 1 : 0);
    if (ellipsis ? rank < named : rank != named) {
      fail("term {} of the equation does not fit rank {}", inputs.size() + 1, rank);
    }
    widest = std::max(widest, ellipsis ? rank - named : 0);
    inputs.push_back(written_out(term, rank - named));
  }
  if (inputs.size() != ranks.size()) fail("equation has {} terms for {} operands", inputs.size(), ranks.size());

  std::string all;
  for (const std::string& term : inputs) all += term;
  if (arrow != std::string_view::npos) {
    output = written_out(parse_term(text.substr(arrow + 2)), widest);
  } else {  // the ellipsis, then the labels that occur once, in ASCII order
    output = written_out(std::string(1, kEllipsis), widest);
    std::string letters = all;
    std::sort(letters.begin(), letters.end());
    for (const char label : letters) {
      if (is_letter(label) && std::count(all.begin(), all.end(), label) == 1) output += label;
    }
  }
  for (const char label : output) {
    if (std::count(output.begin(), output.end(), label) > 1) fail("equation names an output axis twice");
    if (all.find(label) == std::string::npos) fail("equation has an output axis that no operand has");
  }
}

}  // namespace sparkpilot
