// Selects and slices outputs ("NAME[:, -1, 3:7]") before anything is compiled, so that the rest is never computed.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "onnx/metadata.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

struct AxisSlice {
  int64_t begin = 0, end = INT64_MAX, step = 1;
  bool single = false;  // an index: the axis is removed
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

using Dims = std::vector<Dim>;

bool whole(const AxisSlice& slice) {
  return slice.begin == 0 && slice.end == INT64_MAX && slice.step == 1 && !slice.single;
}

// [begin, end) of an axis of that size.
std::pair<int64_t, int64_t> range_of(const AxisSlice& slice, int64_t size) {
  return OutputSlice{slice.begin, slice.end, {}}.resolve(size);
}

std::optional<Dims> dims_of(const Value& value) {
  if (!value.shape) return value.declared;
  Dims dims;
  for (const int64_t size : *value.shape) dims.push_back({size, {}});
  return dims;
}

// A parsed output selection.
struct Choice {
  std::string_view text;
  const Graph::Output* output = nullptr;
  std::vector<AxisSlice> slices;  // empty: not sliced
};

Choice parse_choice(std::string_view text, const std::vector<Graph::Output>& outputs) {
  Choice choice{.text = trimmed(text)};
  if (choice.text.empty()) fail("an empty output name");
  const size_t bracket = choice.text.back() == ']' ? choice.text.find('[') : std::string_view::npos;
  const std::string_view plain = trimmed(choice.text.substr(0, bracket));
  std::string names;
  for (const Graph::Output& output : outputs) {
    if (output.name == plain) choice.output = &output;
    names += (names.empty() ? "" : ", ") + output.name;
  }
  if (!choice.output) fail("the model has no output \"{}\"; it has: {}", plain, names);
  if (bracket != std::string_view::npos) {
    choice.slices = parse_slices(choice.text.substr(bracket + 1, choice.text.size() - bracket - 2), text);
  }
  return choice;
}

// Inference gives no type to a value that depends on an open shape: declares its selected part as the file declares the
// output.
void declare(Graph& graph, const Choice& choice, ValueId part) {
  const Value& source = graph.value(choice.output->value);
  Value& value = graph.value(part);
  if (value.dtype == DType::none) value.dtype = source.dtype;
  if (value.shape || !source.declared || source.declared->size() < choice.slices.size()) return;
  value.declared.emplace();
  for (size_t axis = 0; axis < source.declared->size(); ++axis) {
    const Dim& dim = (*source.declared)[axis];
    if (axis >= choice.slices.size() || whole(choice.slices[axis])) {
      value.declared->push_back(dim);
    } else if (const AxisSlice& slice = choice.slices[axis]; !slice.single) {
      Dim left;
      if (dim.size >= 0) {
        const auto [begin, end] = range_of(slice, dim.size);
        left.size = (end - begin) / slice.step + ((end - begin) % slice.step != 0);
      }
      value.declared->push_back(left);
    }
  }
}

// Fails where nothing is taken of an axis of known size: what has no elements would agree with everything.
void expect_some(const Graph& graph, const Choice& choice) {
  const std::optional<Dims> dims = dims_of(graph.value(choice.output->value));
  if (!dims) return;
  for (size_t axis = 0; axis < std::min(choice.slices.size(), dims->size()); ++axis) {
    const int64_t size = (*dims)[axis].size;
    if (size <= 0) continue;
    const auto [begin, end] = range_of(choice.slices[axis], size);
    if (begin >= end) fail("output \"{}\": nothing is taken of axis {}, which has {}", choice.text, axis, size);
  }
}

ValueId add_slices(Graph& graph, const Choice& choice) {
  expect_some(graph, choice);
  Builder b(graph, fmt::format("output/{}", choice.output->name));
  std::vector<int64_t> begins, ends, steps, axes, single;
  for (size_t axis = 0; axis < choice.slices.size(); ++axis) {
    const AxisSlice& slice = choice.slices[axis];
    if (slice.single) single.push_back(static_cast<int64_t>(axis));
    if (whole(slice)) continue;
    axes.push_back(static_cast<int64_t>(axis));
    begins.push_back(slice.begin);
    ends.push_back(slice.end);
    steps.push_back(slice.step);
  }
  if (axes.empty()) return choice.output->value;
  ValueId value = b.add("Slice", {choice.output->value, b.ints(begins), b.ints(ends), b.ints(axes), b.ints(steps)});
  if (!single.empty()) value = b.add("Squeeze", {value, b.ints(single)});
  declare(graph, choice, value);
  return value;
}

// The selected range [begin, end) of the last axis; empty if another axis is cut too, or the last one is indexed or has
// a step.
struct LastAxis {
  int64_t length = 0, begin = 0, end = 0;
};
std::optional<LastAxis> last_axis(const Graph& graph, const Choice& choice) {
  const std::optional<Dims> dims = dims_of(graph.value(choice.output->value));
  if (!dims || dims->empty() || dims->back().size < 0 || choice.slices.size() > dims->size()) return std::nullopt;
  const size_t last = dims->size() - 1;
  for (size_t axis = 0; axis < std::min(last, choice.slices.size()); ++axis) {
    if (!whole(choice.slices[axis]) && (*dims)[axis].size != 1) return std::nullopt;
  }
  const AxisSlice slice = choice.slices.size() > last ? choice.slices[last] : AxisSlice{};
  if (slice.single || slice.step != 1) return std::nullopt;
  const auto [begin, end] = range_of(slice, dims->back().size);
  return LastAxis{dims->back().size, begin, end};
}

// Adjusts `output_slices`, which describe the model's first output, if the new first output is another one or a part.
std::string update_metadata(Graph& graph, const std::vector<Graph::Output>& before, const Choice& first) {
  const auto entry = graph.metadata.find(std::string(kOutputSlicesKey));
  if (entry == graph.metadata.end()) return {};
  OutputSlices heads, left;
  if (first.output->name == before.front().name) {
    if (first.slices.empty()) return {};
    if (const std::optional<LastAxis> axis = last_axis(graph, first)) {
      if (axis->end - axis->begin == axis->length) return {};
      try {
        heads = output_slices(graph);
        left = slices_within(heads, axis->length, axis->begin, axis->end);
      } catch (const Error&) {  // they cannot be parsed: dropped
      }
    }
  }
  if (left.empty()) {
    graph.metadata.erase(entry);
    return fmt::format("output_slices is dropped: none of its heads has a place in {}", first.text);
  }
  entry->second = write_output_slices(left);
  return fmt::format("output_slices is cut to {}: {} of {} heads are left", first.text, left.size(), heads.size());
}

}  // namespace

std::string select_outputs(Graph& graph, std::span<const std::string> wanted) {
  const std::vector<Graph::Output> before = graph.outputs();
  std::vector<Choice> choices;
  std::map<const Graph::Output*, int> times;
  for (const std::string& text : wanted) {
    choices.push_back(parse_choice(text, before));
    ++times[choices.back().output];
  }
  std::string note;
  std::vector<Graph::Output> chosen;
  std::set<std::string> names;
  for (const Choice& choice : choices) {
    // Outputs are found by name, so several selections of one output are named by their texts.
    const std::string name(times[choice.output] > 1 ? choice.text : choice.output->name);
    if (!names.insert(name).second) fail("output \"{}\" is asked for twice", name);
    if (chosen.empty()) note = update_metadata(graph, before, choice);
    chosen.push_back({add_slices(graph, choice), name});
  }
  graph.replace_outputs(std::move(chosen));
  return note;
}

}  // namespace sparkpilot
