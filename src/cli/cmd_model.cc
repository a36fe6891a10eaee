// sparkpilot model: what a model file contains, whether it computes correctly, and conversion of model files.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/with_file.h"
#include "bench/model_check.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/terminal.h"
#include "ir/census.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "onnx/import.h"
#include "onnx/metadata.h"
#include "runtime/convert.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct ModelFlags {
  std::string file, out;
  RunFlags run;
  bool quick = false, simplify = false, external_data = false;
  int opset = 0;
  double tolerance = 0;
};

// --- info

Json json_dims(const Value& value) {
  Json dims = Json::array();
  if (value.declared) {
    for (const Dim& dim : *value.declared) {
      if (dim.size >= 0) dims.push_back(dim.size);
      else dims.push_back(dim.symbol.empty() ? Json() : Json(dim.symbol));
    }
  } else if (value.shape) {
    for (const int64_t size : *value.shape) dims.push_back(size);
  } else {
    return nullptr;  // of any rank
  }
  return dims;
}

std::string text_dims(const Json& dims) {
  if (dims.is_null()) return "of unknown shape";
  std::string out;
  for (const Json& dim : dims) {
    out += (out.empty() ? "" : ", ") + (dim.is_null()     ? "?"
                                        : dim.is_string() ? dim.get<std::string>()
                                                          : json_text(dim));
  }
  return "[" + out + "]";
}

Json json_value(const std::string& tensor, const Value& value) {
  return {{"name", tensor}, {"dtype", name(value.dtype)}, {"shape", json_dims(value)}};
}

// Infers types with open dimensions taken as 1, as far as possible; the cost of a run is computed from them.
Graph with_types(Graph graph) {
  bind_open_inputs(graph);
  infer(graph);
  expand_ops(graph);
  fold_constants(graph);
  drop_dead(graph);
  infer(graph);
  return graph;
}

Json json_slices(const Graph& graph) {
  Json slices = Json::object();
  for (const auto& [head, slice] : output_slices(graph)) {
    slices[head] = {slice.start ? Json(*slice.start) : Json(), slice.stop ? Json(*slice.stop) : Json()};
  }
  return slices;
}

Json describe(const std::string& file, const std::map<std::string, int64_t>& dims,
              const std::map<std::string, Shape>& shapes) {
  Graph graph = load_onnx(file);
  fix_dimensions(graph, dims, shapes);
  const Census held = take_census(graph), cost = take_census(with_types(graph));
  Json inputs = Json::array(), outputs = Json::array(), metadata = Json::object();
  for (const ValueId id : graph.inputs()) inputs.push_back(json_value(graph.value(id).name, graph.value(id)));
  for (const auto& output : graph.outputs()) outputs.push_back(json_value(output.name, graph.value(output.value)));
  for (const auto& [key, value] : graph.metadata) {
    if (key != kOutputSlicesKey) metadata[key] = value;
  }
  Json opsets = Json::object();
  for (const auto& [domain, version] : graph.opsets) opsets[domain.empty() ? "ai.onnx" : domain] = version;
  return {{"file", file},
          {"file_bytes", fs::file_size(file)},
          {"graph", graph.name},
          {"producer", graph.producer},
          {"opsets", opsets},
          {"inputs", inputs},
          {"outputs", outputs},
          {"parameters", held.parameters},
          {"weight_bytes", held.constant_bytes},
          {"flops", cost.flops},
          {"macs", cost.macs},
          {"nodes_without_known_shape", cost.unknown},
          {"nodes", held.nodes},
          {"ops", held.ops},
          {"metadata", metadata},
          {"output_slices", json_slices(graph)}};
}

