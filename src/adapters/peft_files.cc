// Adapters as folders of Hugging Face's PEFT: adapter_config.json and adapter_model.safetensors.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/with_file.h"
#include "tensor/finite.h"
#include "tensor/safetensors.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kConfig = "adapter_config.json", kTensors = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
constexpr int64_t kLargestConfig = 16 << 20;

// What PEFT can train that is not an adapter of this form; each must be as it is without it.
constexpr std::string_view kOthers[] = {"modules_to_save",
                                        "lora_bias",
                                        "use_qalora",
                                        "layer_replication",
                                        "target_parameters",
                                        "use_bdlora",
                                        "arrow_config",
                                        "velora_config",
                                        "kasa_config",
                                        "megatron_config",
                                        "trainable_token_indices",
                                        "monteclora_config",
                                        "alora_invocation_tokens"};

struct Config {
  AdapterKind kind = AdapterKind::lora;
  double alpha = 1;
  std::optional<double> rank;  // where it says that of every layer
  std::vector<std::pair<std::string, double>> alpha_pattern, rank_pattern;
  std::string base_name, base_fingerprint;
  std::map<std::string, std::string> tags;
};

double number(const Json& json, std::string_view key) {
  if (!json.is_number()) fail("{} is {}, expected a number", key, json.type_name());
  const double value = json.get<double>();
  if (!std::isfinite(value)) fail("{} is not finite", key);
  return value;
}

bool flag(const Json& json, std::string_view key) {
  const auto at = json.find(key);
  if (at == json.end() || at->is_null()) return false;
  if (!at->is_boolean()) fail("{} is {}, expected true or false", key, at->type_name());
  return at->get<bool>();
}

