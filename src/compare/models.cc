#include "compare/models.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/with_file.h"
#include "hw/memory.h"
#include "runtime/run_value.h"

namespace sparkpilot::compare {
namespace {

constexpr size_t kRandomCalibration = 8;

void say(const ModelsOptions& options, std::string_view what, double done) {
  if (options.progress) options.progress(what, done);
}

struct Loaded {
  std::unique_ptr<Session> session;
  VariantResult result;
};

int64_t bytes_of(const Samples& samples) {
  int64_t bytes = 0;
  for (const auto& [input, tensors] : samples.inputs) {
    for (const Tensor& tensor : tensors) bytes += tensor.bytes();
  }
  return bytes;
}

// The first variant, as its file is, says which inputs the samples have.
void make_int8(Variant& variant, const Samples& samples, const ModelsOptions& options,
               std::vector<std::string>& notes) {
  Samples calibration = samples;
  const auto& given = options.calibration.empty() ? options.inputs : options.calibration;
  if (samples.count == 0 || given.empty() || !options.calibration.empty()) {
    const Session session = open_variant(variant, samples.count > 0 ? &samples : nullptr);
    calibration = load_samples(session, given, options.seed, std::max(options.random, kRandomCalibration));
  }
  notes.push_back(fmt::format("{}: calibrated on {}{}", variant.name,
                              count_of(static_cast<int64_t>(calibration.count), "sample"),
                              given.empty()                 ? " of random numbers"
                              : options.calibration.empty() ? ", the inputs"
                                                            : ""));
  quantize_variant(variant, calibration,
                   [&](std::string_view what, double done) { say(options, fmt::format("int8: {}", what), done); });
}

// Loads and runs the variant once. The first one says which inputs the samples have.
Loaded load(Variant variant, Samples& samples, const ModelsOptions& options, std::vector<std::string>& notes) {
  if (variant.int8) make_int8(variant, samples, options, notes);
  Loaded out{nullptr, {.variant = variant}};
  PeakMemory memory;
  int64_t start = now_ns();
  const bool first = samples.count == 0;
  out.session = std::make_unique<Session>(open_variant(variant, first ? nullptr : &samples, first ? &notes : nullptr));
  if (first) {
    const int64_t loading = now_ns();
    samples = load_samples(*out.session, options.inputs, options.seed, std::max<size_t>(options.random, 1));
    start += now_ns() - loading;
    memory.leave_out(bytes_of(samples));
  }
  with_file(variant.file, [&] {
    set_inputs(*out.session, variant, samples, 0);
    out.session->compile();
    out.result.load_ms = static_cast<double>(now_ns() - start) * 1e-6;
    out.session->run();
  });
  out.result.peak_memory_bytes = memory.bytes();
  out.result.threads = out.session->threads();
  out.result.arena_bytes = out.session->arena_bytes();
  return out;
}

const TensorInfo* find(const std::vector<TensorInfo>& infos, std::string_view name) {
  const auto found = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& i) { return i.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

// Which of a variant's outputs is which of the first one's: by name, or by position where no name is the same. The
// shapes are those of the last run.
void match_outputs(const Session& first, Loaded& other) {
  const std::vector<TensorInfo>&theirs = first.outputs(), &ours = other.session->outputs();
  VariantResult& result = other.result;
  const bool any = std::any_of(ours.begin(), ours.end(), [&](const TensorInfo& o) { return find(theirs, o.name); });
  const bool by_position = !any && ours.size() == theirs.size();
  std::vector<bool> used(ours.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    const TensorInfo* found = by_position ? &ours[i] : find(ours, theirs[i].name);
    if (!found) {
      result.not_compared.push_back(fmt::format("{}: only the first model has it", theirs[i].name));
      continue;
    }
    used[static_cast<size_t>(found - ours.data())] = true;
    const Shape mine = other.session->output(found->name).shape, its = first.output(theirs[i].name).shape;
    if (mine == its) {
      result.outputs.push_back({.name = found->name, .of = theirs[i].name, .difference = {}});
    } else {
      result.not_compared.push_back(fmt::format("{}: {}, the first model's is {}", found->name, mine.str(), its.str()));
    }
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!used[i]) result.not_compared.push_back(fmt::format("{}: the first model does not have it", ours[i].name));
  }
}

// Adds an output's difference of sample i. If its shape depends on the data and is another one here, it is not
// compared: it loses its name.
void add_sample(Loaded& one, const Session& first, size_t i, size_t o, DifferenceSum& sum) {
  OutputDifference& output = one.result.outputs[o];
  if (output.name.empty()) return;
  const ConstView got = one.session->output(output.name), expected = first.output(output.of);
  if (got.shape == expected.shape) return sum.add(got, expected);
  one.result.not_compared.push_back(fmt::format("{}: {} for sample {}, the first model's is {}", output.name,
                                                got.shape.str(), i + 1, expected.shape.str()));
  output.name.clear();
}

void compare_outputs(std::vector<Loaded>& loaded, const Samples& samples, const ModelsOptions& options) {
  Loaded& first = loaded[0];
  for (size_t v = 1; v < loaded.size(); ++v) match_outputs(*first.session, loaded[v]);
  std::vector<std::vector<DifferenceSum>> sums(loaded.size());
  for (size_t v = 0; v < loaded.size(); ++v) sums[v].resize(loaded[v].result.outputs.size());
  for (Loaded& one : loaded) one.session->reset_states();
  for (size_t i = 0; i < samples.count; ++i) {
    for (size_t v = 0; v < loaded.size(); ++v) {
      Loaded& one = loaded[v];
      with_file(one.result.variant.file, [&] {
        set_inputs(*one.session, one.result.variant, samples, i);
        one.session->run();
      });
      for (size_t o = 0; o < one.result.outputs.size(); ++o) add_sample(one, *first.session, i, o, sums[v][o]);
    }
    say(options, "comparing outputs", static_cast<double>(i + 1) / static_cast<double>(samples.count));
  }
  for (size_t v = 0; v < loaded.size(); ++v) {
    std::vector<OutputDifference>& outputs = loaded[v].result.outputs;
    for (size_t o = 0; o < sums[v].size(); ++o) outputs[o].difference = sums[v][o].result();
    std::erase_if(outputs, [](const OutputDifference& output) { return output.name.empty(); });
  }
}

// The named values of a run on the first sample, in the order of the run.
struct NamedValue {
  std::string name, node;
  Tensor value;
};
std::vector<NamedValue> values_of(const Loaded& loaded, const Samples& samples) {
  Variant variant = settled(loaded.result.variant, *loaded.session);
  variant.session.keep = {"all"};
  Session session = open_variant(variant, &samples);
  set_inputs(session, variant, samples, 0);
  session.run();
  std::vector<NamedValue> out;
  session.visit_values([&](const RunValue& value) {
    if (value.name.empty() || value.node.empty()) return;
    out.push_back({std::string(value.name), std::string(value.node), in_file_layout(value)});
  });
  return out;
}

void compare_layers(std::vector<Loaded>& loaded, const Samples& samples, const ModelsOptions& options) {
  std::map<std::string, Tensor> expected;
  for (NamedValue& value : values_of(loaded[0], samples)) expected[value.name] = std::move(value.value);
  for (size_t v = 1; v < loaded.size(); ++v) {
    say(options, "comparing layers", static_cast<double>(v) / static_cast<double>(loaded.size()));
    for (const NamedValue& value : values_of(loaded[v], samples)) {
      const auto found = expected.find(value.name);
      if (found == expected.end() || !(found->second.shape() == value.value.shape())) continue;
      loaded[v].result.layers.push_back(
          {value.name, value.node, difference_of(value.value.view(), found->second.view())});
    }
  }
}

void time_all(std::vector<Loaded>& loaded, const ModelsOptions& options) {
  std::vector<std::function<void()>> runs;
  for (Loaded& one : loaded) runs.emplace_back([&one] { one.session->run(); });
  InterleavedOptions turns = options.turns;
  turns.progress = [&](double done) { say(options, "timing in turns", done); };
  const std::vector<InterleavedTimes> times = time_interleaved(runs, turns);
  for (size_t v = 0; v < loaded.size(); ++v) {
    loaded[v].result.ms = summarize(times[v].ms);
    loaded[v].result.ratio = ratio_of(times[v].rounds, times[0].rounds);
  }
}

}  // namespace

ModelsComparison compare_models(const std::vector<Variant>& variants, const ModelsOptions& options) {
  if (variants.size() < 2) fail("a comparison needs at least two models or precisions, got {}", variants.size());
  ModelsComparison out;
  Samples samples;
  std::vector<Loaded> loaded;
  for (const Variant& variant : variants) {
    say(options, "loading", static_cast<double>(loaded.size()) / static_cast<double>(variants.size()));
    loaded.push_back(load(variant, samples, options, out.notes));
  }
  out.samples = samples.count;
  compare_outputs(loaded, samples, options);
  if (options.time) time_all(loaded, options);
  if (options.layers) compare_layers(loaded, samples, options);
  for (Loaded& one : loaded) out.variants.push_back(std::move(one.result));
  return out;
}

std::vector<LayerDifference> growing(const std::vector<LayerDifference>& layers) {
  std::vector<LayerDifference> out;
  double most = 0;
  for (const LayerDifference& layer : layers) {
    const double error = layer.difference.relative_l2;
    if (error == 0 || error < 2 * most) continue;
    out.push_back(layer);
    if (std::isinf(error)) break;
    most = error;
  }
  return out;
}

}  // namespace sparkpilot::compare
