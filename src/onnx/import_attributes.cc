// Attributes and bodies of nodes.
#include <algorithm>

#include "ir/op.h"
#include "onnx/importer.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {

template <typename T, typename Field>
std::vector<T> list(const Field& field) {
  return std::vector<T>(field.begin(), field.end());
}

// Old files may leave out the type of an empty list: take it from the op's schema.
Attribute empty_value(const OpDef* op, const std::string& key) {
  if (op) {
    for (const AttrSpec& spec : op->attributes) {
      if (spec.name != key) continue;
      switch (spec.type) {
        case AttrType::integer: return int64_t{0};
        case AttrType::real: return 0.0F;
        case AttrType::text: return std::string();
        case AttrType::integers: return std::vector<int64_t>();
        case AttrType::reals: return std::vector<float>();
        case AttrType::texts: return std::vector<std::string>();
        default: break;
      }
    }
  }
  fail("attribute {} has neither type nor value", key);
}

bool declares(const OpDef& op, std::string_view key) {
  return std::any_of(op.attributes.begin(), op.attributes.end(),
                     [&](const AttrSpec& spec) { return spec.name == key; });
}

// Bytes of a copy; tensors are shared.
size_t size_of(const Attribute& value) {
  size_t bytes = sizeof(Attribute);
  if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
  else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
    bytes += integers->size() * sizeof(int64_t);
  else if (const auto* reals = std::get_if<std::vector<float>>(&value)) bytes += reals->size() * sizeof(float);
  else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& item : *texts) bytes += sizeof(std::string) + item.size();
  }
  return bytes;
}

}  // namespace

Attributes Importer::import_attributes(const RawNode& node, const OpDef* op, std::vector<BodyGraph>& bodies,
                                       Captures& captures) {
  Attributes attrs;
  for (const Range& range : node.attributes) {
    const RawAttribute raw = parse_attribute(model_.source, range);
    const std::string& key = raw.proto.name();
    charge(raw.proto.ByteSizeLong());
    if (op && internal_attribute(*op, key)) fail("has no attribute {}", key);
    const bool body_seen = std::any_of(bodies.begin(), bodies.end(), [&](const auto& b) { return b.attribute == key; });
    if (attrs.has(key) || body_seen) fail("attribute {} is given twice", key);
    if (!raw.proto.ref_attr_name().empty()) {
      if (!bound_) fail("attribute {} refers to \"{}\" outside of a function", key, raw.proto.ref_attr_name());
      const Attribute* given = bound_->find(raw.proto.ref_attr_name());
      if (!given) continue;
      charge(size_of(*given));
      attrs.set(key, *given);
    } else if (raw.proto.type() == onnx::AttributeProto::GRAPH) {
      // Checked before the body is read: a node has no bodies other than its op's.
      if (op && !declares(*op, key)) fail("has no attribute {}", key);
      bodies.push_back(import_body(raw, captures));
    } else if (raw.proto.type() == onnx::AttributeProto::UNDEFINED) {
      attrs.set(key, empty_value(op, key));
    } else {
      attrs.set(key, import_attribute(model_, raw));
    }
  }
  return attrs;
}

Attribute import_attribute(Model& model, const RawAttribute& raw) {
  const onnx::AttributeProto& proto = raw.proto;
  switch (proto.type()) {
    case onnx::AttributeProto::FLOAT: return proto.f();
    case onnx::AttributeProto::INT: return proto.i();
    case onnx::AttributeProto::STRING: return proto.s();
    case onnx::AttributeProto::FLOATS: return list<float>(proto.floats());
    case onnx::AttributeProto::INTS: return list<int64_t>(proto.ints());
    case onnx::AttributeProto::STRINGS: return list<std::string>(proto.strings());
    case onnx::AttributeProto::TENSOR:
      if (!raw.tensor) fail("attribute {} holds no tensor", proto.name());
      return model.tensors.read(*raw.tensor).tensor;
    case onnx::AttributeProto::SPARSE_TENSOR:
      if (!raw.sparse) fail("attribute {} holds no sparse tensor", proto.name());
      return read_sparse(model, *raw.sparse).tensor;
    default:
      throw Unsupported(fmt::format("attribute {} is of a kind ({}) that is not supported", proto.name(),
                                    onnx::AttributeProto::AttributeType_Name(proto.type())));
  }
}

Importer::BodyGraph Importer::import_body(const RawAttribute& attribute, Captures& captures) {
  if (!attribute.graph) fail("attribute {} holds no graph", attribute.proto.name());
  BodyGraph body{attribute.proto.name(), {}, {}};
  Importer inner(model_, body.graph, opsets_, depth_ + 1);
  inner.around_ = this;
  inner.body_ = &body;
  inner.captures_ = &captures;
  inner.bound_ = bound_;
  inner.import_graph(*attribute.graph);
  return body;
}

std::optional<ValueId> Importer::capture(const std::string& name) {
  const std::optional<ValueId> outside = around_->lookup(name);
  if (!outside || !outside->present()) return outside;
  count_value();
  if (const Tensor* constant = around_->graph_.constant(*outside)) return graph_.add_constant(*constant, name);
  const auto found = body_->captured.find(*outside);
  if (found != body_->captured.end()) return found->second;
  captures_->push_back(*outside);
  return capture_value(*outside);
}

ValueId Importer::capture_value(ValueId outside) {
  count_value();
  const Value& value = around_->graph_.value(outside);
  const ValueId inside = add_untyped_input(graph_, value.name, value.dtype);
  body_->captured[outside] = inside;
  return inside;
}

ValueId add_untyped_input(Graph& graph, std::string name, DType dtype) {
  const ValueId id = graph.add_input(std::move(name), dtype, std::vector<Dim>{});
  graph.value(id).shape.reset();
  graph.value(id).declared.reset();
  return id;
}

void Importer::join_bodies(std::vector<BodyGraph> bodies, const Captures& captures, Attributes& attrs,
                           std::vector<ValueId>& inputs) const {
  if (bodies.empty()) return;
  for (BodyGraph& body : bodies) {
    // Each body starts from the captures of those before it, so its list is a prefix of the whole list.
    for (size_t i = body.captured.size(); i < captures.size(); ++i) {
      const Value& value = graph_.value(captures[i]);
      add_untyped_input(body.graph, value.name, value.dtype);
    }
    attrs.set(body.attribute, std::make_shared<const Graph>(std::move(body.graph)));
  }
  if (captures.empty()) return;
  attrs.set("captures", static_cast<int64_t>(captures.size()));
  inputs.insert(inputs.end(), captures.begin(), captures.end());
}

}  // namespace sparkpilot
