// Events as Python sees them: structs and lists are read where they lie in an event's message, which they keep. Nothing
// is copied but what is asked for.
#pragma once

#include <capnp/dynamic.h>
#include <capnp/serialize.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "pyroute/module.h"

namespace sparkpilot::pyroute {

// A message in separate memory. Python reads the same field as often as it likes, so that following pointers is not
// counted; what walks through a whole struct counts for itself.
class Message {
 public:
  // Fails (user) if the bytes are no message.
  explicit Message(std::span<const std::byte> bytes);
  capnp::DynamicStruct::Reader root();
  kj::ArrayPtr<const capnp::word> words() const { return words_; }

 private:
  kj::Array<capnp::word> words_;
  std::unique_ptr<capnp::FlatArrayMessageReader> reader_;
};
using Held = std::shared_ptr<Message>;

// sparkpilot.logs.Struct. Every function fails (user) where the bytes are damaged.
class Struct {
 public:
  Struct(Held message, capnp::DynamicStruct::Reader fields) : message_(std::move(message)), fields_(fields) {}
  // A field, or the member of the union that is set. Raises AttributeError for a name without a schema, and for a
  // member that is not set.
  py::object get(const std::string& name) const;
  // The name of the union's member that is set; "unknown" if it has no schema here, of an event "unknown(151)". Fails
  // (user) if there is no union.
  std::string which() const;
  py::dict to_dict(bool verbose) const;
  // The message, with its table of segments: of an event, as it is in an uncompressed log. Fails (user) for another.
  py::bytes to_bytes() const;
  py::list names() const;
  std::string type() const;

 private:
  std::string set_member() const;
  bool is_event() const;

  Held message_;
  capnp::DynamicStruct::Reader fields_;
};

// sparkpilot.logs.List.
class List {
 public:
  // Fails (user) if the list claims more elements than its message can hold: some take no bytes.
  List(Held message, capnp::DynamicList::Reader items);
  size_t size() const { return items_.size(); }
  py::object at(py::ssize_t index) const;
  py::list to_list(bool verbose) const;
  // A NumPy array of a list of numbers; raises TypeError for another.
  py::object array() const;

 private:
  Held message_;
  capnp::DynamicList::Reader items_;
};

}  // namespace sparkpilot::pyroute
