// sparkpilot run: a model on given or random inputs.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "adapters/load_model.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/statistics.h"
#include "base/with_file.h"
#include "bench/inputs.h"
#include "bench/samples.h"
#include "bench/summary.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "ir/dot.h"
#include "runtime/run_value.h"
#include "tensor/npy.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct ModelRunFlags {
  std::string file;
  RunFlags run;
  std::vector<std::string> inputs, adapters;
  std::string output_dir, dump_values, dump_graph, trace;
  int64_t runs = 1, batch = 1;
};

// Fails (user) if a batch is asked for and what was given leaves nothing to take it: no open dimension, and no input of
// that many entries.
void expect_batch(const Session& session, int64_t batch, const std::map<std::string, std::string>& sources) {
  const TensorInfo* other = nullptr;
  for (const TensorInfo& input : session.inputs()) {
    if (!input.shape) return;
    const bool open = !input.dims.empty() && input.dims[0].size < 0 && input.shape->rank() > 0;
    if (!open || !sources.contains(input.name)) continue;
    if ((*input.shape)[0] == batch) return;
    other = &input;
  }
  if (batch == 1 || other == nullptr) return;
  fail("{}: {} entries of input \"{}\", --batch asks for {}", sources.at(other->name), (*other->shape)[0], other->name,
       batch);
}

Json fill_inputs(const Program& program, const ModelRunFlags& flags, Session& session) {
  std::map<std::string, std::string> sources;
  for (const auto& [wanted, file] : named_paths(flags.inputs, "--input")) {
    if (file.empty()) fail("--input {}: an empty value", wanted);
    for (const std::pair<std::string, Tensor>& given : input_arrays(session, wanted, file)) {
      if (!sources.emplace(given.first, file).second) fail("--input: \"{}\" is given twice", given.first);
      with_file(file, [&] { session.set_input(given.first, given.second.view()); });
    }
  }
  expect_batch(session, flags.batch, sources);
  const std::vector<std::string> notes = bind_open_dimensions(session, flags.batch);
  Json inputs = Json::array();
  for (const TensorInfo& input : session.inputs()) {
    const bool given = sources.contains(input.name);
    if (!given) fill_random(session.input(input.name), input.name, flags.run.seed);
    const Shape& shape = *input.shape;
    inputs.push_back({{"name", input.name},
                      {"dtype", name(input.dtype)},
                      {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                      {"source", given ? sources[input.name] : fmt::format("random, seed {}", flags.run.seed)}});
  }
  if (!program.quiet) {
    for (const std::string& text : notes) note(text);
  }
  return inputs;
}

double ms_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-6; }

using Files = std::vector<fs::path>;

void refuse_to_replace_any(const fs::path& out, const Files& read) {
  for (const fs::path& file : read) refuse_to_replace(out, file);
}

