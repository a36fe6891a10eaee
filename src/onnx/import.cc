#include "onnx/import.h"

#include "onnx/file_kind.h"
#include "onnx/importer.h"

namespace sparkpilot {
namespace {

// Field numbers of ModelProto.
constexpr int kGraph = 7, kTraining = 20, kFunctions = 25, kConfiguration = 26;

// The first bytes of the file.
std::string head_of(ByteSource& source) {
  std::string head(std::min(kKindHead, static_cast<size_t>(source.size())), '\0');
  source.read(0, std::as_writable_bytes(std::span(head.data(), head.size())));
  return head;
}

// A clone without Git LFS holds pointers in place of models.
void refuse_lfs_pointer(ByteSource& source) {
  const std::string head = head_of(source);
  if (!head.starts_with("version https://git-lfs.github.com/spec/v1")) return;
  const auto field = [&](std::string_view key) -> std::string {
    const size_t at = head.find(key);
    if (at == std::string::npos) return "?";
    const size_t begin = at + key.size();
    return head.substr(begin, head.find_first_of("\r\n", begin) - begin);
  };
  fail("this is a Git LFS pointer (sha256 {}, {} bytes), not the model itself: fetch it with git lfs pull",
       field("\noid sha256:"), field("\nsize "));
}

onnx::ModelProto read_model(ByteSource& source, std::vector<Range>& graphs, std::vector<Range>& functions) {
  onnx::ModelProto proto;
  const Range all{0, source.size()};
  for (const Deferred& field :
       parse_message(source, all, proto, {kGraph, kTraining, kFunctions, kConfiguration}, "the model")) {
    if (field.field == kGraph) graphs.push_back(field.bytes);
    else if (field.field == kFunctions) functions.push_back(field.bytes);
  }
  if (!proto.has_ir_version() || graphs.size() != 1) fail("is no ONNX model: {} graphs found", graphs.size());
  return proto;
}

Graph import_model(ByteSource& source, const std::filesystem::path& folder,
                   std::vector<std::filesystem::path>* files = nullptr) {
  if (source.size() == 0) fail("the file is empty");
  refuse_lfs_pointer(source);
  onnx::ModelProto proto;
  std::vector<Range> graphs, functions;
  try {
    proto = read_model(source, graphs, functions);
  } catch (const Error&) {
    const std::string kind = file_kind(head_of(source));
    if (!kind.empty()) fail("is {}, not an ONNX model", kind);
    throw;
  }
  if (proto.ir_version() < kOldestIr || proto.ir_version() > kNewestIr) {
    fail("the model has IR version {}, known are {} to {}", proto.ir_version(), kOldestIr, kNewestIr);
  }
  Graph graph;
  graph.opsets = read_opsets(proto.opset_import());
  graph.producer = proto.producer_name();
  if (!proto.producer_version().empty()) graph.producer += " " + proto.producer_version();
  for (const auto& entry : proto.metadata_props()) graph.metadata[entry.key()] = entry.value();
  Model model{.source = source, .tensors = TensorReader(source, folder), .functions = {}, .calls = {}, .nodes = 0};
  read_functions(model, functions, graph.opsets);
  Importer(model, graph, graph.opsets, 0).import_graph(graphs[0]);
  if (files != nullptr) {
    for (const std::string& location : model.tensors.locations()) files->push_back(folder / location);
  }
  return graph;
}

}  // namespace

Graph load_onnx(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  return load_onnx(path, files);
}

Graph load_onnx(const std::filesystem::path& path, std::vector<std::filesystem::path>& files) {
  FileSource source(path);
  files = {path};
  try {
    return import_model(source, path.has_parent_path() ? path.parent_path() : ".", &files);
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
