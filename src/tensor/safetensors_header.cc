#include "tensor/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"

namespace sparkpilot {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"BOOL", DType::boolean}, {"U8", DType::u8},          {"I8", DType::i8},          {"U16", DType::u16},
    {"I16", DType::i16},      {"U32", DType::u32},        {"I32", DType::i32},        {"U64", DType::u64},
    {"I64", DType::i64},      {"F16", DType::f16},        {"F32", DType::f32},        {"F64", DType::f64},
    {"BF16", DType::bf16},    {"F8_E5M2", DType::f8e5m2}, {"F8_E8M0", DType::f8e8m0}, {"F8_E4M3", DType::f8e4m3fn},
};

DType type_of(const std::string& code, const std::string& tensor) {
  for (const auto& [known, dtype] : kTypes) {
    if (known == code) return dtype;
  }
  fail("tensor \"{}\": its type \"{}\" is not supported", tensor, code);
}

std::string_view code_of(DType dtype) {
  for (const auto& [code, known] : kTypes) {
    if (known == dtype) return code;
  }
  fail("a safetensors file has no type for {}", name(dtype));
}

// Takes the events of nlohmann's parser, so that names are seen twice where they are there twice and no tree of
// somebody else's depth is built.
class HeaderEvents : public nlohmann::json_sax<json> {
 public:
  SafetensorsHeader header;

  bool key(string_t& key) override {
    if (depth_ == 1) {
      if (!names_.insert(key).second) fail("its header has \"{}\" twice", key);
      tensor_ = key;
    } else if (in_metadata()) {
      if (header.metadata.contains(key)) fail("its metadata has \"{}\" twice", key);
      field_ = key;
    } else {
      take_field(key);
    }
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata()) {
      header.metadata.emplace(field_, value);
    } else if (depth_ == 2 && field_ == "dtype") {
      dtype_ = type_of(value, tensor_);
    } else {
      unexpected("a string");
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) unexpected("a number above 2^63");
    std::vector<int64_t>& list = field_ == "shape" ? shape_ : offsets_;
    if (list.size() > Shape::kMaxRank) fail("tensor \"{}\": {} has too many numbers", tensor_, field_);
    list.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 2 || in_array_) unexpected("an object");
    ++depth_;
    if (depth_ == 2) {
      seen_.clear();
      shape_.clear();
      offsets_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata()) finish_tensor();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_array_ || in_metadata() || field_ == "dtype") unexpected("a list");
    in_array_ = true;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }
  bool binary(binary_t&) override { unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("its header is no JSON: error at byte {} of it", position);
  }

 private:
  bool in_metadata() const { return tensor_ == kMetadata; }

  [[noreturn]] void unexpected(std::string_view what) const {
    if (depth_ == 0) fail("its header is {}, expected an object", what);
    if (depth_ == 1) fail("\"{}\" is {} in its header, expected an object", tensor_, what);
    fail("tensor \"{}\": {} is {}", tensor_, field_, what);
  }
  void take_field(const std::string& key) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail("tensor \"{}\": \"{}\" is not expected; dtype, shape and data_offsets are", tensor_, key);
    }
    if (!seen_.insert(key).second) fail("tensor \"{}\": {} is there twice", tensor_, key);
    field_ = key;
  }
  void finish_tensor() {
    if (seen_.size() != 3) fail("tensor \"{}\" lacks dtype, shape or data_offsets", tensor_);
    if (offsets_.size() != 2) fail("tensor \"{}\": {} data_offsets, expected 2", tensor_, offsets_.size());
    const int64_t begin = offsets_[0], end = offsets_[1];
    Shape shape;
    try {
      shape = Shape(std::span<const int64_t>(shape_));
    } catch (const Error& error) {
      fail("tensor \"{}\": {}", tensor_, error.what());
    }
    const int64_t expected = storage_bytes(dtype_, shape.elements());
    if (end < begin || end - begin != expected) {
      fail("tensor \"{}\": shape {} of {} needs {} bytes, its data_offsets are {} and {}", tensor_, shape.str(),
           name(dtype_), expected, begin, end);
    }
    header.entries.push_back({tensor_, dtype_, shape, begin});
  }

  int depth_ = 0;  // 1: of the header, 2: of a tensor or the metadata
  bool in_array_ = false;
  std::string tensor_, field_;
  std::set<std::string> names_, seen_;
  DType dtype_ = DType::none;
  std::vector<int64_t> shape_, offsets_;
};

std::string quoted(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    fail("a safetensors file holds UTF-8 only, not \"{}\"", one_line(text));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes) {
  if (text.empty() || text[0] != '{') fail("its header does not begin with '{{'");
  HeaderEvents events;
  json::sax_parse(text.begin(), text.end(), &events);
  SafetensorsHeader header = std::move(events.header);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.bytes()) < std::pair(b.offset, b.bytes());
  });
  int64_t at = 0;
  for (const auto& entry : header.entries) {
    if (entry.offset != at) {
      fail("tensor \"{}\" begins at byte {} of the data, expected {}: a gap or an overlap", entry.name, entry.offset,
           at);
    }
    if (entry.bytes() > data_bytes - at) {
      fail("tensor \"{}\" ends at byte {} of the data, the file has {}", entry.name, at + entry.bytes(), data_bytes);
    }
    at += entry.bytes();
  }
  if (at != data_bytes) fail("its tensors have {} bytes, the file has {} after the header", at, data_bytes);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header, int64_t at_least) {
  std::string text = "{";
  std::set<std::string_view> names = {kMetadata};
  const auto separate = [&] { text += text.size() > 1 ? "," : ""; };
  if (!header.metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadata);
    for (const auto& [key, value] : header.metadata) text += fmt::format("{}:{},", quoted(key), quoted(value));
    text.back() = '}';
  }
  for (const auto& entry : header.entries) {
    if (!names.insert(entry.name).second) fail("tensor \"{}\" cannot be written: its name is taken", entry.name);
    separate();
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", quoted(entry.name),
                        code_of(entry.dtype), entry.shape.str(), entry.offset, entry.offset + entry.bytes());
  }
  text += "}";
  const size_t length =
      std::max((text.size() + 7) / 8 * 8, static_cast<size_t>(std::max<int64_t>(at_least - kSafetensorsLength, 0)));
  if (length > kMaxSafetensorsHeader) {
    fail("the header has {} bytes, a safetensors file may have {}", length, kMaxSafetensorsHeader);
  }
  text.resize(length, ' ');
  std::string out;
  for (int i = 0; i < kSafetensorsLength; ++i) out += static_cast<char>(length >> (8 * i) & 0xff);
  return out + text;
}

std::vector<size_t> safetensors_order(const std::vector<DType>& dtypes) {
  std::vector<size_t> order(dtypes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bits(dtypes[a]) > bits(dtypes[b]); });
  return order;
}

}  // namespace sparkpilot
