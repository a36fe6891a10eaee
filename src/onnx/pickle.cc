#include "onnx/pickle.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "base/error.h"

namespace sparkpilot {
namespace {

void append_utf8(std::string& out, uint32_t code) {
  if (code >= 0x110000 || (code >= 0xd800 && code < 0xe000)) fail("pickle: {:#x} is no character", code);
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array<uint32_t, 4> kLead{0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[static_cast<size_t>(more)] | (code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f));
}

int64_t parse_decimal(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail("pickle: \"{}\" is no 64-bit integer", text);
  return value;
}

// Protocol 0's strings: Latin-1 with \uXXXX and \UXXXXXXXX.
std::string unescape(std::string_view raw) {
  std::string out;
  for (size_t i = 0; i < raw.size(); ++i) {
    const bool escape = raw[i] == '\\' && i + 1 < raw.size() && (raw[i + 1] == 'u' || raw[i + 1] == 'U');
    if (!escape) {
      append_utf8(out, static_cast<uint8_t>(raw[i]));
      continue;
    }
    const size_t digits = raw[i + 1] == 'u' ? 4 : 8;
    const std::string_view hex = raw.substr(i + 2, digits);
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() != digits || error != std::errc() || end != hex.data() + digits) fail("pickle: bad \\u escape");
    append_utf8(out, code);
    i += 1 + digits;
  }
  return out;
}

}  // namespace

std::string_view name(Pickle::Kind kind) {
  constexpr std::array<std::string_view, 8> kNames{"None", "int", "str", "tuple", "list", "dict", "slice", "class"};
  return kNames[static_cast<size_t>(kind)];
}

// The stack machine that a pickle is a program for.
class Pickle::Machine {
 public:
  Machine(std::vector<Object>& objects, std::span<const std::byte> bytes) : objects_(objects), bytes_(bytes) {}

  Ref run() {
    while (!stopped_) step();
    if (stack_.size() != 1 || !marks_.empty()) fail("pickle: {} objects left at its end, expected 1", stack_.size());
    return stack_[0];
  }