void write_text(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Writes what the flags ask for in addition to the outputs.
void write_extras(const ModelRunFlags& flags, const Session& session, const Files& read) {
  if (!flags.dump_graph.empty()) write_text(flags.dump_graph, to_dot(*session.compiled_graph()));
  if (!flags.trace.empty()) write_text(flags.trace, chrome_trace(session.profile(), flags.file));
  if (flags.dump_values.empty()) return;
  make_folders(flags.dump_values);
  std::map<std::string, int> used;
  session.visit_values([&](const RunValue& value) {
    const std::string title = value.name.empty() ? fmt::format("{}.compiled", value.node) : std::string(value.name);
    const fs::path file = fs::path(flags.dump_values) / (file_name_of(title, used) + ".npy");
    refuse_to_replace_any(file, read);
    save_npy(file, in_file_layout(value).view());
  });
}

Json json_number(std::optional<double> number) { return number ? Json(*number) : Json(); }

Json write_outputs(const Program& program, const ModelRunFlags& flags, const Session& session, const Files& read) {
  if (!flags.output_dir.empty()) make_folders(flags.output_dir);
  Json outputs = Json::array();
  Table table({"output", "dtype", "shape", "mean", "deviation", "min", "max", "not finite", "file"});
  std::map<std::string, int> used;
  const auto text = [](std::optional<double> number) { return number ? fmt::format("{:.5g}", *number) : "-"; };
  for (const TensorInfo& output : session.outputs()) {
    const ConstView view = session.output(output.name);
    const TensorSummary s = summarize(view);
    std::string file;
    if (!flags.output_dir.empty()) {
      file = (fs::path(flags.output_dir) / (file_name_of(output.name, used) + ".npy")).string();
      refuse_to_replace_any(file, read);
      save_npy(file, view);
    }
    outputs.push_back({{"name", output.name},
                       {"dtype", name(view.dtype)},
                       {"shape", std::vector<int64_t>(view.shape.begin(), view.shape.end())},
                       {"mean", json_number(s.mean)},
                       {"deviation", json_number(s.deviation)},
                       {"min", json_number(s.min)},
                       {"max", json_number(s.max)},
                       {"not_finite", s.not_finite},
                       {"file", file.empty() ? Json() : Json(file)}});
    table.add({output.name, std::string(name(view.dtype)), view.shape.str(), text(s.mean), text(s.deviation),
               text(s.min), text(s.max), std::to_string(s.not_finite), file});
  }
  if (!program.json) print(table.str());
  return outputs;
}

int run_model(const Program& program, const ModelRunFlags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  expect_at_least("--runs", flags.runs, 1);
  if (!flags.trace.empty() && flags.trace == flags.dump_graph)
    fail("--trace and --dump-graph name the same file, {}", flags.trace);
  expect_at_least("--batch", flags.batch, 1);
  SessionOptions options = session_options(program, flags.run);
  set_threads(program, options);
  if (!flags.dump_values.empty()) options.keep = {"all"};
  options.trace = !flags.trace.empty();

  const int64_t start = now_ns();
  std::optional<Session> session;
  Files read;
  const std::string model = adapted(flags.file, flags.adapters);
  expect_calibration_used(flags.run, !flags.run.calibration.empty(), {options.passes.precision});
  take_calibration(flags.run, model, options);
  with_file(model, [&] {
    Graph graph = load_model(model, &read);
    if (flags.batch != 1) options.batch = session_batch(graph, options, flags.batch);
    session.emplace(std::move(graph), options);
  });
  for (const auto& [input, file] : named_paths(flags.inputs, "--input")) read.emplace_back(file);
  for (const std::string& file : {flags.dump_graph, flags.trace}) refuse_to_replace_any(file, read);
  const Json inputs = fill_inputs(program, flags, *session);
  double load_ms = 0;
  std::vector<double> ms;
  with_file(flags.file, [&] {
    session->compile();
    load_ms = ms_since(start) - session->self_check_ms().value_or(0);
    for (int64_t i = 0; i < flags.runs; ++i) {
      const int64_t begin = now_ns();
      session->run();
      ms.push_back(ms_since(begin));
    }
  });
  const Statistics times = summarize(ms);
  const std::optional<double> check_ms = session->self_check_ms();

  write_extras(flags, *session, read);
  const Json outputs = write_outputs(program, flags, *session, read);
  if (program.json) {
    Json document{{"file", flags.file},
                  {"precision", name(session->precision())},
                  {"device", session->device()},
                  {"threads", session->threads()},
                  {"load_ms", load_ms},
                  {"runs", flags.runs},
                  {"p50_ms", times.p50},
                  {"min_ms", times.min},
                  {"inputs", inputs},
                  {"outputs", outputs}};
    if (check_ms) document["self_check_ms"] = *check_ms;
    print_json(document);
  } else if (!program.quiet) {
    note(fmt::format("{} ms to load and compile, {}{} ms a run", human_ms(load_ms),
                     check_ms ? human_ms(*check_ms) + " ms for the self-check, " : "", human_ms(times.p50)));
  }
  return kDone;
}

}  // namespace

void add_run(Program& program, Command app) {
  const auto flags = std::make_shared<ModelRunFlags>();
  const Command command = add_command(program, app, "run", "run a model on given or seeded random inputs",
                                      "  sparkpilot run model.onnx --input img=img.npy --output-dir out\n"
                                      "  sparkpilot run gpt.onnx --dim batch=4 --output 'logits[:, -1, :]'\n"
                                      "  sparkpilot run gpt.onnx --shape tokens=1x512\n"
                                      "  sparkpilot run supercombo.onnx --batch 8 --output-dir out\n"
                                      "  sparkpilot run model.onnx --adapter out/adapter --output-dir out\n"
                                      "  sparkpilot run model.onnx --passes no-cse --dump-graph graph.dot\n"
                                      "  sparkpilot run --passes list",
                                      [&program, flags] { return run_model(program, *flags); });
  command.add_option("file", flags->file, "ONNX model").required().type_name("FILE");
  add_list(
      command, "--input", flags->inputs, "[NAME=]PATH",
      "an input's contents: a .npy file, or a .npz file with the inputs' names (repeatable); the others are random");
  add_adapter_flag(command, flags->adapters, "merge this adapter first (repeatable)");
  command.add_option("--output-dir", flags->output_dir, "write DIR/<output>.npy").type_name("DIR");
  add_number(command, "--runs", flags->runs, "number of runs");
  add_number(command, "--batch", flags->batch, "entries per run, by open first dimensions or those fixed at 1");
  command
      .add_option("--dump-values", flags->dump_values,
                  "write every intermediate to DIR/<value>.npy; those that the passes made to <node>.compiled.npy")
      .type_name("DIR");
  command.add_option("--dump-graph", flags->dump_graph, "write the graph after the passes, for Graphviz")
      .type_name("FILE.dot");
  command.add_option("--trace", flags->trace, "write node times for Chrome's and Perfetto's viewers")
      .type_name("FILE.json");
  command.add_flag("--emulate", program.emulate,
                   "compute a precision that this processor lacks, by slow kernels: for accuracy only");
  add_calibration_flag(command, flags->run);
  add_run_flags(program, command, flags->run);
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
