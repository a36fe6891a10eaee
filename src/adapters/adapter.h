// Low-rank adapters: what LoRA (Hu et al., 2021, arXiv 2106.09685) and DoRA (Liu et al., 2024, arXiv 2402.09353) add
// to the layers of a frozen model. Matrices, scaling and files are those of Hugging Face's PEFT.
//
// With W a layer's weights as a matrix [out, in], and s = alpha / r, or alpha / sqrt(r) for rsLoRA:
//   LoRA  W' = W + s B A                    DoRA  W' = m / |V| V with V = W + s B A, norms of rows
// A is [r, in], B [out, r], m [out]. Of a convolution A is [r, in / groups, kernel...], B [out, r, 1...],
// m [1, out, 1...]; `in` counts all inputs of one output. Of a grouped one each group has r / groups rows of A, and B
// is [out, r / groups, 1...]: so the product is a change of the layer's own weights, which PEFT's form for groups is
// not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/layers.h"

namespace sparkpilot {

enum class AdapterKind : uint8_t { lora, rslora, dora };
std::string_view name(AdapterKind kind);

struct AdapterLayer {
  std::string path;       // of the layer (adapters/layers.h)
  Tensor a, b;            // f32
  Tensor magnitude = {};  // f32; DoRA only
  double alpha = 1;
  int64_t rank() const { return a.shape()[0]; }
  int64_t elements() const { return a.elements() + b.elements() + (magnitude.present() ? magnitude.elements() : 0); }
};

struct Adapter {
  AdapterKind kind = AdapterKind::dora;
  std::vector<AdapterLayer> layers;         // in the order of the base's nodes
  DType stored = DType::f32;                // type of the tensors in the file: f32, f16 or bf16
  std::string base_name;                    // of the model that it was made for
  std::string base_fingerprint;             // empty if not known, as of PEFT's own
  std::map<std::string, std::string> tags;  // of the user: car, camera, condition
  double scale(const AdapterLayer& layer) const;
  int64_t bytes() const;  // of the tensors in the file
};

// ---------------------------------------------------------------- making one
struct AdapterOptions {
  AdapterKind kind = AdapterKind::dora;
  // Layers whose whole path matches; a regular expression (ECMAScript), empty: all that can be adapted.
  std::string target = {};
  // The rank of every layer; without one, ranks that fit `max_bytes`.
  std::optional<int64_t> rank = {};
  // Tensor bytes in the file. Ranks are given to the layers whose weights need fewer directions to be described, until
  // no other fits: each next rank to the layer where it holds the most of the weights' squares (by singular values)
  // times the layer's parameters, for its bytes. A layer may get none.
  int64_t max_bytes = 0;
  std::optional<double> alpha = {};  // without one, each layer's rank, so that s = 1
  DType stored = DType::f32;
  uint64_t seed = 1;
};

// What became of each layer.
struct AdapterPlan {
  struct Row {
    std::string path;
    Shape weight;
    int64_t rank = 0;          // 0: not adapted
    std::string why_not = {};  // if so: "depthwise", "not a target", "no bytes left"
  };
  std::vector<Row> rows;
};

// A of uniform random numbers (Kaiming with a = sqrt 5, as PEFT), B zero, m the norms of the rows of W: until it is
// trained, the adapter changes nothing. Fails (user) if the target matches nothing or is no regular expression, if the
// rank cannot be divided among a layer's groups, and if no layer fits max_bytes at rank 1, naming the bytes
// that do.
Adapter create_adapter(const Graph& base, const AdapterOptions& options, AdapterPlan* plan = nullptr);

// Fails (user) if a layer of the adapter is missing in the base or has another shape, or the fingerprint is another's.
// Returns for each layer of the adapter that of the base.
std::vector<Layer> match_layers(const Graph& base, const Adapter& adapter);

// ---------------------------------------------------------------- files
// The name of a layer's tensor in the file: "base_model.model.<path><end>".
inline constexpr std::string_view kLoraA = ".lora_A.weight", kLoraB = ".lora_B.weight",
                                  kLoraMagnitude = ".lora_magnitude_vector";
std::string adapter_parameter_name(std::string_view path, std::string_view end);

// A folder as PEFT has it: adapter_config.json and adapter_model.safetensors. Fails (user) naming the file: what is not
// LoRA or DoRA, bias or other modules trained as well, tensors that do not fit each other, are not finite, or are
// missing.
Adapter load_adapter(const std::filesystem::path& folder);
// The files of an adapter in this folder.
std::vector<std::filesystem::path> adapter_files(const std::filesystem::path& folder);
// Fails (user) naming the tensor if a value is not finite in the type in which the file would hold it.
void check_values(const Adapter& adapter);
// The adapter that load_adapter() reads where this one was saved: with its tensors' values rounded to `stored`.
Adapter as_stored(Adapter adapter);
// Makes the folder; each file is replaced at once. Fails (user) as check_values() does, and then writes nothing.
void save_adapter(const Adapter& adapter, const std::filesystem::path& folder);

}  // namespace sparkpilot
