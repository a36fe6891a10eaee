// What is compared: a model file with the options that a session of it gets, or with the peer that runs it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "bench/peer.h"
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
  // Another engine runs the file, with the threads and the precision in `session`.
  std::optional<PeerName> peer = {};
};

// Gives an int8 variant its graph, calibrated on these samples. Fails (user) naming the file.
void quantize_variant(Variant& variant, const Samples& samples, const QuantizeProgress& progress);

// A session of the variant with every input's shape bound: open dimensions as the first of `samples` has them, else as
// bind_open_dimensions() says, which adds to `notes`. Both may be null. Fails (user) naming the file.
Session open_variant(const Variant& variant, const Samples* samples, std::vector<std::string>* notes = nullptr);

// The variant with the kernels and the number of threads that a compiled session of it has found, so that further
// sessions find the same at once.
Variant settled(Variant variant, const Session& session);

// Which other precision computes the same, as a precision of 8 or 4 bits finds no weights to store so: "fp32", or "fp8"
// for fp4. Empty if none does. The session is of the variant, its inputs' shapes bound.
std::string same_precision(const Variant& variant, const Session& session);

// Sample i as an input of another model has it: of the same name and shape, in its type. Fails (user) if the samples
// lack it or have it in another shape. `shape`: the input's, if it is fixed.
Tensor sample_for(const Variant& variant, const Samples& samples, size_t i, const std::string& input, DType dtype,
                  const std::optional<Shape>& shape);

// Writes sample i into the session's inputs of the same names, in their types. Fails (user) if the session has an input
// that the samples lack, or of another shape.
void set_inputs(Session& session, const Variant& variant, const Samples& samples, size_t i);

}  // namespace sparkpilot::compare
