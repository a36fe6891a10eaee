#include "onnx/import.h"

#include "onnx/importer.h"

namespace sparkpilot {
namespace {

// Field numbers of ModelProto.
constexpr int kGraph = 7, kTraining = 20, kFunctions = 25, kConfiguration = 26;

std::map<std::string, int> read_opsets(const onnx::ModelProto& proto) {
  std::map<std::string, int> opsets;
  for (const auto& import : proto.opset_import()) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    if (import.version() < 1) fail("opset {} of domain \"{}\" makes no sense", import.version(), domain);
    if (domain.empty() && import.version() > kNewestOpset) {
      fail("the model uses opset {}, the newest known is {}", import.version(), kNewestOpset);
    }
    opsets[domain] = static_cast<int>(std::min<int64_t>(import.version(), 1 << 20));
  }
  return opsets;
}

Graph import_model(ByteSource& source, const std::filesystem::path& folder) {
  if (source.size() == 0) fail("the file is empty");
  onnx::ModelProto proto;
  std::vector<Range> graphs, functions;
  for (const Deferred& field :
       parse_message(source, {0, source.size()}, proto, {kGraph, kTraining, kFunctions, kConfiguration}, "the model")) {
    if (field.field == kGraph) graphs.push_back(field.bytes);
    else if (field.field == kFunctions) functions.push_back(field.bytes);
  }
  if (!proto.has_ir_version() || graphs.size() != 1) fail("is no ONNX model: {} graphs found", graphs.size());
  if (proto.ir_version() < kOldestIr || proto.ir_version() > kNewestIr) {
    fail("the model has IR version {}, known are {} to {}", proto.ir_version(), kOldestIr, kNewestIr);
  }
  Graph graph;
  graph.opsets = read_opsets(proto);
  graph.producer = proto.producer_name();
  if (!proto.producer_version().empty()) graph.producer += " " + proto.producer_version();
  for (const auto& entry : proto.metadata_props()) graph.metadata[entry.key()] = entry.value();
  Model model{.source = source, .tensors = TensorReader(source, folder), .functions = {}, .calls = {}, .nodes = 0};
  read_functions(model, functions, graph.opsets);
  Importer(model, graph, graph.opsets, 0).import_graph(graphs[0]);
  return graph;
}

}  // namespace

Graph load_onnx(const std::filesystem::path& path) {
  FileSource source(path);
  try {
    return import_model(source, path.has_parent_path() ? path.parent_path() : ".");
  } catch (const Error&) {
    rethrow_within(path.string() + ": ");
  }
}

Graph parse_onnx(std::span<const std::byte> bytes, const std::string& name) {
  ArraySource source(bytes);
  try {
    return import_model(source, {});
  } catch (const Error&) {
    rethrow_within(name + ": ");
  }
}

}  // namespace sparkpilot
