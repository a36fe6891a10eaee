#include "route/log/print.h"

#include <capnp/dynamic.h>
#include <capnp/schema.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "route/log/reader.h"

namespace sparkpilot::drive {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::StructSchema;
using capnp::Type;

constexpr size_t kShortData = 64;  // bytes; a CAN frame has up to 64

std::string json_string(std::string_view text) { return json_text(nlohmann::json(text)); }

class JsonWriter {
 public:
  JsonWriter(std::string& out, bool whole_data) : out_(out), whole_data_(whole_data) {}

  void value(const DynamicValue::Reader& value, const Type& type) {
    switch (value.getType()) {
      case DynamicValue::BOOL: out_ += value.as<bool>() ? "true" : "false"; break;
      case DynamicValue::INT: number(value.as<int64_t>()); break;
      case DynamicValue::UINT: number(value.as<uint64_t>()); break;
      case DynamicValue::FLOAT: real(value.as<double>(), type.isFloat32()); break;
      case DynamicValue::TEXT: {
        const capnp::Text::Reader text = value.as<capnp::Text>();
        out_ += json_string({text.begin(), text.size()});
        break;
      }
      case DynamicValue::DATA: data(value.as<capnp::Data>()); break;
      case DynamicValue::ENUM: enumerant(value.as<capnp::DynamicEnum>()); break;
      case DynamicValue::LIST: list(value.as<DynamicList>()); break;
      case DynamicValue::STRUCT: structure(value.as<DynamicStruct>()); break;
      default: out_ += "null";
    }
  }

 private:
  template <typename Number>
  void number(Number value) {
    const fmt::format_int text(value);
    out_.append(text.data(), text.size());
  }

  // The shortest digits that give the same number again; `single`: the same float.
  void real(double value, bool single) {
    if (!std::isfinite(value)) {
      out_ += "null";
      return;
    }
    char digits[32];
    const auto end = single ? std::to_chars(digits, digits + sizeof digits, static_cast<float>(value)).ptr
                            : std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }

  void data(capnp::Data::Reader bytes) {
    if (bytes.size() > kShortData && !whole_data_) {
      out_ += fmt::format("{{\"bytes\":{}}}", bytes.size());
      return;
    }
    std::string text = encode_base64(std::as_bytes(std::span(bytes.begin(), bytes.size())));
    std::erase(text, '\n');
    out_ += '"' + text + '"';
  }

  void enumerant(capnp::DynamicEnum value) {
    KJ_IF_MAYBE (known, value.getEnumerant()) {
      out_ += '"';
      out_ += known->getProto().getName().cStr();
      out_ += '"';
    } else {
      number(static_cast<unsigned>(value.getRaw()));
    }
  }

  void list(const DynamicList::Reader& items) {
    const Type element = items.getSchema().getElementType();
    out_ += '[';
    for (unsigned i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ',';
      value(items[i], element);
    }
    out_ += ']';
  }

  void structure(const DynamicStruct::Reader& fields) {
    out_ += '{';
    bool first = true;
    const auto member = [&](const StructSchema::Field& field) {
      if (field.getType().isAnyPointer()) return;
      if (!first) out_ += ',';
      first = false;
      out_ += '"';
      out_ += field.getProto().getName().cStr();
      out_ += "\":";
      value(fields.get(field), field.getType());
    };
    const auto plain = fields.getSchema().getNonUnionFields();  // g++ 14 takes it for a dangling reference in the loop
    for (const auto& field : plain) member(field);
    KJ_IF_MAYBE (active, fields.which()) {
      member(*active);
    }
    out_ += '}';
  }

