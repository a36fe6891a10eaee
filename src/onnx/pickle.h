// A restricted reader of Python pickles, protocols 0 to 5: dictionaries, strings, integers, None, tuples, lists and
// slices, nothing else. It is a reader, not an interpreter: no name but `slice` is looked up and nothing is called.
//
// Objects are in one table and refer to each other by number, so shared and cyclic ones (which a hostile pickle can
// make exponentially large as a tree) cost no more than their bytes. Private to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

class Pickle {
 public:
  using Ref = uint32_t;
  enum class Kind : uint8_t { none, integer, text, tuple, list, dict, slice, slice_class };
  static constexpr size_t kMaxBytes = 1 << 18;

  // Fails (user) on anything but a complete pickle of the kinds above, naming the opcode or the error.
  explicit Pickle(std::span<const std::byte> bytes);

  Ref root() const { return root_; }
  Kind kind(Ref ref) const { return objects_[ref].kind; }
  // Each fails (user) if the object is of another kind; `what` names it in the message.
  int64_t integer(Ref ref, std::string_view what) const;
  const std::string& text(Ref ref, std::string_view what) const;
  // Elements of a tuple or list; start, stop and step of a slice.
  std::span<const Ref> elements(Ref ref, std::string_view what) const;
  // Keys and values, in the order of insertion; keys are strings and unique.
  std::vector<std::pair<std::string, Ref>> items(Ref ref, std::string_view what) const;

 private:
  struct Object {
    Kind kind = Kind::none;
    int64_t integer = 0;
    std::string text;
    std::vector<Ref> elements;                      // a dictionary's: key, value, key, value
    std::map<std::string, size_t, std::less<>> at;  // dictionary: place of the value by key
  };
  class Machine;

  std::vector<Object> objects_;
  Ref root_ = 0;
};

std::string_view name(Pickle::Kind kind);

}  // namespace sparkpilot
