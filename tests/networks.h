// The networks that end-to-end tests run: the tiny stand-ins always, the real ones of ../shared/assets where they are.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "runtime/session.h"

namespace sparkpilot::testing {

// The folder of real inputs, or empty where it is not there. SPARKPILOT_ASSETS wins over the place beside the source.
inline std::filesystem::path assets() {
  namespace fs = std::filesystem;
  const char* set = std::getenv("SPARKPILOT_ASSETS");
  const fs::path folder = set ? fs::path(set) : fs::path("../shared/assets");
  return fs::is_directory(folder) ? folder : fs::path();
}

struct Network {
  std::string name;
  std::filesystem::path file;  // empty: of the zoo
  Graph load() const { return file.empty() ? build_zoo_model(name, 1) : load_onnx(file); }
};

inline std::vector<Network> networks() {
  std::vector<Network> out;
  for (const ZooEntry& entry : zoo()) {
    if (std::string(entry.name).rfind("tiny_", 0) == 0) out.push_back({std::string(entry.name), {}});
  }
  if (assets().empty()) return out;
  for (const char* folder : {"openpilot_dm", "controls_challenge", "thirdparty", "wakeword"}) {
    for (const auto& entry : std::filesystem::directory_iterator(assets() / folder)) {
      if (entry.path().extension() == ".onnx") out.push_back({entry.path().stem().string(), entry.path()});
    }
  }
  return out;
}

// A session's inputs filled from a seed: images over their range, indices small, the rest normal. Open dimensions
// are 1.
inline void fill_inputs(Session& session, uint64_t seed) {
  Random random(seed);
  for (const TensorInfo& info : std::vector<TensorInfo>(session.inputs())) {
    if (!info.shape) {
      std::vector<int64_t> sizes;
      for (const Dim& dim : info.dims) sizes.push_back(dim.size < 0 ? 1 : dim.size);
      session.set_shape(info.name, Shape(std::span<const int64_t>(sizes)));
    }
    const View view = session.input(info.name);
    for (int64_t i = 0; i < view.elements(); ++i) {
      const double value = is_float(view.dtype)
                               ? random.normal()
                               : static_cast<double>(random.integer(0, view.dtype == DType::u8 ? 255 : 1));
      store_element(view.dtype, view.data, i, value);
    }
  }
}

// Copies of a session's outputs.
inline std::vector<Tensor> results(Session& session) {
  std::vector<Tensor> out;
  for (const TensorInfo& info : session.outputs()) {
    const ConstView view = session.output(info.name);
    Tensor copy(view.dtype, view.shape);
    std::memcpy(copy.raw(), view.data, static_cast<size_t>(view.bytes()));
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace sparkpilot::testing