  std::string& out_;
  bool whole_data_;
};

// One field: the path to it from the event's contents.
struct Column {
  std::string name;
  std::vector<std::variant<StructSchema::Field, unsigned>> steps;
  Type type;
};

std::optional<DynamicValue::Reader> find(DynamicValue::Reader value, const Column& column) {
  for (const auto& step : column.steps) {
    if (const auto* index = std::get_if<unsigned>(&step)) {
      const auto list = value.as<DynamicList>();
      if (*index >= list.size()) return std::nullopt;
      value = list[*index];
      continue;
    }
    const auto& field = std::get<StructSchema::Field>(step);
    const auto fields = value.as<DynamicStruct>();
    if (field.getProto().getDiscriminantValue() != capnp::schema::Field::NO_DISCRIMINANT) {
      bool active = false;
      KJ_IF_MAYBE (set, fields.which()) {
        active = *set == field;
      }
      if (!active) return std::nullopt;
    }
    value = fields.get(field);
  }
  return value;
}

std::vector<std::string> names_of(const StructSchema& schema) {
  std::vector<std::string> names;
  for (const auto& field : schema.getFields()) {
    const std::string name = field.getProto().getName().cStr();
    if (!field.getType().isAnyPointer() && !name.ends_with("DEPRECATED")) names.push_back(name);
  }
  return names;
}

// Parses a path such as "cruiseState.speed", "position.x[0]" or "[2].dat"; `contents`: the type of the kind's contents.
Column parse_path(const std::string& kind, const Type& contents, const std::string& path) {
  Column column{path, {}, contents};
  std::string_view rest = path;
  if (rest.empty()) fail("{}: expected the name of a field, got nothing between two commas or at an end", kind);
  while (!rest.empty()) {
    if (rest[0] == '[') {
      unsigned index = 0;
      const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
      if (error != std::errc() || end == rest.data() + rest.size() || *end != ']') {
        fail("{}: expected an index such as [0] in \"{}\"", kind, path);
      }
      if (!column.type.isList()) fail("{}: what \"{}\" takes an element of is no list", kind, path);
      column.steps.emplace_back(index);
      column.type = column.type.asList().getElementType();
      rest.remove_prefix(static_cast<size_t>(end + 1 - rest.data()));
      continue;
    }
    if (rest[0] == '.' && rest.size() != path.size()) rest.remove_prefix(1);
    const std::string name(rest.substr(0, rest.find_first_of(".[")));
    rest.remove_prefix(name.size());
    if (name.empty()) fail("{}: expected the name of a field behind each dot of \"{}\"", kind, path);
    if (!column.type.isStruct()) fail(R"({}: what "{}" takes the field "{}" of has no fields)", kind, path, name);
    const StructSchema schema = column.type.asStruct();
    KJ_IF_MAYBE (field, schema.findFieldByName(name)) {
      if (field->getType().isAnyPointer()) fail("{}: the field \"{}\" has no schema here", kind, path);
      column.steps.emplace_back(*field);
      column.type = field->getType();
    } else {
      const std::vector<std::string> names = names_of(schema);
      std::string owner = path.substr(0, path.size() - rest.size() - name.size());  // "", "cruiseState.", "[0]."
      if (owner.ends_with('.')) owner.pop_back();
      fail(R"({}{}{} has no field "{}"{}; there are {})", kind, owner.empty() || owner[0] == '[' ? "" : ".", owner,
           name, did_you_mean(name, names), fmt::join(names, ", "));
    }
  }
  return column;
}

// Adds a column for each leaf.
void add_leaves(const Column& at, std::vector<Column>& columns) {
  if (!at.type.isStruct()) {
    columns.push_back(at);
    return;
  }
  for (const auto& field : at.type.asStruct().getFields()) {
    if (field.getType().isAnyPointer()) continue;
    Column inner = at;
    inner.name += (inner.name.empty() ? "" : ".") + std::string(field.getProto().getName().cStr());
    inner.steps.emplace_back(field);
    inner.type = field.getType();
    add_leaves(inner, columns);
  }
}

void append_cell(std::string_view json, std::string& out) {
  out += ',';
  if (json == "null") return;
  const std::string text = json.starts_with('"') ? parse_json(json).get<std::string>() : std::string(json);
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

// The kind of openpilot's on-road events: carEvents, renamed onroadEvents in 2023; since early 2025 a new kind of that
// name numbers the events differently, and the old kind was renamed once more. Either name means both kinds.
constexpr std::string_view kOnroadNames[] = {"carEvents", "onroadEvents"};
constexpr std::string_view kOnroadKinds[] = {"onroadEventsDEPRECATED", "onroadEvents"};

// The kinds of events that `kind` means; empty if there are none.
std::vector<StructSchema::Field> fields_of(const std::string& kind) {
  const bool onroad = std::find(std::begin(kOnroadNames), std::end(kOnroadNames), kind) != std::end(kOnroadNames);
  std::vector<StructSchema::Field> fields;
  const auto kinds_of_events = capnp::Schema::from<cereal::Event>().getUnionFields();
  for (const auto& field : kinds_of_events) {
    const std::string_view name = field.getProto().getName().cStr();
    const bool one =
        onroad && std::find(std::begin(kOnroadKinds), std::end(kOnroadKinds), name) != std::end(kOnroadKinds);
    if (one || kind == name) fields.push_back(field);
  }
  return fields;
}

}  // namespace

struct EventPrinter::Impl {
  Impl(std::string name, PrintOptions given) : kind(std::move(name)), options(std::move(given)) {
    for (const StructSchema::Field& field : fields_of(kind)) sources.push_back({field, columns_of(field.getType())});
    if (sources.empty()) fail("no event is of the kind \"{}\"", kind);
  }

