// For tests and gpu_check: samples of random numbers for the inputs of networks of the zoo, with a teacher's outputs.
#pragma once

#include <cstring>

#include "base/random.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "runtime/session.h"
#include "train/program.h"
#include "train/samples.h"
#include "train/student.h"

namespace sparkpilot::train {

// Writes the zoo's model into the folder, if it is not there.
inline StudentNetwork zoo_network(const std::filesystem::path& folder, const std::string& role,
                                  const std::string& model) {
  const std::filesystem::path file = folder / (model + ".onnx");
  if (!std::filesystem::exists(file)) save_onnx(build_zoo_model(model), file);
  return {role, file};
}

class RandomSamples final : public Samples {
 public:
  RandomSamples(std::span<const StudentNetwork> networks, int64_t size) : size_(size) {
    for (const StudentNetwork& network : networks) {
      const Graph graph = load_onnx(network.file);
      for (const ValueId id : graph.inputs()) {
        const Value& v = graph.value(id);
        fields_.push_back({v.name, v.dtype == DType::u8 ? DType::u8 : DType::f32, v.shape->removed(0)});
      }
      Session session(graph, {.threads = 1});
      const std::string output = session.outputs()[0].name;
      session.run();
      fields_.push_back({"teacher." + network.role, DType::f32, session.output(output).shape.removed(0)});
    }
    fields_.push_back({"driven.plan", DType::f32, {33, 15}});
    fields_.push_back({"driven.valid", DType::f32, {33}});
  }
  std::span<const Field> fields() const override { return fields_; }
  std::vector<Field>& fields() { return fields_; }
  int64_t size() const override { return size_; }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    for (size_t i = 0; i < fields_.size(); ++i) {
      Random random(static_cast<uint64_t>(index) * 100 + i);
      for (int64_t k = 0; k < fields_[i].shape.elements(); ++k) {
        const bool bytes = fields_[i].dtype == DType::u8;
        const double value = bytes ? static_cast<double>(random.integer(0, 255)) : 0.5 * random.normal();
        store_element(fields_[i].dtype, to[i], k, fields_[i].name == "driven.valid" ? 1 : value);
      }
    }
  }
  // A batch of samples from `first` on into a program's inputs; `input` gives their memory by name.
  template <typename Input>
  void give(const TrainingProgram& program, int64_t first, const Input& input) const {
    std::vector<std::vector<std::byte>> sample;
    std::vector<std::byte*> to;
    for (const Field& field : fields_) {
      sample.emplace_back(static_cast<size_t>(storage_bytes(field.dtype, field.shape.elements())));
      to.push_back(sample.back().data());
    }
    const auto batch = [](const View& view) { return view.shape.rank() > 0 ? view.shape[0] : 1; };
    for (int64_t entry = 0;; ++entry) {
      bool more = false;
      read(first + entry, to);
      for (const TensorInfo& info : program.inputs()) {
        const View view = input(info.name);
        if (entry >= batch(view)) continue;
        const auto at = static_cast<size_t>(std::ranges::find(fields_, info.name, &Field::name) - fields_.begin());
        std::memcpy(static_cast<std::byte*>(view.data) + entry * static_cast<int64_t>(sample[at].size()),
                    sample[at].data(), sample[at].size());
        more |= entry + 1 < batch(view);
      }
      if (!more) return;
    }
  }

 private:
  int64_t size_;
  std::vector<Field> fields_;
};

}  // namespace sparkpilot::train
