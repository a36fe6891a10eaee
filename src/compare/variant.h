// What is compared: a model file with the options that a session of it gets.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "bench/quantize.h"
#include "bench/samples.h"
#include "sparkpilot/session.h"

namespace sparkpilot::compare {

struct Variant {
  std::string name;  // in tables: "bf16", "new.onnx", "2 threads"
  std::filesystem::path file;
  SessionOptions session = {};
  bool int8 = false;                        // quantized first (quantize_variant)
  std::shared_ptr<const Graph> graph = {};  // instead of the file's; null: the file's
};

// Gives an int8 variant its graph, calibrated on these samples. Fails (user) naming the file.
void quantize_variant(Variant& variant, const Samples& samples, const QuantizeProgress& progress);

// A session of the variant with every input's shape bound: open dimensions as the first of `samples` has them, else as
// bind_open_dimensions() says, which adds to `notes`. Both may be null. Fails (user) naming the file.
Session open_variant(const Variant& variant, const Samples* samples, std::vector<std::string>* notes = nullptr);

// The variant with the kernels and the number of threads that a compiled session of it has found, so that further
// sessions find the same at once.
Variant settled(Variant variant, const Session& session);

// Writes sample i into the session's inputs of the same names, in their types. Fails (user) if the session has an input
// that the samples lack, or of another shape.
void set_inputs(Session& session, const Variant& variant, const Samples& samples, size_t i);

}  // namespace sparkpilot::compare