std::string text(const Json& json, std::string_view key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// "policy.head.0": no regular expression but for its dots.
bool is_path(std::string_view pattern) {
  return std::ranges::all_of(pattern, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

Config parse_config(const std::string& bytes) {
  std::optional<Json> parsed;
  try {
    parsed = parse_bounded(bytes);
  } catch (const nlohmann::json::exception& error) {
    fail("it is no JSON: {}", json_fault(error));
  }
  if (!parsed) fail("it is nested deeper than {}", kDeepestJson);
  const Json& json = *parsed;
  if (!json.is_object()) fail("it is {}, expected an object", json.type_name());
  if (text(json, "peft_type") != "LORA") {
    fail("peft_type is \"{}\"; LORA is supported, with and without use_dora", text(json, "peft_type"));
  }
  for (const std::string_view key : kOthers) {
    const auto at = json.find(key);
    const bool plain = at == json.end() || at->is_null() || *at == Json(false) || (at->is_structured() && at->empty());
    if (!plain) fail("{} is {}, which is not supported", key, json_text(*at).substr(0, 60));
  }
  // Others than these change the base's weights before they are trained (pissa, olora, loftq ...).
  constexpr std::string_view kOnAnyBase[] = {"", "gaussian", "orthogonal", "eva"};
  std::string init = text(json, "init_lora_weights");
  for (char& c : init) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (std::ranges::find(kOnAnyBase, init) == std::ranges::end(kOnAnyBase)) {
    fail(
        "init_lora_weights is \"{}\", which changes the base's weights in PEFT; save_pretrained() with "
        "path_initial_model_for_weight_conversion makes an adapter of the base as it was",
        init);
  }
  if (const std::string bias = text(json, "bias"); !bias.empty() && bias != "none") {
    fail("bias is \"{}\": trained biases are not supported, expected \"none\"", bias);
  }
  Config out;
  const bool rslora = flag(json, "use_rslora"), dora = flag(json, "use_dora");
  if (rslora && dora) fail("use_dora and use_rslora together are not supported");
  out.kind = dora ? AdapterKind::dora : rslora ? AdapterKind::rslora : AdapterKind::lora;
  if (!json.contains("lora_alpha")) fail("lora_alpha is missing");
  out.alpha = number(json["lora_alpha"], "lora_alpha");
  if (const auto pattern = json.find("alpha_pattern"); pattern != json.end() && !pattern->is_null()) {
    if (!pattern->is_object()) fail("alpha_pattern is {}, expected an object", pattern->type_name());
    for (const auto& [key, value] : pattern->items()) {
      if (!is_path(key)) fail("alpha_pattern has the regular expression \"{}\", expected paths of modules", key);
      out.alpha_pattern.emplace_back(key, number(value, "alpha_pattern"));
    }
  }
  if (json.contains("r")) out.rank = number(json["r"], "r");
  if (const auto pattern = json.find("rank_pattern"); pattern != json.end() && pattern->is_object()) {
    for (const auto& [key, value] : pattern->items()) {
      if (!is_path(key)) {  // a regular expression: the tensors say it
        out.rank.reset();
        break;
      }
      out.rank_pattern.emplace_back(key, number(value, "rank_pattern"));
    }
  }
  out.base_name = text(json, "base_model_name_or_path");
  if (const auto ours = json.find("auto_mapping"); ours != json.end() && ours->is_object()) {
    out.base_fingerprint = text(*ours, "base_fingerprint");
    if (const auto tags = ours->find("tags"); tags != ours->end() && tags->is_object()) {
      for (const auto& [key, value] : tags->items()) {
        if (value.is_string()) out.tags[key] = value.get<std::string>();
      }
    }
  }
  return out;
}

// As PEFT finds it: of the first key that is the path or its end.
double by_path(const std::vector<std::pair<std::string, double>>& pattern, const std::string& path, double usual) {
  for (const auto& [key, value] : pattern) {
    if (path == key || path.ends_with("." + key)) return value;
  }
  return usual;
}

// Puts the tensors of a file where they belong; layers in the order of their paths.
std::map<std::string, AdapterLayer> layers_of(const SafetensorsFile& file, DType& stored) {
  std::map<std::string, AdapterLayer> out;
  for (const auto& [key, tensor] : file.tensors) {
    const std::string_view all = key;
    const auto part = [&](std::string_view end) -> std::optional<std::string> {
      if (!all.starts_with(kPrefix) || !all.ends_with(end) || all.size() <= kPrefix.size() + end.size()) return {};
      return std::string(all.substr(kPrefix.size(), all.size() - kPrefix.size() - end.size()));
    };
    const DType dtype = tensor.dtype();
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
      fail("tensor \"{}\" is {}, expected F32, F16 or BF16", key, name(dtype));
    }
    if (stored == DType::none) stored = dtype;
    if (stored != dtype) stored = DType::f32;
    Tensor wide = convert(tensor, DType::f32);
    for (const float x : wide.data<float>()) {
      if (!std::isfinite(x)) fail("tensor \"{}\" holds {}", key, x);
    }
    if (const auto path = part(kLoraA)) out[*path].a = std::move(wide);
    else if (const auto path_b = part(kLoraB)) out[*path_b].b = std::move(wide);
    else if (const auto path_m = part(kLoraMagnitude)) out[*path_m].magnitude = std::move(wide);
    else
      fail("tensor \"{}\" is not one of an adapter ({}<module>{}, {}, {})", key, kPrefix, kLoraA, kLoraB,
           kLoraMagnitude);
  }
  return out;
}

void check_layer(const AdapterLayer& layer, AdapterKind kind) {
  const auto missing = [&](const Tensor& tensor, std::string_view end) {
    if (!tensor.present()) fail("\"{}\" is missing", adapter_parameter_name(layer.path, end));
  };
  missing(layer.a, kLoraA);
  missing(layer.b, kLoraB);
  if (kind == AdapterKind::dora) missing(layer.magnitude, kLoraMagnitude);
  else if (layer.magnitude.present()) fail("\"{}\" has a magnitude, but use_dora is not set", layer.path);
  const bool matrices = layer.a.shape().rank() >= 2 && layer.b.shape().rank() == layer.a.shape().rank() &&
                        layer.a.elements() > 0 && layer.b.elements() > 0;
  // Of grouped convolutions B has fewer columns than A has rows.
  if (!matrices || layer.a.shape()[0] % layer.b.shape()[1] != 0) {
    fail("\"{}\" has A {} and B {}, which are no adapter's", layer.path, layer.a.shape().str(), layer.b.shape().str());
  }
}

template <typename Number>
Json pattern_of(const std::vector<std::pair<std::string, Number>>& all, const Number& usual) {
  Json out = Json::object();
  if (std::ranges::all_of(all, [&](const auto& each) { return each.second == usual; })) return out;
  // Every layer, the longest first: PEFT takes the first that is the end of a module's path.
  std::vector<std::pair<std::string, Number>> sorted = all;
  std::ranges::stable_sort(sorted, [](const auto& x, const auto& y) { return x.first.size() > y.first.size(); });
  for (const auto& [path, value] : sorted) out[path] = value;
  return out;
}

// The value that most layers have.
template <typename Number>
Number usual_of(const std::vector<std::pair<std::string, Number>>& all) {
  std::map<Number, int> counts;
  for (const auto& each : all) ++counts[each.second];
  return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

// All fields that PEFT 0.21 reads without a default, and those that say how this adapter differs.
Json config_of(const Adapter& adapter) {
  std::vector<std::pair<std::string, int64_t>> ranks;
  std::vector<std::pair<std::string, double>> alphas;
  Json targets = Json::array();
  for (const AdapterLayer& layer : adapter.layers) {
    ranks.emplace_back(layer.path, layer.rank());
    alphas.emplace_back(layer.path, layer.alpha);
    targets.push_back(layer.path);
  }
  const int64_t rank = usual_of(ranks);
  const double alpha = usual_of(alphas);
  return {{"alpha_pattern", pattern_of(alphas, alpha)},
          {"auto_mapping",
           {{"base_fingerprint", adapter.base_fingerprint},
            {"base_model_class", adapter.base_name},
            {"parent_library", "sparkpilot"},
            {"tags", adapter.tags}}},
          {"base_model_name_or_path", adapter.base_name},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", alpha},
          {"lora_bias", false},
          {"lora_dropout", 0.0},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", rank},
          {"rank_pattern", pattern_of(ranks, rank)},
          {"target_modules", targets},
          {"task_type", nullptr},
          {"use_dora", adapter.kind == AdapterKind::dora},
          {"use_rslora", adapter.kind == AdapterKind::rslora}};
}

}  // namespace

std::string adapter_parameter_name(std::string_view path, std::string_view end) {
  return fmt::format("{}{}{}", kPrefix, path, end);
}

Adapter read_adapter(const std::string& config_text, const SafetensorsFile& file, const std::filesystem::path& folder) {
  Config config;
  with_file(folder / kConfig, [&] { config = parse_config(config_text); });
  Adapter out{.kind = config.kind,
              .layers = {},
              .stored = DType::none,
              .base_name = config.base_name,
              .base_fingerprint = config.base_fingerprint,
              .tags = config.tags};
  with_file(folder / kTensors, [&] {
    for (auto& [path, layer] : layers_of(file, out.stored)) {
      layer.path = path;
      check_layer(layer, config.kind);
      layer.alpha = by_path(config.alpha_pattern, path, config.alpha);
      if (config.rank) {
        const double rank = by_path(config.rank_pattern, path, *config.rank);
        if (rank != static_cast<double>(layer.rank())) {
          fail("\"{}\" has rank {}, {} says {}", path, layer.rank(), kConfig, rank);
        }
      }
      out.layers.push_back(std::move(layer));
    }
    if (out.layers.empty()) fail("it holds no adapter");
  });
  return out;
}

Adapter load_adapter(const std::filesystem::path& folder) {
  const std::string config = read_file(folder / kConfig, kLargestConfig);
  return read_adapter(config, load_safetensors(folder / kTensors), folder);
}

std::vector<std::filesystem::path> adapter_files(const std::filesystem::path& folder) {
  return {folder / kConfig, folder / kTensors};
}

namespace {

// As the file holds them.
SafetensorsFile tensors_of(const Adapter& adapter) {
  SafetensorsFile file{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (const AdapterLayer& layer : adapter.layers) {
    const auto add = [&](const Tensor& tensor, std::string_view end) {
      file.tensors.emplace_back(adapter_parameter_name(layer.path, end), convert(tensor, adapter.stored));
      if (!all_finite(file.tensors.back().second.view())) {
        fail("the adapter's \"{}\" has values that are not finite in {}", file.tensors.back().first,
             name(adapter.stored));
      }
    };
    add(layer.a, kLoraA);
    add(layer.b, kLoraB);
    if (layer.magnitude.present()) add(layer.magnitude, kLoraMagnitude);
  }
  return file;
}

}  // namespace

void check_values(const Adapter& adapter) { tensors_of(adapter); }

Adapter as_stored(Adapter adapter) {
  for (AdapterLayer& layer : adapter.layers) {
    for (Tensor* tensor : {&layer.a, &layer.b, &layer.magnitude}) {
      if (tensor->present()) *tensor = convert(convert(*tensor, adapter.stored), DType::f32);
    }
  }
  return adapter;
}

void save_adapter(const Adapter& adapter, const std::filesystem::path& folder) {
  if (adapter.layers.empty()) fail("an adapter without layers cannot be saved");
  const SafetensorsFile file = tensors_of(adapter);
  make_folders(folder);
  save_safetensors(folder / kTensors, file);
  AtomicFile config(folder / kConfig);
  config.write(json_text(config_of(adapter), 2) + "\n");
  config.commit();
}

}  // namespace sparkpilot
