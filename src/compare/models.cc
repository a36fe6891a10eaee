#include "compare/models.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/with_file.h"
#include "compare/peer_run.h"
#include "hw/memory.h"
#include "passes/precision.h"
#include "runtime/run_value.h"

namespace sparkpilot::compare {
namespace {

constexpr size_t kRandomCalibration = 8;

void say(const ModelsOptions& options, std::string_view what, double done) {
  if (options.progress) options.progress(what, done);
}

// A session of ours, or a peer: neither once the peer has failed.
struct Loaded {
  std::unique_ptr<Session> session;
  std::unique_ptr<PeerRun> peer;
  NamedTensors outputs;  // of the peer's last run
  VariantResult result;
};

// What a peer does; if it fails, that is all it loses.
template <typename Work>
void attempt(Loaded& one, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    one.peer.reset();
    one.result.not_run = reason_of(*one.result.variant.peer, error);
  }
}

// The outputs of the last run.
std::vector<std::pair<std::string, ConstView>> outputs_of(const Loaded& one) {
  std::vector<std::pair<std::string, ConstView>> views;
  if (one.session) {
    for (const TensorInfo& info : one.session->outputs()) views.emplace_back(info.name, one.session->output(info.name));
  }
  for (const auto& [name, tensor] : one.outputs) views.emplace_back(name, tensor.view());
  return views;
}

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
  const bool of_inputs = options.calibration.empty() && options.given.count > 0;
  Samples calibration = of_inputs ? options.given : samples;
  const auto& given = options.calibration.empty() ? options.inputs : options.calibration;
  if (!of_inputs && (samples.count == 0 || given.empty() || !options.calibration.empty())) {
    const Session session = open_variant(variant, samples.count > 0 ? &samples : nullptr);
    calibration = load_samples(session, given, options.seed, std::max(options.random, kRandomCalibration));
  }
  notes.push_back(fmt::format("{}: calibrated on {}{}", variant.name,
                              count_of(static_cast<int64_t>(calibration.count), "sample"),
                              given.empty() && !of_inputs   ? " of random numbers"
                              : options.calibration.empty() ? ", the inputs"
                                                            : ""));
  quantize_variant(variant, calibration,
                   [&](std::string_view what, double done) { say(options, fmt::format("int8: {}", what), done); });
}

// Loads and runs the variant once. The first one says which inputs the samples have.
Loaded load(Variant variant, Samples& samples, const ModelsOptions& options, std::vector<std::string>& notes) {
  if (variant.int8) make_int8(variant, samples, options, notes);
  Loaded out{.result = {.variant = variant}};
  PeakMemory memory;
  int64_t start = now_ns();
  const bool first = samples.count == 0;
  out.session = std::make_unique<Session>(open_variant(variant, first ? nullptr : &samples, first ? &notes : nullptr));
  if (first) {
    const int64_t loading = now_ns();
    if (options.given.count > 0) samples = options.given;
    else samples = load_samples(*out.session, options.inputs, options.seed, std::max<size_t>(options.random, 1));
    start += now_ns() - loading;
    memory.leave_out(bytes_of(samples));
  }
  with_file(variant.file, [&] {
    set_inputs(*out.session, variant, samples, 0);
    out.session->compile();
    out.result.self_check_ms = out.session->self_check_ms();
    out.result.load_ms = static_cast<double>(now_ns() - start) * 1e-6 - out.result.self_check_ms.value_or(0);
    out.session->run();
  });
  out.result.peak_memory_bytes = memory.bytes();
  out.result.precision = variant.int8 ? "int8" : name(out.session->precision());
  out.result.threads = out.session->threads();
  out.result.arena_bytes = out.session->arena_bytes();
  return out;
}

// Says where a variant's precision changes nothing that another one does not change.
void note_same_precision(const Loaded& one, const std::vector<Variant>& all, std::vector<std::string>& notes) {
  const Variant& variant = one.result.variant;
  std::string same = same_precision(variant, *one.session);
  if (same.empty()) return;
  const bool calibrated = std::ranges::any_of(all, [](const Variant& v) { return !v.session.passes.largest.empty(); });
  if (calibrated && variant.session.passes.largest.empty() && same != "fp32") same += " without a calibration";
  notes.push_back(fmt::format("{}: the same as {}: the model has no weights that would be stored in fewer bits",
                              variant.name, same));
}

