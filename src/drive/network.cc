#include "drive/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "adapters/load_model.h"
#include "base/error.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::drive {
namespace {

std::string shape_text(const TensorInfo& input) {
  std::string text;
  for (const Dim& dim : input.dims) {
    const std::string size = dim.size >= 0 ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol;
    text += (text.empty() ? "" : ",") + size;
  }
  return "(" + text + ")";
}

struct Loaded {
  Graph graph;
  OutputSlices slices;
  std::string checkpoint;
};

Loaded load(const std::filesystem::path& file) {
  Loaded out{load_model(file), {}, {}};
  try {
    out.slices = output_slices(out.graph);
  } catch (const Error& error) {
    fail("{}: {}", file.string(), error.what());
  }
  if (out.slices.empty()) {
    fail("{}: not a driving model: it has no output_slices in its metadata, which describe its output", file.string());
  }
  const auto checkpoint = out.graph.metadata.find("model_checkpoint");
  if (checkpoint != out.graph.metadata.end()) out.checkpoint = checkpoint->second;
  return out;
}

Session compile(Graph graph, const SessionOptions& options, const std::string& file) {
  try {
    Session session(std::move(graph), options);
    for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
      if (input.shape) continue;
      std::vector<int64_t> dims;
      for (const Dim& dim : input.dims) dims.push_back(dim.size >= 0 ? dim.size : 1);
      session.set_shape(input.name, Shape(dims));
    }
    session.compile();
    return session;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    fail("{}: {}", file, error.what());
  }
}

}  // namespace

Network::Network(const std::filesystem::path& file, const SessionOptions& options, const Rewrite& rewrite)
    : file_(file.string()), session_([&] {
        Loaded loaded = load(file);
        if (rewrite) loaded.graph = rewrite(std::move(loaded.graph), file);
        slices_ = std::move(loaded.slices);
        checkpoint_ = std::move(loaded.checkpoint);
        return compile(std::move(loaded.graph), options, file_);
      }()) {
  for (const TensorInfo& input : session_.inputs()) {
    const View view = session_.input(input.name);
    std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
  }
  width_ = std::ssize(run());  // the first run also touches every page of memory that later runs use
  parser_.emplace(slices_, width_, file_);
}

const TensorInfo* Network::find(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    for (const TensorInfo& input : session_.inputs()) {
      if (input.name == name) return &input;
    }
  }
  return nullptr;
}

std::string Network::input_list() const {
  std::string text;
  for (const TensorInfo& input : session_.inputs()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", input.name, shape_text(input));
  }
  return text;
}

void Network::set(const TensorInfo& input, std::span<const float> values) {
  const View view = session_.input(input.name);
  if (view.elements() != std::ssize(values)) {
    fail("{}: input {} takes {} values, expected {}", file_, input.name, view.elements(), values.size());
  }
  if (view.dtype == DType::f32) {
    std::copy(values.begin(), values.end(), view.as<float>());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) store_element(view.dtype, view.data, static_cast<int64_t>(i), values[i]);
}

void Network::set(const TensorInfo& input, std::span<const uint8_t> values) {
  const View view = session_.input(input.name);
  if (view.elements() != std::ssize(values)) {
    fail("{}: input {} takes {} values, expected {}", file_, input.name, view.elements(), values.size());
  }
  if (view.dtype == DType::u8) {
    std::memcpy(view.data, values.data(), values.size());
  } else if (view.dtype == DType::f32) {
    std::copy(values.begin(), values.end(), view.as<float>());
  } else if (view.dtype == DType::f16) {  // 0.9.7's input: 786,432 values per frame, of 256 different ones
    std::array<Half, 256> halves;
    for (size_t byte = 0; byte < halves.size(); ++byte) halves[byte] = Half(static_cast<float>(byte));
    std::transform(values.begin(), values.end(), view.as<Half>(), [&](uint8_t byte) { return halves[byte]; });
  } else {
    for (size_t i = 0; i < values.size(); ++i) store_element(view.dtype, view.data, static_cast<int64_t>(i), values[i]);
  }
}

std::span<const float> Network::run() {
  session_.run();
  const ConstView view = session_.output(session_.outputs().at(0).name);
  if (view.dtype == DType::f32) return {view.as<float>(), static_cast<size_t>(view.elements())};
  converted_.resize(static_cast<size_t>(view.elements()));
  for (size_t i = 0; i < converted_.size(); ++i) {
    converted_[i] = static_cast<float>(load_element(view.dtype, view.data, static_cast<int64_t>(i)));
  }
  return converted_;
}

}  // namespace sparkpilot::drive
