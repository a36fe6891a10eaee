#include "onnx/export.h"

#include <google/protobuf/io/coded_stream.h>

#include <limits>
#include <set>

#include "base/file.h"
#include "ir/check_graph.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "onnx/graph_writer.h"
#include "onnx/later_parts.h"
#include "onnx/lower.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {

using google::protobuf::io::CodedOutputStream;

// Field numbers: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data.
constexpr int kGraph = 7, kInitializer = 5, kRawData = 9;
constexpr int64_t kInlineBytes = 1024;  // with external data, smaller tensors stay in the model file
constexpr int64_t kExternalAlignment = 64;
constexpr int64_t kProtobufLimit = std::numeric_limits<int32_t>::max();

// The bytes that precede a length-delimited field's contents.
std::string field_start(int number, int64_t length) {
  uint8_t buffer[20];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(number) << 3 | 2, buffer);
  end = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(length), end);
  return {reinterpret_cast<const char*>(buffer), static_cast<size_t>(end - buffer)};
}

// One initializer as written: these bytes, followed by the tensor's own if it is inline.
struct Piece {
  std::string start;
  const Initializer* tensor = nullptr;
  bool external = false;
  int64_t offset = 0;  // in the external file
};

// The position of every initializer in its file, and the sizes on disk.
struct Layout {
  std::vector<Piece> pieces;
  int64_t inline_bytes = 0, external_bytes = 0;
};

Layout lay_out(const std::vector<Initializer>& initializers, bool external, const std::string& location) {
  Layout layout;
  for (const Initializer& initializer : initializers) {
    Piece piece{.start = {}, .tensor = &initializer};
    const int64_t bytes = initializer.tensor.bytes();
    onnx::TensorProto proto;
    describe_tensor(initializer.name, initializer.tensor, proto);
    piece.external = external && bytes > kInlineBytes;
    if (piece.external) {
      piece.offset = (layout.external_bytes + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
      layout.external_bytes = piece.offset + bytes;
      proto.set_data_location(onnx::TensorProto::EXTERNAL);
      const std::pair<const char*, std::string> entries[] = {
          {"location", location}, {"offset", std::to_string(piece.offset)}, {"length", std::to_string(bytes)}};
      for (const auto& [key, value] : entries) {
        auto* entry = proto.add_external_data();
        entry->set_key(key);
        entry->set_value(value);
      }
    }
    std::string fields = proto.SerializeAsString();
    if (!piece.external) fields += field_start(kRawData, bytes);
    const int64_t length = std::ssize(fields) + (piece.external ? 0 : bytes);
    piece.start = field_start(kInitializer, length) + fields;
    layout.inline_bytes += std::ssize(piece.start) + (piece.external ? 0 : bytes);
    layout.pieces.push_back(std::move(piece));
  }
  return layout;
}

// The oldest IR version that the opset and the types allow: most programs can load it.
int ir_version(int opset, const std::vector<Initializer>& initializers) {
  int version = opset < 19 ? 8 : opset < 21 ? 9 : opset < 23 ? 10 : 11;
  for (const Initializer& initializer : initializers) {
    const DType dtype = initializer.tensor.dtype();
    if (dtype == DType::f4e2m1) version = std::max(version, 11);
    if (dtype == DType::f8e8m0) version = std::max(version, 12);
    if (dtype == DType::i2 || dtype == DType::u2) version = std::max(version, 13);
  }
  return version;
}

void collect_domains(const Graph& graph, std::set<std::string>& domains) {
  for (const NodeId id : graph.order()) {
    domains.insert(std::string(graph.node(id).op->domain));
    for (const auto& [key, value] : graph.node(id).attrs) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) collect_domains(**body, domains);
    }
  }
}

onnx::ModelProto describe_model(const Graph& graph, int opset, int ir) {
  onnx::ModelProto model;
  model.set_ir_version(ir);
  model.set_producer_name(graph.producer.empty() ? "sparkpilot" : graph.producer);
  std::set<std::string> domains{""};
  collect_domains(graph, domains);
  for (const std::string& domain : domains) {
    const auto declared = graph.opsets.find(domain);
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(domain.empty() ? opset : declared == graph.opsets.end() ? 1 : declared->second);
  }
  for (const auto& [key, value] : graph.metadata) {
    auto* entry = model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  return model;
}

void write_tensor(AtomicFile& file, const Tensor& tensor) {
  file.write(tensor.raw(), static_cast<size_t>(tensor.bytes()));
}

void write_external(const Layout& layout, AtomicFile& file) {
  const std::string zeros(kExternalAlignment, '\0');
  int64_t at = 0;
  for (const Piece& piece : layout.pieces) {
    if (!piece.external) continue;
    file.write(std::string_view(zeros).substr(0, static_cast<size_t>(piece.offset - at)));
    write_tensor(file, piece.tensor->tensor);
    at = piece.offset + piece.tensor->tensor.bytes();
  }
}

void write_model(const std::string& model, const std::string& graph, const Layout& layout, AtomicFile& file) {
  file.write(model);
  file.write(field_start(kGraph, std::ssize(graph) + layout.inline_bytes));
  file.write(graph);
  for (const Piece& piece : layout.pieces) {
    file.write(piece.start);
    if (!piece.external) write_tensor(file, piece.tensor->tensor);
  }
}

int export_graph(Graph graph, const std::filesystem::path& path, const ExportOptions& options) {
  check_graph(graph);
  infer(graph);  // outputs are written with their types
  const int opset = lower_for_export(graph, options.opset);
  spell_for(graph, opset);
  graph.compact();
  GraphWriter writer;
  onnx::GraphProto proto;
  writer.write(graph, proto);
  const auto& initializers = writer.initializers();
  const std::string fields = proto.SerializeAsString();
  const std::string model = describe_model(graph, opset, ir_version(opset, initializers)).SerializeAsString();
  const std::filesystem::path data = path.string() + ".data";
  Layout layout = lay_out(initializers, options.external_data, data.filename().string());
  if (std::ssize(fields) + layout.inline_bytes + std::ssize(model) > kProtobufLimit - 64) {
    layout = lay_out(initializers, true, data.filename().string());
  }
  for (const std::filesystem::path& keep : options.keep) {
    refuse_to_replace(path, keep);
    if (layout.external_bytes > 0) refuse_to_replace(data, keep);
  }
  AtomicFile file(path);
  write_model(model, fields, layout, file);
  if (layout.external_bytes > 0) {
    AtomicFile weights(data);
    write_external(layout, weights);
    weights.commit();
  }
  file.commit();
  return opset;
}

}  // namespace

int save_onnx(const Graph& graph, const std::filesystem::path& path, const ExportOptions& options) {
  try {
    return export_graph(graph, path, options);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(path.string())) throw;
    rethrow_within(path.string() + ": ");
  }
}

}  // namespace sparkpilot
