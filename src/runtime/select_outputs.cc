// "NAME[:, -1, 3:7]": outputs chosen and sliced before anything is compiled, so that the rest is never computed.
#include <charconv>
#include <map>
#include <optional>
#include <set>

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

// One wanted output: all of the text, the output's name in it, and what stands between the brackets, if there are any.
struct Selection {
  std::string_view text, name;
  std::optional<std::string_view> slices;
};

Selection parse_selection(std::string_view text) {
  const std::string_view whole = trimmed(text);
  if (whole.empty()) fail("an empty output name");
  const size_t bracket = whole.back() == ']' ? whole.find('[') : std::string_view::npos;
  if (bracket == std::string_view::npos) return {whole, whole, std::nullopt};
  return {whole, trimmed(whole.substr(0, bracket)), whole.substr(bracket + 1, whole.size() - bracket - 2)};
}

const Graph::Output& output_named(const std::vector<Graph::Output>& outputs, std::string_view name) {
  std::string names;
  for (const Graph::Output& output : outputs) {
    if (output.name == name) return output;
    names += (names.empty() ? "" : ", ") + output.name;
  }
  fail("the model has no output \"{}\"; it has: {}", name, names);
}

ValueId sliced(Graph& graph, ValueId value, const Selection& selection) {
  Builder b(graph, fmt::format("output/{}", selection.name));
  std::vector<int64_t> begins, ends, steps, axes, single;
  const auto slices = parse_slices(*selection.slices, selection.text);
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
  return value;
}

}  // namespace

void select_outputs(Graph& graph, std::span<const std::string> wanted) {
  const std::vector<Graph::Output> before = graph.outputs();
  std::vector<Selection> selections;
  std::map<std::string_view, int> times;
  for (const std::string& text : wanted) {
    selections.push_back(parse_selection(text));
    ++times[selections.back().name];
  }
  std::vector<Graph::Output> chosen;
  std::set<std::string> names;
  for (const Selection& selection : selections) {
    const ValueId value = output_named(before, selection.name).value;
    // Outputs are found by name, so two parts of one go by what was asked for.
    const std::string name(times[selection.name] > 1 ? selection.text : selection.name);
    if (!names.insert(name).second) fail("output \"{}\" is asked for twice", name);
    chosen.push_back({selection.slices ? sliced(graph, value, selection) : value, name});
  }
  graph.replace_outputs(std::move(chosen));
}

}  // namespace sparkpilot
