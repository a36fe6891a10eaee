#include "adapters/merge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "adapters/matrices.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/fnv.h"
#include "base/json.h"
#include "tensor/tensor.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMerged = "sparkpilot.adapter";  // in a model's metadata
constexpr double kLeastNorm = 1e-15;                        // a row of zeros has no direction

// W + s B A.
std::vector<double> directed(const Tensor& weights, const Layer& layer, const Adapter& adapter,
                             const AdapterLayer& mine) {
  std::vector<double> out =
      low_rank_product(mine.a.data<float>(), mine.b.data<float>(), layer.out(), layer.in(), layer.groups);
  const auto from = weights.data<float>();
  const double scale = adapter.scale(mine);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(from[i]) + scale * out[i];
  return out;
}

// W' in double.
std::vector<double> changed(const Tensor& weights, const Layer& layer, const Adapter& adapter,
                            const AdapterLayer& mine) {
  std::vector<double> out = directed(weights, layer, adapter, mine);
  if (adapter.kind != AdapterKind::dora) return out;
  const std::vector<double> norms = row_norms(out, layer.out());
  const auto in = static_cast<size_t>(layer.in());
  for (size_t row = 0; row < norms.size(); ++row) {
    // A row of zeros has no direction: it stays.
    const double gain = norms[row] > 0 ? static_cast<double>(mine.magnitude.data<float>()[row]) / norms[row] : 0;
    for (size_t i = 0; i < in; ++i) out[row * in + i] *= gain;
  }
  return out;
}

Tensor as_f32(const std::vector<double>& values, const Shape& shape) {
  Tensor out(DType::f32, shape);
  for (size_t i = 0; i < values.size(); ++i) out.data<float>()[i] = static_cast<float>(values[i]);
  return out;
}

double length_of(const std::vector<double>& values) { return row_norms(values, 1)[0]; }

// Which adapter it is: its kind, and every layer's path, scale and matrices, in the order that a file gives.
std::string hash_of(const Adapter& adapter) {
  Fnv hash;
  hash.text(name(adapter.kind));
  std::map<std::string_view, const AdapterLayer*> layers;
  for (const AdapterLayer& layer : adapter.layers) layers[layer.path] = &layer;
  for (const auto& [path, layer] : layers) {
    hash.text(fmt::format("{} {}", path, layer->alpha));
    for (const Tensor& tensor : {layer->a, layer->b, layer->magnitude}) {
      if (tensor.present()) hash.bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    }
  }
  return fmt::format("{:016x}", hash.value());
}

constexpr const char* kUnreadable = "the metadata \"sparkpilot.adapter\" cannot be read";

// What the metadata says was merged last; fails (user) if it is not what merge_adapters() writes.
Json record_of(const std::string& text) {
  std::optional<Json> record;
  try {
    record = parse_bounded(text);
  } catch (const nlohmann::json::exception&) {
    fail("{}", kUnreadable);
  }
  if (!record || !record->is_object() || !(*record)["adapters"].is_array()) fail("{}", kUnreadable);
  return *record;
}

bool was_merged(const Json& record, const std::string& hash) {
  for (const Json* at = &record; at->is_object(); at = &(*at)["before"]) {
    for (const Json& one : at->value("adapters", Json::array())) {
      if (one.is_object() && one.value("hash", Json()) == Json(hash)) return true;
    }
    if (!at->contains("before")) break;
  }
  return false;
}