 private:
  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("pickle: cut short at byte {}", at_);
    const auto piece = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return piece;
  }
  uint64_t number(int size) {
    uint64_t value = 0;
    const auto piece = take(static_cast<uint64_t>(size));
    for (int i = size - 1; i >= 0; --i) value = value << 8 | static_cast<uint64_t>(piece[static_cast<size_t>(i)]);
    return value;
  }
  std::string_view characters(uint64_t count) {
    const auto piece = take(count);
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }
  std::string_view line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), std::byte{'\n'});
    if (end == rest.end()) fail("pickle: cut short at byte {}", at_);
    const std::string_view text = characters(static_cast<uint64_t>(end - rest.begin()));
    ++at_;
    return text;
  }
  // Little-endian two's complement of up to eight bytes.
  int64_t long_number(uint64_t size) {
    if (size > 8) fail("pickle: an integer of {} bytes, expected at most 8", size);
    if (size == 0) return 0;
    const uint64_t value = number(static_cast<int>(size));
    const int spare = 64 - 8 * static_cast<int>(size);
    return static_cast<int64_t>(value << spare) >> spare;
  }

  Ref add(Object object) {
    objects_.push_back(std::move(object));
    return static_cast<Ref>(objects_.size() - 1);
  }
  void push(Object object) { stack_.push_back(add(std::move(object))); }
  void push_integer(int64_t value) {
    Object object;
    object.kind = Kind::integer;
    object.integer = value;
    push(std::move(object));
  }
  void push_text(std::string text) {
    Object object;
    object.kind = Kind::text;
    object.text = std::move(text);
    push(std::move(object));
  }
  void push_kind(Kind kind, std::vector<Ref> elements = {}) {
    Object object;
    object.kind = kind;
    object.elements = std::move(elements);
    push(std::move(object));
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Ref pop() {
    if (stack_.size() <= floor()) fail("pickle: nothing left on its stack");
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Ref top() const {
    if (stack_.size() <= floor()) fail("pickle: nothing left on its stack");
    return stack_.back();
  }
  std::vector<Ref> pop_count(size_t count) {
    if (stack_.size() - floor() < count) fail("pickle: nothing left on its stack");
    std::vector<Ref> out(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return out;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("pickle: no mark on its stack");
    std::vector<Ref> out(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }

  Object& container(Kind kind) {
    Object& object = objects_[top()];
    if (object.kind != kind) fail("pickle: a {} where a {} was expected", name(object.kind), name(kind));
    return object;
  }
  void append(const std::vector<Ref>& values) {
    std::vector<Ref>& elements = container(Kind::list).elements;
    elements.insert(elements.end(), values.begin(), values.end());
  }
  void set_items(const std::vector<Ref>& pairs) {
    Object& dict = container(Kind::dict);
    if (pairs.size() % 2 != 0) fail("pickle: a key without a value");
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const Object& key = objects_[pairs[i]];
      if (key.kind != Kind::text) fail("pickle: a {} as a key, expected a str", name(key.kind));
      const auto [place, fresh] = dict.at.try_emplace(key.text, dict.elements.size() + 1);
      if (fresh) dict.elements.insert(dict.elements.end(), {pairs[i], pairs[i + 1]});
      else dict.elements[place->second] = pairs[i + 1];
    }
  }

  void put(uint64_t slot) { memo_[slot] = top(); }
  void get(uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) fail("pickle: slot {} of its memo is empty", slot);
    stack_.push_back(found->second);
  }
  uint64_t slot_line() {
    const int64_t slot = parse_decimal(line());
    if (slot < 0) fail("pickle: slot {} of its memo", slot);
    return static_cast<uint64_t>(slot);
  }

  void push_class(std::string_view module, std::string_view symbol) {
    if ((module != "builtins" && module != "__builtin__") || symbol != "slice") {
      fail("pickle: it asks for {}.{}; only builtins.slice is read", module, symbol);
    }
    push_kind(Kind::slice_class);
  }
  void stack_global() {
    const Ref symbol = pop(), module = pop();
    if (objects_[symbol].kind != Kind::text || objects_[module].kind != Kind::text) fail("pickle: a class has no name");
    push_class(objects_[module].text, objects_[symbol].text);
  }
  // slice(stop), slice(start, stop) or slice(start, stop, step).
  void reduce() {
    const Ref arguments = pop(), callee = pop();
    if (objects_[callee].kind != Kind::slice_class || objects_[arguments].kind != Kind::tuple) {
      fail("pickle: it calls a {}", name(objects_[callee].kind));
    }
    std::vector<Ref> bounds = objects_[arguments].elements;
    if (bounds.empty() || bounds.size() > 3) fail("pickle: a slice of {} bounds", bounds.size());
    for (const Ref bound : bounds) {
      const Kind kind = objects_[bound].kind;
      if (kind != Kind::integer && kind != Kind::none) fail("pickle: a slice bound is a {}", name(kind));
    }
    const Ref none = add({});
    if (bounds.size() == 1) bounds.insert(bounds.begin(), none);
    bounds.resize(3, none);
    push_kind(Kind::slice, std::move(bounds));
  }

  bool step_value(uint8_t code);
  bool step_container(uint8_t code);
  bool step_memo(uint8_t code);
  void step() {
    const auto code = static_cast<uint8_t>(number(1));
    if (step_value(code) || step_container(code) || step_memo(code)) return;
    switch (code) {
      case 0x80: {  // PROTO
        const uint64_t protocol = number(1);
        if (protocol > 5) fail("pickle: protocol {} is newer than 5", protocol);
        return;
      }
      case 0x95: number(8); return;  // FRAME: a hint for buffering
      case '.': stopped_ = true; return;
      case '0': pop(); return;
      case '1': pop_to_mark(); return;
      case '2': stack_.push_back(top()); return;
      case 'c': {  // GLOBAL
        const std::string_view module = line(), symbol = line();
        push_class(module, symbol);
        return;
      }
      case 0x93: stack_global(); return;
      case 'R': reduce(); return;
      default: fail("pickle: opcode {:#04x} at byte {} is not read here", code, at_ - 1);
    }
  }

  std::vector<Object>& objects_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool stopped_ = false;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::unordered_map<uint64_t, Ref> memo_;
};

bool Pickle::Machine::step_value(uint8_t code) {
  switch (code) {
    case 'N': push_kind(Kind::none); return true;
    case 'I': {  // "01" and "00" are the booleans
      const std::string_view digits = line();
      if (digits == "01" || digits == "00") fail("pickle: a bool where an int was expected");
      push_integer(parse_decimal(digits));
      return true;
    }
    case 'J': push_integer(static_cast<int32_t>(number(4))); return true;
    case 'K': push_integer(static_cast<int64_t>(number(1))); return true;
    case 'M': push_integer(static_cast<int64_t>(number(2))); return true;
    case 'L': {
      std::string_view digits = line();
      if (digits.ends_with('L')) digits.remove_suffix(1);
      push_integer(parse_decimal(digits));
      return true;
    }
    case 0x8a: push_integer(long_number(number(1))); return true;
    case 0x8b: push_integer(long_number(number(4))); return true;
    case 'V': push_text(unescape(line())); return true;
    case 'X': push_text(std::string(characters(number(4)))); return true;
    case 0x8c: push_text(std::string(characters(number(1)))); return true;
    case 0x8d: push_text(std::string(characters(number(8)))); return true;
    default: return false;
  }
}

bool Pickle::Machine::step_container(uint8_t code) {
  switch (code) {
    case '(': marks_.push_back(stack_.size()); return true;
    case ')': push_kind(Kind::tuple); return true;
    case 0x85: push_kind(Kind::tuple, pop_count(1)); return true;
    case 0x86: push_kind(Kind::tuple, pop_count(2)); return true;
    case 0x87: push_kind(Kind::tuple, pop_count(3)); return true;
    case 't': push_kind(Kind::tuple, pop_to_mark()); return true;
    case ']': push_kind(Kind::list); return true;
    case 'l': push_kind(Kind::list, pop_to_mark()); return true;
    case 'a': append({pop()}); return true;
    case 'e': append(pop_to_mark()); return true;
    case '}': push_kind(Kind::dict); return true;
    case 'd': {
      const std::vector<Ref> pairs = pop_to_mark();
      push_kind(Kind::dict);
      set_items(pairs);
      return true;
    }
    case 's': set_items(pop_count(2)); return true;
    case 'u': set_items(pop_to_mark()); return true;
    default: return false;
  }
}

bool Pickle::Machine::step_memo(uint8_t code) {
  switch (code) {
    case 'p': put(slot_line()); return true;
    case 'q': put(number(1)); return true;
    case 'r': put(number(4)); return true;
    case 0x94: put(memo_.size()); return true;
    case 'g': get(slot_line()); return true;
    case 'h': get(number(1)); return true;
    case 'j': get(number(4)); return true;
    default: return false;
  }
}

Pickle::Pickle(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxBytes) fail("pickle: {} bytes, expected at most {}", bytes.size(), kMaxBytes);
  root_ = Machine(objects_, bytes).run();
}