void print_info(const Json& info) {
  const auto line = [](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    print(painted(fmt::format("{:<12}", key), Paint::bold) + wrapped(value, 12, stdout_columns()) + "\n");
  };
  line("file", fmt::format("{}, {}", info["file"].get<std::string>(), human_bytes(info["file_bytes"].get<int64_t>())));
  line("graph", info["graph"].get<std::string>());
  line("producer", info["producer"].get<std::string>());
  std::string opsets;
  for (const auto& [domain, version] : info["opsets"].items()) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain, version.get<int>());
  }
  line("opsets", opsets);
  line("parameters", fmt::format("{}, {}", human_count(info["parameters"].get<double>()),
                                 human_bytes(info["weight_bytes"].get<int64_t>())));
  const auto unknown = info["nodes_without_known_shape"].get<int64_t>();
  line("work",
       fmt::format("{} FLOP a run, {} multiply-adds in products{}", human_count(info["flops"].get<double>()),
                   human_count(info["macs"].get<double>()),
                   unknown > 0 ? fmt::format("; {} nodes whose shapes a run decides are not counted", unknown) : ""));
  const auto values = [&](const char* key, const char* word) {
    for (const Json& value : info[key]) {
      line(word, fmt::format("{} {} {}", value["name"].get<std::string>(), value["dtype"].get<std::string>(),
                             text_dims(value["shape"])));
    }
  };
  values("inputs", "input");
  values("outputs", "output");
  for (const auto& [key, value] : info["metadata"].items())
    line("metadata", fmt::format("{} = {}", key, value.get<std::string>()));
  for (const auto& [head, slice] : info["output_slices"].items()) {
    const auto end = [](const Json& at) { return at.is_null() ? std::string() : json_text(at); };
    line("slice", fmt::format("{} {}:{}", head, end(slice[0]), end(slice[1])));
  }
  Table ops({"op", "nodes"});
  for (const auto& [op, count] : info["ops"].items()) ops.add({op, json_text(count)});
  print("\n" + ops.str());
}

int model_info(const Program& program, const ModelFlags& flags) {
  Json described;
  const auto dims = dims_of(flags.run);
  const auto shapes = shapes_of(flags.run);
  with_file(flags.file, [&] { described = describe(flags.file, dims, shapes); });
  if (program.json) print_json(described);
  else print_info(described);
  return kDone;
}

// --- check

int check_model_file(const Program& program, const ModelFlags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  ModelCheckOptions options;
  options.session = session_options(program, flags.run);
  set_threads(program, options.session);
  options.seed = flags.run.seed;
  options.compare = !flags.quick;
  options.tolerance = flags.tolerance;
  if (flags.quick) refuse_given(program, "--tolerance", "the comparison, which --quick leaves out");
  ModelCheck result;
  with_file(flags.file, [&] { result = check_model(flags.file, options); });
  if (!program.quiet) {
    for (const std::string& text : result.notes) note(text);
  }
  Json outputs = Json::array();
  Table table({"output", "not finite", "relative L2", "allowed", "by rounding", "outcome"});
  for (const OutputCheck& output : result.outputs) {
    const bool failed = output.outcome == Outcome::failed, good = output.outcome == Outcome::passed;
    outputs.push_back({{"name", output.name},
                       {"not_finite", output.not_finite},
                       {"relative_l2", options.compare ? Json(output.relative_l2) : Json()},
                       {"rounding_relative_l2", output.rounding ? Json(*output.rounding) : Json()},
                       {"passed", !failed},
                       {"outcome", name(output.outcome)}});
    table.add({output.name, std::to_string(output.not_finite),
               options.compare ? fmt::format("{:.2e}", output.relative_l2) : "-",
               options.compare ? fmt::format("{:.3g}", result.tolerance) : "-",
               output.rounding ? fmt::format("{:.2e}", *output.rounding) : "-",
               painted(name(output.outcome), failed ? Paint::bad
                                             : good ? Paint::good
                                                    : Paint::bold)});
    if (!program.quiet && good && output.not_finite > 0) {
      note(fmt::format("output \"{}\": {} of its numbers are NaN or infinite on both sides, which is no difference",
                       output.name, output.not_finite));
    }
    if (!program.quiet && !failed && !good) {
      note(fmt::format(
          "output \"{}\": rounding alone changes it by as much on these inputs, so they prove nothing about it",
          output.name));
    }
  }
  if (program.json) {
    print_json(
        {{"file", flags.file}, {"passed", result.passed()}, {"tolerance", result.tolerance}, {"outputs", outputs}});
  } else {
    print(table.str());
  }
  return result.passed() ? kDone : kCheckFailed;
}

