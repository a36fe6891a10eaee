// Networks for end-to-end tests: always the tiny stand-ins, and the real ones of ../shared/assets if present.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_assets.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "runtime/session.h"

namespace sparkpilot::testing {

// The folder of real inputs, empty if it does not exist. SPARKPILOT_ASSETS takes precedence over the place next to the
// source.
inline std::filesystem::path assets() {
  const std::filesystem::path folder = assets_folder();
  return std::filesystem::is_directory(folder) ? folder : std::filesystem::path();
}

struct Network {
  std::string name;
  std::filesystem::path file;  // empty: a stand-in model
  Graph load() const { return file.empty() ? build_zoo_model(name, 1) : load_onnx(file); }
};

inline std::vector<std::string> tiny_networks() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : zoo()) {
    if (entry.name.starts_with("tiny_")) names.emplace_back(entry.name);
  }
  return names;
}

// The tiny stand-ins, and the files of the real networks below the folder of real inputs.
inline std::vector<std::string> networks() {
  std::vector<std::string> names = tiny_networks();
  for (const char* file :
       {"openpilot_dm/dmonitoring_model_2021-06.onnx", "openpilot_dm/dmonitoring_model_v0.8.9_2021-08.onnx",
        "controls_challenge/tinyphysics.onnx", "thirdparty/FastestDet.onnx",
        "thirdparty/ultraface_version-RFB-320_128.onnx", "thirdparty/ultraface_version-slim-320.onnx",
        "wakeword/embedding_model.onnx", "wakeword/hey_comma.onnx"}) {
    names.emplace_back(file);
  }
  return names;
}

// A test of one network, named by the parameter; skipped if its file does not exist.
class NetworkTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    network_ = {GetParam(), {}};
    if (find_zoo_entry(GetParam())) return;
    network_.file = assets() / GetParam();
    if (!std::filesystem::exists(network_.file)) GTEST_SKIP() << "../shared/assets/" << GetParam() << " is not there";
  }
  Network network_;
};

// "dmonitoring_model_2021_06" for "openpilot_dm/dmonitoring_model_2021-06.onnx": a valid test name.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

// Fills a session's inputs from a seed: images over their whole range, small indices, other inputs normally
// distributed. Open dimensions become 1.
inline void fill_inputs(Session& session, uint64_t seed) {
  Random random(seed);
  const std::vector<TensorInfo> inputs = session.inputs();
  for (const TensorInfo& info : inputs) {
    if (info.shape) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : info.dims) sizes.push_back(dim.size < 0 ? 1 : dim.size);
    session.set_shape(info.name, Shape(std::span<const int64_t>(sizes)));
  }
  for (const TensorInfo& info : inputs) {
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
