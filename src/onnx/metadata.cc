#include "onnx/metadata.h"

#include <algorithm>
#include <array>

#include "base/base64.h"
#include "base/error.h"
#include "onnx/pickle.h"

namespace sparkpilot {
namespace {

OutputSlices read_slices(const Pickle& pickle, Pickle::Ref ref) {
  OutputSlices out;
  for (const auto& [name, value] : pickle.items(ref, "output_slices")) {
    if (pickle.kind(value) != Pickle::Kind::slice) {
      fail("output_slices: \"{}\" is a {}, expected a slice", name, sparkpilot::name(pickle.kind(value)));
    }
    std::array<std::optional<int64_t>, 3> bounds;
    const auto refs = pickle.elements(value, name);
    for (size_t i = 0; i < 3; ++i) {
      if (pickle.kind(refs[i]) != Pickle::Kind::none) bounds[i] = pickle.integer(refs[i], name);
    }
    out.push_back({name, {bounds[0], bounds[1], bounds[2]}});
  }
  return out;
}

std::vector<std::pair<std::string, std::vector<int64_t>>> read_shapes(const Pickle& pickle, Pickle::Ref ref,
                                                                      std::string_view what) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> out;
  for (const auto& [name, value] : pickle.items(ref, what)) {
    const auto dims = pickle.elements(value, name);
    if (dims.size() > static_cast<size_t>(Shape::kMaxRank)) fail("{}: \"{}\" has rank {}", what, name, dims.size());
    std::vector<int64_t> shape;
    for (const Pickle::Ref dim : dims) shape.push_back(pickle.integer(dim, name));
    out.emplace_back(name, std::move(shape));
  }
  return out;
}

// --- writing, protocol 4
class PickleWriter {
 public:
  std::string write(const OutputSlices& slices) {
    out_ = "\x80\x04}(";
    bool first = true;
    for (const auto& [name, slice] : slices) {
      text(name);
      if (first) {  // the class, stored in slot 0 of the memo
        text("builtins");
        text("slice");
        out_ += "\x93\x94";
      } else {
        out_ += std::string_view("h\0", 2);
      }
      first = false;
      for (const auto& bound : {slice.start, slice.stop, slice.step}) integer(bound);
      out_ += "\x87R";
    }
    out_ += "u.";
    return out_;
  }

 private:
  void little_endian(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) out_ += static_cast<char>(value >> (8 * i) & 255);
  }
  void text(std::string_view value) {
    out_ += 'X';
    little_endian(value.size(), 4);
    out_ += value;
  }
  void integer(std::optional<int64_t> value) {
    if (!value) {
      out_ += 'N';
    } else if (*value == static_cast<int32_t>(*value)) {
      out_ += 'J';
      little_endian(static_cast<uint64_t>(*value), 4);
    } else {
      out_ += "\x8a\x08";
      little_endian(static_cast<uint64_t>(*value), 8);
    }
  }
  std::string out_;
};

}  // namespace

std::pair<int64_t, int64_t> OutputSlice::resolve(int64_t length) const {
  if (step && *step != 1) fail("output slice has step {}, expected 1", *step);
  const auto place = [&](int64_t bound) {
    return std::clamp<int64_t>(bound < 0 ? std::max(bound, -length) + length : bound, 0, length);
  };
  const int64_t begin = place(start.value_or(0)), end = place(stop.value_or(length));
  return {begin, std::max(begin, end)};
}

OutputSlices parse_output_slices(std::string_view base64) {
  const std::vector<std::byte> bytes = decode_base64(base64);
  const Pickle pickle(bytes);
  return read_slices(pickle, pickle.root());
}

OutputSlices output_slices(const Graph& graph) {
  const auto found = graph.metadata.find(std::string(kOutputSlicesKey));
  return found == graph.metadata.end() ? OutputSlices{} : parse_output_slices(found->second);
}

std::string write_output_slices(const OutputSlices& slices) {
  const std::string bytes = PickleWriter().write(slices);
  return encode_base64(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

OutputSlices slices_within(const OutputSlices& slices, int64_t length, int64_t begin, int64_t end) {
  OutputSlices within;
  for (const auto& [name, slice] : slices) {
    if (slice.step && *slice.step != 1) continue;
    const auto [first, last] = slice.resolve(length);
    if (first >= begin && last <= end && first < last) within.push_back({name, {first - begin, last - begin, {}}});
  }
  return within;
}

ModelMetadata parse_metadata_pickle(std::span<const std::byte> bytes) {
  const Pickle pickle(bytes);
  ModelMetadata out;
  for (const auto& [key, value] : pickle.items(pickle.root(), "metadata")) {
    if (key == "model_checkpoint" && pickle.kind(value) != Pickle::Kind::none) out.checkpoint = pickle.text(value, key);
    else if (key == kOutputSlicesKey) out.slices = read_slices(pickle, value);
    else if (key == "input_shapes") out.input_shapes = read_shapes(pickle, value, key);
    else if (key == "output_shapes") out.output_shapes = read_shapes(pickle, value, key);
  }
  return out;
}

}  // namespace sparkpilot
