#include "tensor/npy.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace sparkpilot {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeader = 1 << 16;  // the longest header of eight dimensions has under 300 bytes

// The contents of the header.
struct Header {
  DType dtype = DType::none;
  Shape shape;
  bool big_endian = false, fortran = false;
  int64_t data_at = 0;
};

// The type of a code such as "<f4".
std::optional<DType> dtype_of_code(std::string_view code) {
  constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"b1", DType::boolean}, {"i1", DType::i8},  {"u1", DType::u8},  {"i2", DType::i16},
      {"u2", DType::u16},     {"i4", DType::i32}, {"u4", DType::u32}, {"i8", DType::i64},
      {"u8", DType::u64},     {"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}};
  for (const auto& [known, dtype] : kCodes) {
    if (known == code) return dtype;
  }
  return std::nullopt;
}

std::string_view code_of(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "|b1";
    case DType::i8: return "|i1";
    case DType::u8: return "|u1";
    case DType::i16: return "<i2";
    case DType::u16: return "<u2";
    case DType::i32: return "<i4";
    case DType::u32: return "<u4";
    case DType::i64: return "<i8";
    case DType::u64: return "<u8";
    case DType::f16: return "<f2";
    case DType::f32: return "<f4";
    case DType::f64: return "<f8";
    default: return {};
  }
}

// Reads the header's Python dictionary: 'descr' a string, 'fortran_order' a boolean, 'shape' a tuple of integers, in
// any order, each once. No other Python is accepted.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !seen_[0]) take_descr();
      else if (key == "fortran_order" && !seen_[1]) take_order();
      else if (key == "shape" && !seen_[2]) take_shape();
      else fail("its header has an unexpected key '{}'", key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("its header goes on behind the dictionary");
    if (!seen_[0] || !seen_[1] || !seen_[2]) fail("its header lacks descr, fortran_order or shape");
    return header_;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("its header has no '{}' at byte {}", c, at_);
  }
  std::string_view quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("its header has no string at byte {}", at_);
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("its header has a string without end");
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void take_descr() {
    seen_[0] = true;
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') fail("it holds records; plain numbers are expected");
    const std::string_view descr = quoted();
    const std::optional<DType> dtype = descr.empty() ? std::nullopt : dtype_of_code(descr.substr(1));
    if (!dtype || !std::strchr("<>|=", descr[0])) {
      fail("its element type '{}' is not supported; booleans, integers and floats of 16 to 64 bits are", descr);
    }
    header_.dtype = *dtype;
    header_.big_endian = descr[0] == '>';
  }
  void take_order() {
    seen_[1] = true;
    header_.fortran = accept_word("True");
    if (!header_.fortran && !accept_word("False")) fail("its fortran_order is neither True nor False");
  }
  void take_shape() {
    seen_[2] = true;
    expect('(');
    std::vector<int64_t> dims;
    while (!accept(')')) {
      dims.push_back(number());
      if (dims.size() > Shape::kMaxRank) fail("it has more than {} dimensions", Shape::kMaxRank);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    header_.shape = Shape(std::span<const int64_t>(dims));
  }
  int64_t number() {
    skip_space();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
      if (at_ - begin >= 18) fail("it has a dimension of more than 18 digits");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == begin) fail("its header has no number at byte {}", at_);
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool seen_[3] = {};
  Header header_;
};

using Reader = std::function<void(int64_t offset, std::span<std::byte> out)>;

Header read_header(int64_t size, const Reader& read) {
  unsigned char start[12] = {};
  if (size < 10) fail("it is too short for a .npy file: {} bytes", size);
  read(0, std::as_writable_bytes(std::span(start).first(static_cast<size_t>(std::min<int64_t>(size, 12)))));
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) fail("it is no .npy file");
  const int version = start[6];
  if (version < 1 || version > 3) fail(".npy version {} is not supported; 1 to 3 are", version);
  const int64_t begin = version == 1 ? 10 : 12;
  int64_t length = start[8] | start[9] << 8;
  if (version > 1) length |= static_cast<int64_t>(start[10]) << 16 | static_cast<int64_t>(start[11]) << 24;
  if (length > kMaxHeader) fail("its header has {} bytes; at most {} are expected", length, kMaxHeader);
  if (begin + length > size) fail("its header is cut off");
  std::string text(static_cast<size_t>(length), '\0');
  read(begin, std::as_writable_bytes(std::span(text)));
  Header header = HeaderParser(text).parse();
  header.data_at = begin + length;
  const int64_t expected = storage_bytes(header.dtype, header.shape.elements());
  if (size - header.data_at != expected) {
    fail("shape {} of {} needs {} bytes of data, the file has {}", header.shape.str(), name(header.dtype), expected,
         size - header.data_at);
  }
  return header;
}

