// "NAME[:, -1, 3:7]": outputs chosen and sliced before anything is compiled, so that the rest is never computed.
#include <charconv>
#include <optional>

#include "base/error.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

struct AxisSlice {
  int64_t begin = 0, end = INT64_MAX, step = 1;
  bool single = false;  // an index: the axis goes away
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int64_t> number(std::string_view text, std::string_view whole) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("output \"{}\": \"{}\" is no index; expected a slice such as [:, -1, 0:10]", whole, text);
  }
  return value;
}

AxisSlice parse_axis(std::string_view text, std::string_view whole) {
  AxisSlice slice;
  const size_t first = text.find(':');
  if (first == std::string_view::npos) {
    const auto index = number(text, whole);
    if (!index) fail("output \"{}\": an empty index", whole);
    slice.single = true;
    slice.begin = *index;
    slice.end = *index == -1 ? INT64_MAX : *index + 1;
    return slice;
  }
  const size_t second = text.find(':', first + 1);
  slice.begin = number(text.substr(0, first), whole).value_or(0);
  slice.end = number(text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1), whole)
                  .value_or(INT64_MAX);
  if (second != std::string_view::npos) slice.step = number(text.substr(second + 1), whole).value_or(1);
  if (slice.step < 1) fail("output \"{}\": steps below 1 are not supported", whole);
  return slice;
}

std::vector<AxisSlice> parse_slices(std::string_view text, std::string_view whole) {
  std::vector<AxisSlice> slices;
  while (true) {
    const size_t comma = text.find(',');
    slices.push_back(parse_axis(text.substr(0, comma), whole));
    if (comma == std::string_view::npos) return slices;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

void select_outputs(Graph& graph, std::span<const std::string> wanted) {
  const std::vector<Graph::Output> before = graph.outputs();
  std::vector<Graph::Output> chosen;
  for (const std::string& text : wanted) {
    const std::string_view view = trimmed(text);
    if (view.empty()) fail("an empty output name");
    const size_t bracket = view.back() == ']' ? view.find('[') : std::string_view::npos;
    const std::string_view plain = trimmed(view.substr(0, bracket));
    const Graph::Output* found = nullptr;
    std::string names;
    for (const Graph::Output& output : before) {
      if (output.name == plain) found = &output;
      names += (names.empty() ? "" : ", ") + output.name;
    }
    if (!found) fail("the model has no output \"{}\"; it has: {}", plain, names);
    ValueId value = found->value;
    if (bracket != std::string_view::npos) {
      Builder b(graph, fmt::format("output/{}", plain));
      std::vector<int64_t> begins, ends, steps, axes, single;
      const auto slices = parse_slices(view.substr(bracket + 1, view.size() - bracket - 2), text);
      for (size_t axis = 0; axis < slices.size(); ++axis) {
        const AxisSlice& slice = slices[axis];
        if (slice.single) single.push_back(static_cast<int64_t>(axis));
        if (slice.begin == 0 && slice.end == INT64_MAX && slice.step == 1 && !slice.single) continue;
        axes.push_back(static_cast<int64_t>(axis));
        begins.push_back(slice.begin);
        ends.push_back(slice.end);
        steps.push_back(slice.step);
      }
      if (!axes.empty()) value = b.add("Slice", {value, b.ints(begins), b.ints(ends), b.ints(axes), b.ints(steps)});
      if (!single.empty()) value = b.add("Squeeze", {value, b.ints(single)});
    }
    chosen.push_back({value, found->name});
  }
  graph.replace_outputs(std::move(chosen));
}

}  // namespace sparkpilot