int64_t Pickle::integer(Ref ref, std::string_view what) const {
  if (kind(ref) != Kind::integer) fail("{} is a {}, expected an int", what, name(kind(ref)));
  return objects_[ref].integer;
}

const std::string& Pickle::text(Ref ref, std::string_view what) const {
  if (kind(ref) != Kind::text) fail("{} is a {}, expected a str", what, name(kind(ref)));
  return objects_[ref].text;
}

std::span<const Pickle::Ref> Pickle::elements(Ref ref, std::string_view what) const {
  const Kind k = kind(ref);
  if (k != Kind::tuple && k != Kind::list && k != Kind::slice) {
    fail("{} is a {}, expected a tuple, a list or a slice", what, name(k));
  }
  return objects_[ref].elements;
}

std::vector<std::pair<std::string, Pickle::Ref>> Pickle::items(Ref ref, std::string_view what) const {
  if (kind(ref) != Kind::dict) fail("{} is a {}, expected a dict", what, name(kind(ref)));
  std::vector<std::pair<std::string, Ref>> out;
  const std::vector<Ref>& elements = objects_[ref].elements;
  for (size_t i = 0; i + 1 < elements.size(); i += 2) out.emplace_back(objects_[elements[i]].text, elements[i + 1]);
  return out;
}

}  // namespace sparkpilot