// With the threads of the session that runs the same file if the variant leaves them open.
Loaded load_peer(const Variant& variant, const Samples& samples, const std::vector<Loaded>& before,
                 const ModelsOptions& options) {
  Loaded out{.result = {.variant = variant}};
  const auto same = std::find_if(before.begin(), before.end(), [&](const Loaded& one) {
    return one.session && one.result.variant.file == variant.file &&
           one.result.variant.session.passes.precision == variant.session.passes.precision;
  });
  VariantResult& result = out.result;
  const Loaded& ours = same == before.end() ? before[0] : *same;
  Precision& precision = result.variant.session.passes.precision;
  precision = precision_on(ours.session ? ours.session->device() : "cpu", precision);
  result.precision = name(precision);
  attempt(out, [&] {
    out.peer = std::make_unique<PeerRun>(result.variant, samples, ours.result.threads, options.peers);
    result.engine = out.peer->engine();
    out.peer->load();
    const PeerLoaded& loaded = out.peer->loaded();
    result.device = loaded.device;
    result.precision = loaded.precision;
    result.threads = loaded.threads;
    result.load_ms = loaded.load_ms;
    out.peer->set_sample(0);
    out.peer->run(1);
    out.outputs = out.peer->outputs();
  });
  return out;
}

// Which of a variant's outputs is which of the first one's: by name, or by position where no name is the same. The
// shapes are those of the last run.
void match_outputs(const Loaded& first, Loaded& other) {
  const auto theirs = outputs_of(first), ours = outputs_of(other);
  const auto find = [](const auto& outputs, std::string_view name) {
    return std::find_if(outputs.begin(), outputs.end(), [&](const auto& output) { return output.first == name; });
  };
  VariantResult& result = other.result;
  const bool any =
      std::any_of(ours.begin(), ours.end(), [&](const auto& o) { return find(theirs, o.first) != theirs.end(); });
  const bool by_position = !any && ours.size() == theirs.size();
  std::vector<bool> used(ours.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto& [name, expected] = theirs[i];
    const auto found = by_position ? ours.begin() + static_cast<std::ptrdiff_t>(i) : find(ours, name);
    if (found == ours.end()) {
      result.not_compared.push_back(fmt::format("{}: only the first model has it", name));
      continue;
    }
    used[static_cast<size_t>(found - ours.begin())] = true;
    if (found->second.shape == expected.shape) {
      result.outputs.push_back({.name = found->first, .of = name, .difference = {}});
    } else {
      result.not_compared.push_back(fmt::format("{}: {}, the first model's is {}", found->first,
                                                found->second.shape.str(), expected.shape.str()));
    }
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!used[i]) result.not_compared.push_back(fmt::format("{}: the first model does not have it", ours[i].first));
  }
}

// Adds an output's difference of sample i. If its shape depends on the data and is another one here, it is not
// compared: it loses its name.
void add_sample(Loaded& one, const Session& first, size_t i, size_t o, DifferenceSum& sum) {
  OutputDifference& output = one.result.outputs[o];
  if (output.name.empty()) return;
  const auto outputs = outputs_of(one);
  const auto got =
      std::find_if(outputs.begin(), outputs.end(), [&](const auto& each) { return each.first == output.name; });
  const ConstView expected = first.output(output.of);
  if (got != outputs.end() && got->second.shape == expected.shape) return sum.add(got->second, expected);
  const std::string shape = got == outputs.end() ? "missing" : got->second.shape.str();
  one.result.not_compared.push_back(
      fmt::format("{}: {} for sample {}, the first model's is {}", output.name, shape, i + 1, expected.shape.str()));
  output.name.clear();
}

void run_sample(Loaded& one, const Samples& samples, size_t i) {
  if (one.session) {
    with_file(one.result.variant.file, [&] {
      set_inputs(*one.session, one.result.variant, samples, i);
      one.session->run();
    });
  } else if (one.peer) {
    attempt(one, [&] {
      one.peer->set_sample(i);
      one.peer->run(1);
      one.outputs = one.peer->outputs();
    });
  }
}