void swap_bytes(const Tensor& tensor) {
  const size_t size = static_cast<size_t>(bits(tensor.dtype())) / 8;
  auto* data = static_cast<std::byte*>(tensor.raw());
  for (int64_t i = 0; i < tensor.elements(); ++i, data += size) std::reverse(data, data + size);
}

// A file in Fortran order holds the transposed array.
Tensor from_fortran(const Tensor& file, const Shape& shape) {
  Tensor out(file.dtype(), shape);
  dispatch_size(file.dtype(), [&]<typename T>() {
    const auto* from = static_cast<const T*>(file.raw());
    auto* to = static_cast<T*>(out.raw());
    std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
    const auto strides = shape.strides();
    int64_t at = 0;
    for (int64_t i = 0; i < file.elements(); ++i) {
      to[at] = from[i];
      for (size_t axis = 0; axis < index.size(); ++axis) {  // the first axis runs fastest
        at += strides[axis];
        if (++index[axis] < shape[static_cast<int>(axis)]) break;
        at -= index[axis] * strides[axis];
        index[axis] = 0;
      }
    }
  });
  return out;
}

Tensor read_array(int64_t size, const Reader& read) {
  const Header header = read_header(size, read);
  Tensor tensor(header.dtype, header.shape);
  read(header.data_at, {static_cast<std::byte*>(tensor.raw()), static_cast<size_t>(tensor.bytes())});
  if (header.big_endian) swap_bytes(tensor);
  if (header.dtype == DType::boolean) {  // any byte other than 0 and 1 would be undefined as a bool
    auto* bytes = static_cast<uint8_t*>(tensor.raw());
    std::transform(bytes, bytes + tensor.bytes(), bytes, [](uint8_t b) { return static_cast<uint8_t>(b != 0); });
  }
  return header.fortran && header.shape.rank() > 1 ? from_fortran(tensor, header.shape) : tensor;
}

// The array converted to a type that NumPy has.
Tensor as_numpy(const ConstView& array) {
  const DType target = is_float(array.dtype) ? DType::f32 : is_signed(array.dtype) ? DType::i8 : DType::u8;
  Tensor out(target, array.shape);
  for (int64_t i = 0; i < array.elements(); ++i) {
    store_element(target, out.raw(), i, load_element(array.dtype, array.data, i));
  }
  return out;
}

}  // namespace

std::string npy_header(DType dtype, const Shape& shape) {
  const std::string_view code = code_of(dtype);
  if (code.empty()) fail_internal("npy: NumPy has no type for {}", name(dtype));
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", code);
  for (const int64_t dim : shape) text += fmt::format("{},{}", dim, shape.rank() == 1 ? "" : " ");
  if (shape.rank() > 1) text.resize(text.size() - 2);
  text += "), }";
  // The data begins at a multiple of 64 bytes.
  const size_t total = (10 + text.size() + 1 + 63) / 64 * 64;
  text.append(total - 10 - text.size() - 1, ' ').append("\n");
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return out + text;
}

Tensor load_npy(const std::filesystem::path& path) {
  const InputFile file(path);
  try {
    return read_array(file.size(), [&](int64_t offset, std::span<std::byte> out) { file.read_at(offset, out); });
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find(path.string()) != std::string::npos) throw;
    throw Error(error.kind(), fmt::format("{}: {}", path.string(), text));
  }
}

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  try {
    return read_array(static_cast<int64_t>(bytes.size()), [&](int64_t offset, std::span<std::byte> out) {
      if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
    });
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", name, error.what()));
  }
}

void save_npy(const std::filesystem::path& path, const ConstView& array) {
  Tensor converted;
  ConstView data = array;
  if (code_of(array.dtype).empty()) {
    converted = as_numpy(array);
    data = converted.view();
  }
  AtomicFile file(path);
  file.write(npy_header(data.dtype, data.shape));
  file.write(data.data, static_cast<size_t>(data.bytes()));
  file.commit();
}

}  // namespace sparkpilot
