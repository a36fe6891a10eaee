#include "bench/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/with_file.h"
#include "passes/pass.h"
#include "passes/small_weights.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostCalibrationBytes = 64 << 20;

// The graph of a session as its weights are stored. There patterns are recognised before scales are folded into
// weights: a product reads what a GELU gives, in a file also what comes before the GELU's last factor.
Graph as_stored(Graph graph) {
  Graph before;
  run_passes(graph, {.precision = Precision::fp8, .observe = [&](std::string_view pass, const Graph& now, int) {
                       if (pass == "batch_norm") before = now;
                     }});
  return before;
}

}  // namespace

std::string hash_text(const std::filesystem::path& model) { return fmt::format("{:016x}", model_hash(model)); }

Calibration calibrate_model(const std::filesystem::path& model, const std::filesystem::path& to,
                            const CalibrateModelOptions& options, const QuantizeProgress& progress) {
  std::vector<std::filesystem::path> read;
  Graph graph = load_apart(model, to, {&options.samples}, options.dims, options.shapes, read);
  refuse_quantized(graph);
  Calibration out{.model = hash_text(model), .largest = {}};
  std::set<std::string> in_file;  // others were made up
  for (int i = 0; i < graph.value_count(); ++i) in_file.insert(graph.value(ValueId{i}).name);
  in_file.erase("");
  // What products read in a file that is written from here, and in a session with --precision fp8.
  const Graph of_file = plain_graph(graph), of_session = as_stored(std::move(graph));
  std::set<std::string> named;
  const auto inputs_of = [&](Graph readers) {
    std::vector<ValueId> inputs;
    for (const auto& [id, format] : plan_small(readers, Precision::fp8)) {
      const ValueId x = readers.node(id).inputs[0];
      const std::string& name = readers.value(x).name;
      if (in_file.contains(name) && named.insert(name).second) inputs.push_back(x);
    }
    return inputs;
  };
  const std::vector<ValueId> file_inputs = inputs_of(of_file), session_inputs = inputs_of(of_session);
  if (named.empty()) fail("no convolution and no product before the last one has constant weights and a named input");
  const Session reader(of_file, {.threads = options.threads});
  const Samples samples =
      in_types_of(of_file, options.given ? *options.given : load_samples(reader, options.samples, {}, 1, true));
  if (options.given) expect_contents(samples);
  out.samples = static_cast<int64_t>(samples.count);
  const auto measure = [&](const Graph& measured, const std::vector<ValueId>& inputs) {
    if (inputs.empty()) return;
    Session session = session_of_values(measured, inputs, options.threads);
    const auto name_at = [&](const std::string& place) { return measured.value(inputs[std::stoul(place)]).name; };
    const auto ranges = calibrate(
        session, in_types_of(measured, samples), options.ranges, [&](double done) { progress("calibrating", done); },
        name_at);
    for (const auto& [place, range] : ranges) {
      if (range.low == range.high) out.left_out.push_back(name_at(place));
      else out.largest[name_at(place)] = std::max(std::fabs(range.low), std::fabs(range.high));
    }
  };
  measure(of_file, file_inputs);
  measure(of_session, session_inputs);
  if (out.largest.empty()) fail("every activation is the same number everywhere: they do not tell a range");
  save_calibration(out, to);
  return out;
}

void save_calibration(const Calibration& calibration, const std::filesystem::path& file) {
  Json largest = Json::object();
  for (const auto& [name, value] : calibration.largest) largest[name] = value;
  const Json json{{"model_fnv1a_64", calibration.model},
                  {"samples", calibration.samples},
                  {"largest_magnitude", std::move(largest)}};
  AtomicFile to(file);
  to.write(json_text(json, 2) + "\n");
  to.commit();
}

Calibration load_calibration(const std::filesystem::path& file) {
  Calibration out;
  with_file(file, [&] {
    const std::string text = read_file(file, kMostCalibrationBytes);
    try {
      std::string twice;
      const std::optional<Json> json = parse_bounded(text, &twice);
      if (!json) fail("nested deeper than a calibration is");
      if (!twice.empty()) fail("\"{}\" is there twice", twice);
      out.model = json->at("model_fnv1a_64").get<std::string>();
      const Json &count = json->at("samples"), &magnitudes = json->at("largest_magnitude");
      out.samples = count.is_number_integer() ? count.get<int64_t>() : 0;
      if (out.samples < 1) fail("samples is {}, expected a whole number of 1 or more", json_text(count));
      if (!magnitudes.is_object() || magnitudes.empty()) {
        fail("largest_magnitude is {}, expected an object with a number for each value", json_text(magnitudes));
      }
      for (const auto& [name, value] : magnitudes.items()) {
        const double largest = value.is_number() ? value.get<double>() : std::nan("");
        if (!(largest >= 0 && largest <= static_cast<double>(std::numeric_limits<float>::max()))) {
          fail("largest_magnitude of \"{}\" is {}, expected a number of 0 or more that f32 can hold", name,
               json_text(value));
        }
        out.largest[name] = largest;
      }
    } catch (const Json::exception& error) {
      fail("is no calibration: {}", json_fault(error));
    }
  });
  return out;
}

void expect_values_of(const std::filesystem::path& model, const Calibration& calibration,
                      const std::filesystem::path& file) {
  const Graph graph = load_model(model);
  std::map<std::string, double> unknown = calibration.largest;
  for (int i = 0; i < graph.value_count(); ++i) {
    if (const std::string& name = graph.value(ValueId{i}).name; !name.empty()) unknown.erase(name);
  }
  if (!unknown.empty()) {
    fail("{}: largest_magnitude of \"{}\": {} has no value of this name", file.string(), unknown.begin()->first,
         model.string());
  }
}

std::map<std::string, double> calibrated(const std::filesystem::path& file, const std::filesystem::path& model) {
  Calibration calibration = load_calibration(file);
  const std::string hash = hash_text(model);
  if (calibration.model != hash) {
    fail("{}: was made for a model with the hash {}, {} has {}", file.string(), calibration.model, model.string(),
         hash);
  }
  expect_values_of(model, calibration, file);
  return std::move(calibration.largest);
}

}  // namespace sparkpilot