void compare_outputs(std::vector<Loaded>& loaded, const Samples& samples, const ModelsOptions& options) {
  Loaded& first = loaded[0];
  for (size_t v = 1; v < loaded.size(); ++v) {
    if (loaded[v].result.not_run.empty()) match_outputs(first, loaded[v]);
  }
  std::vector<std::vector<DifferenceSum>> sums(loaded.size());
  for (size_t v = 0; v < loaded.size(); ++v) sums[v].resize(loaded[v].result.outputs.size());
  for (Loaded& one : loaded) {
    if (one.session) one.session->reset_states();
    // A peer has no other way to begin anew.
    const bool has_states = std::ranges::any_of(loaded, [&](const Loaded& other) {
      return other.session && other.result.variant.file == one.result.variant.file && !other.session->states().empty();
    });
    if (one.peer && has_states) attempt(one, [&] { one.peer->load(); });
  }
  for (size_t i = 0; i < samples.count; ++i) {
    for (size_t v = 0; v < loaded.size(); ++v) {
      Loaded& one = loaded[v];
      run_sample(one, samples, i);
      if (!one.result.not_run.empty()) one.result.outputs.clear();
      for (size_t o = 0; o < one.result.outputs.size(); ++o) add_sample(one, *first.session, i, o, sums[v][o]);
    }
    say(options, "comparing outputs", static_cast<double>(i + 1) / static_cast<double>(samples.count));
  }
  for (size_t v = 0; v < loaded.size(); ++v) {
    std::vector<OutputDifference>& outputs = loaded[v].result.outputs;
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o].difference = sums[v][o].result();
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
  if (std::count_if(loaded.begin(), loaded.end(), [](const Loaded& one) { return one.session != nullptr; }) < 2) return;
  std::map<std::string, Tensor> expected;
  for (NamedValue& value : values_of(loaded[0], samples)) expected[value.name] = std::move(value.value);
  for (size_t v = 1; v < loaded.size(); ++v) {
    say(options, "comparing layers", static_cast<double>(v) / static_cast<double>(loaded.size()));
    if (!loaded[v].session) continue;
    for (const NamedValue& value : values_of(loaded[v], samples)) {
      const auto found = expected.find(value.name);
      if (found == expected.end() || !(found->second.shape() == value.value.shape())) continue;
      loaded[v].result.layers.push_back(
          {value.name, value.node, difference_of(value.value.view(), found->second.view())});
    }
  }
}

void time_all(std::vector<Loaded>& loaded, const ModelsOptions& options) {
  std::vector<TimedRuns> runs;
  for (Loaded& one : loaded) {
    if (one.session) {
      runs.push_back(timed([&one] { one.session->run(); }));
    } else {
      runs.emplace_back([&one](int64_t count) {
        std::vector<double> ms;
        if (one.peer) attempt(one, [&] { ms = one.peer->run(count); });
        return ms;
      });
    }
  }
  InterleavedOptions turns = options.turns;
  turns.progress = [&](double done) { say(options, "timing in turns", done); };
  const std::vector<InterleavedTimes> times = time_interleaved(runs, turns);
  for (size_t v = 0; v < loaded.size(); ++v) {
    loaded[v].result.ms = summarize(times[v].ms);
    if (!times[v].rounds.empty()) loaded[v].result.ratio = ratio_of(times[v].rounds, times[0].rounds);
  }
}

}  // namespace

ModelsComparison compare_models(const std::vector<Variant>& variants, const ModelsOptions& options) {
  if (variants.size() < 2) fail("a comparison needs at least two models or precisions, got {}", variants.size());
  if (variants[0].peer) fail_internal("a comparison with a peer as the first");
  ModelsComparison out;
  Samples samples;
  std::vector<Loaded> loaded;
  for (const Variant& variant : variants) {
    say(options, "loading", static_cast<double>(loaded.size()) / static_cast<double>(variants.size()));
    loaded.push_back(variant.peer ? load_peer(variant, samples, loaded, options)
                                  : load(variant, samples, options, out.notes));
    if (loaded.back().session) note_same_precision(loaded.back(), variants, out.notes);
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
