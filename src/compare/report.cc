#include "compare/report.h"

#include <nlohmann/json.hpp>

#include "bench/report.h"

namespace sparkpilot::compare {

using Json = nlohmann::ordered_json;

Json to_json(const Difference& d) {
  return {{"elements", d.elements},
          {"not_finite", d.not_finite},
          {"not_finite_on_both", d.both_alike},
          {"max_abs", finite_or_null(d.max_abs)},
          {"relative_l2", finite_or_null(d.relative_l2)},
          {"cosine", d.cosine}};
}

Json to_json(const ModelsComparison& comparison) {
  Json variants = Json::array();
  for (const VariantResult& v : comparison.variants) {
    Json one{{"name", v.variant.name},      {"file", v.variant.file.string()},
             {"precision", v.precision},    {"threads", v.threads},
             {"load_ms", v.load_ms},        {"peak_memory_bytes", nullptr},
             {"arena_bytes", v.arena_bytes}};
    if (v.self_check_ms) one["self_check_ms"] = *v.self_check_ms;
    if (v.variant.peer) {
      one["peer"] = v.variant.peer->str();
      one["engine"] = v.engine;
      one["device"] = v.device;
      one["not_run"] = v.not_run.empty() ? Json() : Json(v.not_run);
      one["arena_bytes"] = nullptr;
      if (v.threads == 0) one["threads"] = nullptr;
    }
    if (v.peak_memory_bytes) one["peak_memory_bytes"] = *v.peak_memory_bytes;
    if (v.ms.count > 0) {
      one["runs"] = v.ms.count;
      one["mean_ms"] = v.ms.mean;
      one["p50_ms"] = v.ms.p50;
      one["p99_ms"] = v.ms.p99;
      one["min_ms"] = v.ms.min;
      one["time_ratio"] = to_json(v.ratio);
    }
    Json outputs = Json::array(), layers = Json::array();
    for (const OutputDifference& o : v.outputs) {
      Json row{{"name", o.name}, {"of", o.of}};
      row.update(to_json(o.difference));
      row["worst_sample_relative_l2"] = finite_or_null(o.difference.worst_sample);
      outputs.push_back(std::move(row));
    }
    for (const LayerDifference& layer : v.layers) {
      Json row{{"value", layer.value}, {"node", layer.node}};
      row.update(to_json(layer.difference));
      layers.push_back(std::move(row));
    }
    one["outputs"] = std::move(outputs);
    one["not_compared"] = v.not_compared;
    one["layers"] = std::move(layers);
    variants.push_back(std::move(one));
  }
  return {{"samples", comparison.samples}, {"notes", comparison.notes}, {"variants", std::move(variants)}};
}

Json to_json(const Bisection& bisection) {
  Json out{{"max_relative_l2", bisection.max_relative_l2},
           {"runs", bisection.runs},
           {"values", bisection.values},
           {"sample", bisection.sample},
           {"fault", nullptr}};
  if (!bisection.fault) return out;
  const Fault& fault = *bisection.fault;
  out["fault"] = {{"value", fault.value}, {"nodes", fault.nodes}, {"before", nullptr}};
  if (fault.before) out["fault"]["before"] = *fault.before;
  if (fault.shapes) {
    for (const Shape& shape : {fault.shapes->first, fault.shapes->second})
      out["fault"]["shapes"].push_back(std::vector<int64_t>(shape.begin(), shape.end()));
  }
  out["fault"].update(to_json(fault.difference));
  return out;
}

}  // namespace sparkpilot::compare