std::vector<float> norms_of(const Json& record, const Layer& layer) {
  const Json norms = record.value("norms", Json::object());
  const auto at = norms.find(layer.path);
  if (at == norms.end() || !at->is_string()) fail("{}", kUnreadable);
  const std::vector<std::byte> bytes = decode_base64(at->get<std::string>());
  std::vector<float> out(static_cast<size_t>(layer.out()));
  if (bytes.size() != out.size() * sizeof(float)) fail("{}", kUnreadable);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

Tensor norm_of(const Tensor& weights, const Layer& layer, const Adapter& adapter, const AdapterLayer& mine) {
  std::vector<double> norms = row_norms(directed(weights, layer, adapter, mine), layer.out());
  for (double& norm : norms) norm = std::max(norm, kLeastNorm);
  return as_f32(norms, Shape{layer.out()});
}

Tensor merged_weights(const Tensor& weights, const Layer& layer, const Adapter& adapter, const AdapterLayer& mine,
                      double by) {
  std::vector<double> out = changed(weights, layer, adapter, mine);
  if (by != 1) {
    for (size_t i = 0; i < out.size(); ++i) {
      const double before = static_cast<double>(weights.data<float>()[i]);
      out[i] = before + by * (out[i] - before);
    }
  }
  return as_f32(out, layer.weight);
}

void merge_adapters(Graph& base, const std::vector<ScaledAdapter>& adapters) {
  Json record = {{"base_fingerprint", base_fingerprint(base)}, {"adapters", Json::array()}};
  if (const auto found = base.metadata.find(std::string(kMerged)); found != base.metadata.end()) {
    record["before"] = record_of(found->second);
    // One with a fingerprint is for this base alone.
    for (const auto& [adapter, by] : adapters) {
      if (adapter->base_fingerprint.empty() && was_merged(record["before"], hash_of(*adapter)))
        fail("the adapter was merged into the model already");
    }
  }
  struct Sum {
    Layer layer;
    std::vector<double> weights;
  };
  std::map<std::string, Sum> sums;
  for (const auto& [adapter, by] : adapters) {
    const std::vector<Layer> layers = match_layers(base, *adapter);
    Json norms = Json::object();
    for (size_t i = 0; i < layers.size(); ++i) {
      const Tensor weights = layer_weights(base, layers[i]);
      if (adapter->kind == AdapterKind::dora) {
        const Tensor norm = norm_of(weights, layers[i], *adapter, adapter->layers[i]);
        norms[layers[i].path] =
            encode_base64({static_cast<const std::byte*>(norm.raw()), static_cast<size_t>(norm.bytes())});
      }
      const auto from = weights.data<float>();
      const auto [at, fresh] = sums.try_emplace(layers[i].path, Sum{layers[i], {}});
      if (fresh) at->second.weights.assign(from.begin(), from.end());
      const std::vector<double> now = changed(weights, layers[i], *adapter, adapter->layers[i]);
      for (size_t k = 0; k < now.size(); ++k) at->second.weights[k] += by * (now[k] - static_cast<double>(from[k]));
    }
    record["adapters"].push_back({{"hash", hash_of(*adapter)}, {"by", by}, {"norms", std::move(norms)}});
  }
  for (const auto& [path, sum] : sums) {
    const Tensor merged = as_f32(sum.weights, sum.layer.weight);
    const Tensor rounded = convert(merged, sum.layer.dtype);
    for (int64_t i = 0; i < rounded.elements(); ++i) {
      if (!std::isfinite(load_element(rounded.dtype(), rounded.raw(), i))) {
        fail("a merged weight of \"{}\" is {}, which {} cannot hold", path, sum.weights[static_cast<size_t>(i)],
             name(sum.layer.dtype));
      }
    }
    set_layer_weights(base, sum.layer, merged);
  }
  base.metadata[std::string(kMerged)] = json_text(record);
}

void unmerge_adapter(Graph& merged, const Adapter& adapter) {
  const auto found = merged.metadata.find(std::string(kMerged));
  if (found == merged.metadata.end()) fail("the model's metadata names no adapter that was merged into it");
  const Json record = record_of(found->second);
  const Json& all = record["adapters"];
  if (all.size() != 1) fail("{} adapters were merged; they cannot be told apart", all.size());
  if (!all[0].is_object() || all[0].value("by", Json()) != Json(1.0)) fail("the adapter was merged in part");
  if (all[0].value("hash", Json()) != Json(hash_of(adapter))) fail("another adapter was merged into the model");
  Adapter any_base = adapter;
  any_base.base_fingerprint.clear();
  const std::vector<Layer> layers = match_layers(merged, any_base);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const AdapterLayer& mine = adapter.layers[i];
    const Tensor weights = layer_weights(merged, layer);
    const std::vector<double> product =
        low_rank_product(mine.a.data<float>(), mine.b.data<float>(), layer.out(), layer.in(), layer.groups);
    std::vector<double> base(product.size());
    std::vector<float> norms;
    if (adapter.kind == AdapterKind::dora) norms = norms_of(all[0], layer);
    const auto in = static_cast<size_t>(layer.in());
    for (size_t k = 0; k < base.size(); ++k) {
      double w = static_cast<double>(weights.data<float>()[k]);
      if (!norms.empty()) {
        const double magnitude = static_cast<double>(mine.magnitude.data<float>()[k / in]);
        w = magnitude == 0 ? 0 : w * static_cast<double>(norms[k / in]) / magnitude;
      }
      base[k] = w - adapter.scale(mine) * product[k];
    }
    set_layer_weights(merged, layer, as_f32(base, layer.weight));
  }
  if (const auto before = record.find("before"); before != record.end()) found->second = json_text(*before);
  else merged.metadata.erase(found);
}

void forget_merges(Graph& graph) { graph.metadata.erase(std::string(kMerged)); }

std::vector<LayerDifference> compare_adapters(const Graph& base, const Adapter& a, const Adapter& b) {
  struct Pair {
    const Adapter* adapters[2] = {};
    const AdapterLayer* mine[2] = {};
    Layer layer;
  };
  std::map<std::string, Pair> pairs;
  for (const int which : {0, 1}) {
    const Adapter& adapter = which == 0 ? a : b;
    const std::vector<Layer> layers = match_layers(base, adapter);
    for (size_t i = 0; i < layers.size(); ++i) {
      Pair& pair = pairs[layers[i].path];
      pair.layer = layers[i];
      pair.adapters[which] = &adapter;
      pair.mine[which] = &adapter.layers[i];
    }
  }
  std::vector<LayerDifference> out;
  for (const auto& [path, pair] : pairs) {
    const Tensor weights = layer_weights(base, pair.layer);
    const std::vector<double> before(weights.data<float>().begin(), weights.data<float>().end());
    const double norm = length_of(before);
    std::vector<double> changes[2];
    for (const size_t which : {0u, 1u}) {
      changes[which] =
          pair.mine[which] ? changed(weights, pair.layer, *pair.adapters[which], *pair.mine[which]) : before;
      for (size_t i = 0; i < before.size(); ++i) changes[which][i] -= before[i];
    }
    std::vector<double> apart(before.size());
    for (size_t i = 0; i < apart.size(); ++i) apart[i] = changes[0][i] - changes[1][i];
    const auto share = [&](const std::vector<double>& v) { return norm > 0 ? length_of(v) / norm : length_of(v); };
    out.push_back({path, pair.mine[0] ? pair.mine[0]->rank() : 0, pair.mine[1] ? pair.mine[1]->rank() : 0,
                   share(changes[0]), share(changes[1]), share(apart)});
  }
  return out;
}

}  // namespace sparkpilot
