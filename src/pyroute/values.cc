#include "pyroute/values.h"

#include <capnp/schema.h>
#include <kj/exception.h>
#include <pybind11/numpy.h>
#include <route/log/schema/log.capnp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "route/log/reader.h"

namespace sparkpilot::pyroute {
namespace {

using capnp::DynamicEnum;
using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using Field = capnp::StructSchema::Field;

constexpr size_t kWord = sizeof(capnp::word);

// What `read` returns; fails (user) if it meets damage.
template <typename Read>
auto reading(const Read& read) {
  try {
    return read();
  } catch (const kj::Exception& error) {
    const std::string_view why = error.getDescription().cStr();
    fail("the event is damaged: {}", why.substr(0, why.find('\n')));
  }
}

py::str text_of(std::string_view text) {  // what is not UTF-8 is replaced
  PyObject* const made = PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace");
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

py::object enumerant_of(const DynamicEnum& value) {
  KJ_IF_MAYBE (known, value.getEnumerant()) {
    return py::str(known->getProto().getName().cStr());
  }
  return py::int_(value.getRaw());
}

// Whether it can be read: not a member of a union of which another is set, and with a schema here.
bool is_set(const DynamicStruct::Reader& fields, const Field& field) {
  if (field.getProto().getDiscriminantValue() == capnp::schema::Field::NO_DISCRIMINANT) return true;
  KJ_IF_MAYBE (set, fields.which()) {
    return *set == field;
  }
  return false;
}
bool has_schema(const Field& field) { return !field.getType().isAnyPointer(); }

py::object number_of(const DynamicValue::Reader& value) {
  switch (value.getType()) {
    case DynamicValue::BOOL: return py::bool_(value.as<bool>());
    case DynamicValue::INT: return py::int_(value.as<int64_t>());
    case DynamicValue::UINT: return py::int_(value.as<uint64_t>());
    case DynamicValue::FLOAT: return py::float_(value.as<double>());
    default: return py::none();  // Void
  }
}

// A value that is no struct or list.
py::object leaf_of(const DynamicValue::Reader& value) {
  switch (value.getType()) {
    case DynamicValue::TEXT: {
      const auto text = value.as<capnp::Text>();
      return text_of({text.begin(), text.size()});
    }
    case DynamicValue::DATA: {
      const auto data = value.as<capnp::Data>();
      return py::bytes(reinterpret_cast<const char*>(data.begin()), data.size());
    }
    case DynamicValue::ENUM: return enumerant_of(value.as<DynamicEnum>());
    default: return number_of(value);
  }
}

py::object value_of(const Held& message, const DynamicValue::Reader& value) {
  if (value.getType() == DynamicValue::STRUCT) return py::cast(Struct(message, value.as<DynamicStruct>()));
  if (value.getType() == DynamicValue::LIST) return py::cast(List(message, value.as<DynamicList>()));
  return leaf_of(value);
}

// Copies structs and lists. Pointers of a hostile message lead to the same bytes again and again, so that it holds more
// than memory can; an honest one has fewer values than bytes.
class Copy {
 public:
  Copy(const Message& message, bool verbose)
      : left_(static_cast<int64_t>(message.words().size() * kWord * 8 + (1 << 16))), verbose_(verbose) {}

  py::dict of(const DynamicStruct::Reader& fields) {
    py::dict out;
    const auto member = [&](const Field& field) {
      spend(1);
      if (!has_schema(field) || (!verbose_ && !fields.has(field))) return;
      out[field.getProto().getName().cStr()] = of(fields.get(field));
    };
    const auto plain = fields.getSchema().getNonUnionFields();  // g++ 14 takes it for a dangling reference in the loop
    for (const auto& field : plain) member(field);
    KJ_IF_MAYBE (set, fields.which()) {
      member(*set);
    }
    return out;
  }

  py::list of(const DynamicList::Reader& items) {
    spend(items.size());
    py::list out(items.size());
    for (unsigned i = 0; i < items.size(); ++i) out[i] = of(items[i]);
    return out;
  }

 private:
  py::object of(const DynamicValue::Reader& value) {
    switch (value.getType()) {
      case DynamicValue::STRUCT: return of(value.as<DynamicStruct>());
      case DynamicValue::LIST: return of(value.as<DynamicList>());
      case DynamicValue::TEXT: spend(value.as<capnp::Text>().size()); break;
      case DynamicValue::DATA: spend(value.as<capnp::Data>().size()); break;
      default: break;
    }
    return leaf_of(value);
  }

  void spend(size_t values) {
    left_ -= static_cast<int64_t>(values);
    if (left_ < 0) fail("the event is damaged: it holds more values than it has bytes for");
  }

  int64_t left_;
  bool verbose_;
};

template <typename T>
py::object array_of(const DynamicList::Reader& items) {
  const auto numbers = items.as<capnp::List<T>>();
  // By a shape: of a count pybind11 before 2.12 reads an element's size where NumPy 2 no longer has it, and strides are
  // 0.
  py::array_t<T> out(std::vector<py::ssize_t>{static_cast<py::ssize_t>(numbers.size())});
  for (unsigned i = 0; i < numbers.size(); ++i) out.mutable_data()[i] = numbers[i];
  return out;
}

// How many elements of that type fit in a word: at least one bit each, and structs and pointers at least a word.
size_t elements_in_word(const capnp::Type& type) {
  if (type.isBool()) return kWord * 8;
  return type.isStruct() || type.isVoid() ? 1 : kWord;
}

}  // namespace

Message::Message(std::span<const std::byte> bytes) : words_(kj::heapArray<capnp::word>(bytes.size() / kWord)) {
  std::memcpy(words_.begin(), bytes.data(), words_.size() * kWord);
  reading([&] {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = std::numeric_limits<uint64_t>::max();
    reader_ = std::make_unique<capnp::FlatArrayMessageReader>(words_, options);
  });
}

DynamicStruct::Reader Message::root() {
  return reading([&] { return DynamicStruct::Reader(reader_->getRoot<cereal::Event>()); });
}

py::object Struct::get(const std::string& name) const {
  return reading([&] {
    KJ_IF_MAYBE (field, fields_.getSchema().findFieldByName(name.c_str())) {
      if (!has_schema(*field)) throw py::attribute_error(fmt::format("{}.{} has no schema here", type(), name));
      if (is_set(fields_, *field)) return value_of(message_, fields_.get(*field));
      throw py::attribute_error(fmt::format("{}.{} is not set, {} is", type(), name, set_member()));
    }
    throw py::attribute_error(fmt::format("{} has no field {}", type(), name));
  });
}

std::string Struct::which() const {
  if (fields_.getSchema().getUnionFields().size() == 0) fail("{} has no union", type());
  return reading([&] { return set_member(); });
}

std::string Struct::set_member() const {
  KJ_IF_MAYBE (set, fields_.which()) {
    return set->getProto().getName().cStr();
  }
  return is_event() ? drive::event_kind(fields_.as<cereal::Event>()) : "unknown";
}

bool Struct::is_event() const { return fields_.getSchema() == capnp::Schema::from<cereal::Event>(); }

py::dict Struct::to_dict(bool verbose) const {
  return reading([&] { return Copy(*message_, verbose).of(fields_); });
}

py::bytes Struct::to_bytes() const {
  if (!is_event()) fail("{} is a part of an event: only events are messages of their own", type());
  const auto bytes = message_->words().asBytes();
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

py::list Struct::names() const {
  py::list out;
  for (const auto& field : fields_.getSchema().getFields()) {
    if (has_schema(field) && is_set(fields_, field)) out.append(field.getProto().getName().cStr());
  }
  return out;
}

std::string Struct::type() const {
  const std::string_view name = fields_.getSchema().getShortDisplayName().cStr();
  return std::string(name.substr(name.rfind('.') + 1));
}

List::List(Held message, DynamicList::Reader items) : message_(std::move(message)), items_(items) {
  if (items_.size() > message_->words().size() * elements_in_word(items_.getSchema().getElementType())) {
    fail("the event is damaged: a list of {} elements in {} bytes", items_.size(), message_->words().size() * kWord);
  }
}

py::object List::at(py::ssize_t index) const {
  const auto count = static_cast<py::ssize_t>(size());
  if (index < -count || index >= count) throw py::index_error(fmt::format("index {} of {} elements", index, count));
  const auto place = static_cast<unsigned>(index < 0 ? index + count : index);
  return reading([&] { return value_of(message_, items_[place]); });
}

py::list List::to_list(bool verbose) const {
  return reading([&] { return Copy(*message_, verbose).of(items_); });
}

py::object List::array() const {
  return reading([&]() -> py::object {
    switch (items_.getSchema().getElementType().which()) {
      case capnp::schema::Type::BOOL: return array_of<bool>(items_);
      case capnp::schema::Type::INT8: return array_of<int8_t>(items_);
      case capnp::schema::Type::INT16: return array_of<int16_t>(items_);
      case capnp::schema::Type::INT32: return array_of<int32_t>(items_);
      case capnp::schema::Type::INT64: return array_of<int64_t>(items_);
      case capnp::schema::Type::UINT8: return array_of<uint8_t>(items_);
      case capnp::schema::Type::UINT16: return array_of<uint16_t>(items_);
      case capnp::schema::Type::UINT32: return array_of<uint32_t>(items_);
      case capnp::schema::Type::UINT64: return array_of<uint64_t>(items_);
      case capnp::schema::Type::FLOAT32: return array_of<float>(items_);
      case capnp::schema::Type::FLOAT64: return array_of<double>(items_);
      default: throw py::type_error("a list of this type has no array: list(...) has its elements");
    }
  });
}

void bind_values(py::module_& module) {
  py::class_<Struct> fields(
      module, "Struct",
      "A struct of an event: its fields are attributes.\n\n"
      "Raises AttributeError for a field that does not exist, has no schema in sparkpilot, or is a member "
      "of a union of which\nanother is set; InputError where the bytes are damaged.");
  python::made_here_alone(fields);
  fields.def("__getattr__", &Struct::get)
      .def("which", &Struct::which,
           "The member of the union that is set; of an event its kind, \"unknown(151)\" for one that sparkpilot's "
           "schema does not\nhave, with openpilot's ordinal.")
      .def("to_dict", &Struct::to_dict, py::arg("verbose") = false,
           "The struct as dicts, lists, numbers, str and bytes. Fields without a schema are left out; unless verbose, "
           "so are\nlists, texts and structs that were never written.")
      .def("to_bytes", &Struct::to_bytes,
           "Of an event: its message as in an uncompressed log; those of several, one after the other, are a log.")
      .def("__dir__",
           [](const Struct& self) {
             py::list names = self.names();
             for (const char* const own : {"which", "to_dict", "to_bytes"}) names.append(own);
             return names;
           })
      .def("__str__", [](const Struct& self) { return py::str(self.to_dict(false)); })
      .def("__repr__", [](const Struct& self) { return fmt::format("<sparkpilot.logs.Struct {}>", self.type()); });
  py::class_<List> list(module, "List",
                        "A list of an event: len, indices, slices; numpy.asarray() takes one of numbers at once.");
  python::made_here_alone(list);
  list.def("__iter__",
           [](const py::object& self) { return py::reinterpret_steal<py::object>(PySeqIter_New(self.ptr())); })
      .def("__len__", &List::size)
      .def("__getitem__", &List::at)
      .def("__getitem__",
           [](const List& self, const py::slice& part) {
             size_t start = 0, stop = 0, step = 0, count = 0;
             if (!part.compute(self.size(), &start, &stop, &step, &count)) throw py::error_already_set();
             py::list out(count);
             for (size_t i = 0; i < count; ++i) out[i] = self.at(static_cast<py::ssize_t>(start + i * step));
             return out;
           })
      .def("to_list", &List::to_list, py::arg("verbose") = false,
           "The list with its structs as Struct.to_dict() makes them.")
      .def(
          "__array__",
          [](const List& self, const py::object& dtype, const py::object& copy) {
            if (copy.is(py::bool_(false))) throw py::value_error("a list of a log becomes an array by a copy only");
            const py::object made = self.array();
            return dtype.is_none() ? made : py::object(made.attr("astype")(dtype));
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("__str__", [](const List& self) { return py::str(self.to_list(false)); })
      .def("__repr__", [](const List& self) { return fmt::format("<sparkpilot.logs.List of {}>", self.size()); });
}

}  // namespace sparkpilot::pyroute
