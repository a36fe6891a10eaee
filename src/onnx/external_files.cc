#include "onnx/external_files.h"

#include "base/file.h"
#include "onnx/proto.h"
#include "onnx/wire.h"

namespace sparkpilot {
namespace {

class ExternalData {
  // Where a message has others: numbers of fields.
  struct InModel {
    static constexpr int kGraph = 7, kTraining = 20, kFunctions = 25;
  };
  struct InGraph {
    static constexpr int kNode = 1, kInitializer = 5, kSparseInitializer = 15;
  };
  struct InFunction {
    static constexpr int kNode = 7;
  };
  struct InNode {
    static constexpr int kAttribute = 5;
  };
  struct InAttribute {
    static constexpr int kTensor = 5, kGraph = 6, kTensors = 10, kGraphs = 11, kSparse = 22, kSparses = 23;
  };
  struct InSparse {
    static constexpr int kValues = 1, kIndices = 2;
  };
  struct InTensor {
    static constexpr int kRawData = 9;
  };

 public:
  explicit ExternalData(ByteSource& source) : source_(source) {}

  void find() {
    onnx::ModelProto proto;
    for (const Deferred& field :
         parse_message(source_, {0, source_.size()}, proto, {InModel::kGraph, InModel::kTraining, InModel::kFunctions},
                       "the model")) {
      if (field.field == InModel::kGraph) graph(field.bytes, 0);
      if (field.field == InModel::kFunctions) function(field.bytes);
    }
  }
  const std::set<std::string>& locations() const { return locations_; }

 private:
  void graph(Range range, int depth) {
    constexpr int kDeepest = 64;
    if (depth > kDeepest) return;  // is refused when it is loaded
    onnx::GraphProto proto;
    for (const Deferred& field : parse_message(
             source_, range, proto, {InGraph::kNode, InGraph::kInitializer, InGraph::kSparseInitializer}, "graph")) {
      if (field.field == InGraph::kNode) node(field.bytes, depth);
      if (field.field == InGraph::kInitializer) tensor(field.bytes);
      if (field.field == InGraph::kSparseInitializer) sparse(field.bytes);
    }
  }
  void function(Range range) {
    onnx::FunctionProto proto;
    for (const Deferred& field : parse_message(source_, range, proto, {InFunction::kNode}, "function"))
      node(field.bytes, 0);
  }
  void node(Range range, int depth) {
    onnx::NodeProto proto;
    for (const Deferred& field : parse_message(source_, range, proto, {InNode::kAttribute}, "node"))
      attribute(field.bytes, depth);
  }
  void attribute(Range range, int depth) {
    using In = InAttribute;
    onnx::AttributeProto proto;
    for (const Deferred& field :
         parse_message(source_, range, proto,
                       {In::kTensor, In::kGraph, In::kTensors, In::kGraphs, In::kSparse, In::kSparses}, "attribute")) {
      if (field.field == In::kTensor || field.field == In::kTensors) tensor(field.bytes);
      if (field.field == In::kGraph || field.field == In::kGraphs) graph(field.bytes, depth + 1);
      if (field.field == In::kSparse || field.field == In::kSparses) sparse(field.bytes);
    }
  }
  void sparse(Range range) {
    onnx::SparseTensorProto proto;
    for (const Deferred& field :
         parse_message(source_, range, proto, {InSparse::kValues, InSparse::kIndices}, "sparse tensor"))
      tensor(field.bytes);
  }
  void tensor(Range range) {
    onnx::TensorProto proto;
    parse_message(source_, range, proto, {InTensor::kRawData}, "tensor");
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return;
    for (const auto& entry : proto.external_data()) {
      if (entry.key() == "location") locations_.insert(entry.value());
    }
  }

  ByteSource& source_;
  std::set<std::string> locations_;
};

std::set<std::string> names_in(ByteSource& source) {
  ExternalData data(source);
  data.find();
  return data.locations();
}

// As the loader reads it.
bool is_readable(const std::filesystem::path& folder, const std::string& location) {
  try {
    const InputFile file = InputFile::open_beneath(folder, location);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::filesystem::path> external_files(const std::filesystem::path& model) {
  std::vector<std::filesystem::path> files;
  try {
    FileSource source(model);
    const std::filesystem::path folder = model.has_parent_path() ? model.parent_path() : ".";
    for (const std::string& location : names_in(source)) {
      if (is_readable(folder, location)) files.push_back(folder / location);
    }
  } catch (const Error&) {  // whoever loads it says what is wrong
    files.clear();
  }
  return files;
}

std::set<std::string> external_names(std::span<const std::byte> model) {
  ArraySource source(model);
  return names_in(source);
}

}  // namespace sparkpilot