// --- convert

int convert(const Program& program, const ModelFlags& flags) {
  const ConvertOptions options{.opset = flags.opset,
                               .external_data = flags.external_data,
                               .simplify = flags.simplify,
                               .dims = dims_of(flags.run),
                               .shapes = shapes_of(flags.run),
                               .outputs = flags.run.outputs};
  std::vector<std::string> notes;
  with_file(flags.file, [&] { notes = convert_model(flags.file, flags.out, options); });
  for (const std::string& text : notes) {
    if (!program.quiet) note(text);
  }
  const std::optional<int64_t> bytes = file_bytes(flags.out);
  if (program.json) print_json({{"file", flags.out}, {"file_bytes", bytes ? Json(*bytes) : Json()}});
  else print(fmt::format("{}  {}\n", flags.out, bytes ? human_bytes(*bytes) : "-"));
  return kDone;
}

}  // namespace

void add_model(Program& program, Command app) {
  const auto flags = std::make_shared<ModelFlags>();
  const Command group = app.add_group("model", "inspect, check, convert and quantize model files");
  group.footer(
      "Examples:\n"
      "  sparkpilot model info driving_vision.onnx\n"
      "  sparkpilot model check driving_vision.onnx --quick\n"
      "  sparkpilot model convert driving_vision.onnx --out newer.onnx --opset 21\n"
      "  sparkpilot model quantize --int8 model.onnx model_int8.onnx --calibrate samples/");
  const auto add = [&](const std::string& name, const std::string& doc, const std::string& examples,
                       int (*action)(const Program&, const ModelFlags&)) {
    const Command command =
        add_command(program, group, name, doc, examples, [&program, flags, action] { return action(program, *flags); });
    command.add_option("file", flags->file, "ONNX model").required().type_name("FILE");
    add_report_flags(program, command);
    return command;
  };
  const Command teller = add("info", "print inputs, outputs, operators, size and work",
                             "  sparkpilot model info driving_vision.onnx --json\n"
                             "  sparkpilot model info gpt.onnx --shape tokens=1x512",
                             model_info);
  add_size_flags(teller, flags->run);
  const Command checker = add("check", "run it on random inputs and compare the result with plain kernels",
                              "  sparkpilot model check driving_vision.onnx\n"
                              "  sparkpilot model check big.onnx --quick",
                              check_model_file);
  checker.add_flag("--quick", flags->quick, "run it, without the slow comparison");
  add_number(checker, "--tolerance", flags->tolerance, "allowed relative L2 error; 0: by the model's types", "X");
  add_run_flags(program, checker, flags->run);

  const Command converter =
      add("convert", "write it as a new ONNX file",
          "  sparkpilot model convert model.onnx --out newer.onnx --opset 21\n"
          "  sparkpilot model convert gpt.onnx --out last.onnx --dim batch=1 --output 'logits[:, -1, :]' "
          "--simplify",
          convert);
  converter.add_option("--out", flags->out, "the file to write").required().type_name("FILE");
  add_number(converter, "--opset", flags->opset, "version of the operator set; 0: the model's own if possible");
  converter.add_flag("--external-data", flags->external_data, "write weights to FILE.data");
  converter.add_flag("--simplify", flags->simplify, "fold constants, share equal nodes, drop dead ones");
  add_graph_flags(converter, flags->run);
  add_model_quantize(program, group);
  add_model_calibrate(program, group);
}

}  // namespace sparkpilot::cli