  // The columns; none means JSON with all fields.
  std::vector<Column> columns_of(const Type& type) const {
    if (type.isAnyPointer()) {
      fail("{}: the contents of this kind of event have no schema here, so its fields cannot be printed", kind);
    }
    std::vector<Column> columns;
    for (const std::string& path : options.fields) columns.push_back(parse_path(kind, type, path));
    if (!options.csv || !options.fields.empty()) return columns;
    if (type.isStruct()) add_leaves({"", {}, type}, columns);
    else columns.push_back({kind, {}, type});
    return columns;
  }

  // A kind of event and its columns; all kinds of a printer share the headings.
  struct Source {
    StructSchema::Field field;
    std::vector<Column> columns;
  };

  // The source of an event; null if the event is of another kind.
  const Source* source_of(const cereal::Event::Reader& event) const {
    for (const Source& source : sources) {
      if (static_cast<uint16_t>(event.which()) == source.field.getProto().getDiscriminantValue()) return &source;
    }
    return nullptr;
  }

  void print(const cereal::Event::Reader& event, std::string& out) const {
    const Source* source = source_of(event);
    if (source == nullptr) fail_internal("an event of another kind than {}", kind);
    const auto& [field, columns] = *source;
    const DynamicValue::Reader contents = DynamicStruct::Reader(event).get(field);
    const uint64_t time = event.getLogMonoTime();
    if (options.csv) {
      fmt::format_to(std::back_inserter(out), "{},{}", time, event.getValid());
      for (const Column& column : columns) append_cell(json_of(contents, column), out);
      out += '\n';
      return;
    }
    fmt::format_to(std::back_inserter(out), R"({{"mono_time_ns":{},"valid":{},"{}":)", time, event.getValid(), kind);
    if (columns.empty()) {
      JsonWriter(out, options.whole_data).value(contents, field.getType());
    } else {
      char before = '{';
      for (const Column& column : columns) {
        out += before;
        out += json_string(column.name) + ":" + json_of(contents, column);
        before = ',';
      }
      out += '}';
    }
    out += "}\n";
  }

  std::string json_of(const DynamicValue::Reader& contents, const Column& column) const {
    std::string json = "null";
    if (const auto value = find(contents, column)) {
      json.clear();
      JsonWriter(json, options.whole_data).value(*value, column.type);
    }
    return json;
  }

  std::string kind;
  PrintOptions options;
  std::vector<Source> sources;
};

EventPrinter::EventPrinter(const std::string& kind, PrintOptions options)
    : impl_(std::make_unique<Impl>(kind, std::move(options))) {}
EventPrinter::~EventPrinter() = default;

std::string EventPrinter::heading() const {
  if (!impl_->options.csv) return "";
  std::string line = "mono_time_ns,valid";
  for (const Column& column : impl_->sources[0].columns) {
    // liveParameters has a field with the same name as one of the event's.
    const bool taken = column.name == "valid" || column.name == "mono_time_ns";
    append_cell(json_string(taken ? impl_->kind + "." + column.name : column.name), line);
  }
  return line + "\n";
}

bool EventPrinter::takes(const cereal::Event::Reader& event) const { return impl_->source_of(event) != nullptr; }

bool EventPrinter::print(const cereal::Event::Reader& event, std::string& out) const {
  const size_t before = out.size();
  if (read_fields([&] { impl_->print(event, out); })) return true;
  out.resize(before);
  return false;
}

std::vector<size_t> kinds_named(const std::string& name) {
  std::vector<size_t> kinds;
  for (const StructSchema::Field& field : fields_of(name)) kinds.push_back(field.getProto().getDiscriminantValue());
  return kinds;
}

bool is_kind(const std::string& kind) { return !kinds_named(kind).empty(); }

std::vector<std::string> printable_kinds() {
  std::vector<std::string> kinds;
  const auto kinds_of_events = capnp::Schema::from<cereal::Event>().getUnionFields();
  for (const auto& field : kinds_of_events) {
    if (!field.getType().isAnyPointer()) kinds.emplace_back(field.getProto().getName().cStr());
  }
  return kinds;
}

}  // namespace sparkpilot::drive
