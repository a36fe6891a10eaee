// Nodes and attributes as stored in the file, their order, and their names in messages.
#include <unordered_map>

#include "onnx/importer.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {
// Field numbers of NodeProto and AttributeProto.
constexpr int kAttribute = 5, kOverload = 8, kMetadata = 9, kDevices = 10;
constexpr int kTensor = 5, kGraph = 6, kSparse = 22, kTypeProto = 14;
constexpr int kTensors = 10, kGraphs = 11, kSparses = 23, kTypeProtos = 15;
}  // namespace

RawNode parse_node(ByteSource& source, Range range) {
  RawNode node;
  for (const Deferred& field :
       parse_message(source, range, node.proto, {kAttribute, kOverload, kMetadata, kDevices}, "node")) {
    if (field.field == kAttribute) node.attributes.push_back(field.bytes);
    else if (field.field == kOverload) node.overload = read_string(source, field.bytes);
  }
  if (node.proto.op_type().empty()) fail("node at byte {} names no op", range.offset);
  if (node.proto.domain() == "ai.onnx") node.proto.clear_domain();
  return node;
}

std::string label_of(const RawNode& node) {
  if (!node.proto.name().empty()) return node.proto.name();
  for (const std::string& output : node.proto.output()) {
    if (!output.empty()) return output;
  }
  return node.proto.op_type();
}

RawAttribute parse_attribute(ByteSource& source, Range range) {
  RawAttribute out;
  using Proto = onnx::AttributeProto;
  auto filled = Proto::UNDEFINED;
  for (const Deferred& field :
       parse_message(source, range, out.proto,
                     {kTensor, kGraph, kSparse, kTypeProto, kTensors, kGraphs, kSparses, kTypeProtos}, "attribute")) {
    switch (field.field) {
      case kTensor: out.tensor = field.bytes; break;
      case kGraph: out.graph = field.bytes; break;
      case kSparse: out.sparse = field.bytes; break;
      case kTypeProto: filled = Proto::TYPE_PROTO; break;
      case kTensors: filled = Proto::TENSORS; break;
      case kGraphs: filled = Proto::GRAPHS; break;
      case kSparses: filled = Proto::SPARSE_TENSORS; break;
      default: filled = Proto::TYPE_PROTOS; break;
    }
  }
  if (!out.proto.has_type() || out.proto.type() == Proto::UNDEFINED) {
    // Before IR 3 the type may be missing.
    if (out.tensor) filled = Proto::TENSOR;
    else if (out.graph) filled = Proto::GRAPH;
    else if (out.sparse) filled = Proto::SPARSE_TENSOR;
    else if (out.proto.has_f()) filled = Proto::FLOAT;
    else if (out.proto.has_i()) filled = Proto::INT;
    else if (out.proto.has_s()) filled = Proto::STRING;
    else if (out.proto.floats_size() > 0) filled = Proto::FLOATS;
    else if (out.proto.ints_size() > 0) filled = Proto::INTS;
    else if (out.proto.strings_size() > 0) filled = Proto::STRINGS;
    if (filled != Proto::UNDEFINED) out.proto.set_type(filled);
  }
  if (out.proto.name().empty()) fail("attribute at byte {} has no name", range.offset);
  return out;
}

std::vector<size_t> order_of(const std::vector<RawNode>& nodes) {
  std::unordered_map<std::string_view, size_t> producers;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].proto.output()) {
      if (output.empty()) continue;
      const auto [at, fresh] = producers.try_emplace(output, i);
      if (!fresh) {
        fail("nodes \"{}\" and \"{}\" both make \"{}\"", label_of(nodes[at->second]), label_of(nodes[i]), output);
      }
    }
  }
  // Depth first with an explicit stack: a hostile chain of nodes could overflow the call stack.
  enum : uint8_t { fresh, open, done };
  std::vector<uint8_t> mark(nodes.size(), fresh);
  std::vector<size_t> out;
  out.reserve(nodes.size());
  std::vector<std::pair<size_t, int>> stack;
  for (size_t root = 0; root < nodes.size(); ++root) {
    if (mark[root] != fresh) continue;
    mark[root] = open;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      const auto [at, input] = stack.back();
      const onnx::NodeProto& proto = nodes[at].proto;
      if (input == proto.input_size()) {
        mark[at] = done;
        out.push_back(at);
        stack.pop_back();
        continue;
      }
      ++stack.back().second;
      const auto found = producers.find(proto.input(input));
      if (found == producers.end() || mark[found->second] == done) continue;
      if (mark[found->second] == open) {
        fail("{}: reads \"{}\", which depends on what this node makes: the graph has a cycle (node \"{}\")",
             proto.op_type(), proto.input(input), label_of(nodes[at]));
      }
      mark[found->second] = open;
      stack.push_back({found->second, 0});
    }
  }
  return out;
}

}  // namespace sparkpilot
