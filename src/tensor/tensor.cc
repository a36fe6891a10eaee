#include "tensor/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/parallel.h"
#include "tensor/huge_pages.h"

namespace sparkpilot {
namespace {

constexpr int64_t kHugePage = HugePages::kPage;
constexpr int64_t kShared = int64_t{16} << 10;  // buffers from this size on share huge pages
// Not under the address sanitizer, which then finds what is written beyond the end of a buffer.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kShares = false;
#elif defined(__has_feature)
constexpr bool kShares = !__has_feature(address_sanitizer);
#else
constexpr bool kShares = true;
#endif

}  // namespace

int64_t physical_memory() {
  static const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return bytes;
}

std::string_view name(Place place) {
  switch (place) {
    case Place::host: return "host";
    case Place::pinned: return "pinned";
    case Place::device: return "device";
    case Place::unified: return "unified";
  }
  return "";
}

Buffer::Buffer(Place place, std::byte* data, int64_t bytes, std::function<void()> release)
    : data_(data), size_(bytes), place_(place), release_(std::move(release)) {}

Buffer::Buffer(int64_t bytes) : size_(bytes) {
  if (bytes < 0 || bytes > physical_memory()) {
    fail("{} bytes of memory wanted, the machine has {}", bytes, physical_memory());
  }
  // Weights and arenas are read from front to back in every run: huge pages avoid most of the TLB misses.
  const bool large = bytes >= 2 * kHugePage, shares = kShares && !large && bytes >= kShared;
  const int64_t unit = large ? kHugePage : static_cast<int64_t>(kAlignment);
  const int64_t reserved = (bytes + static_cast<int64_t>(kAlignment) + unit - 1) / unit * unit;
  data_ = shares
              ? HugePages::shared().allocate(reserved)
              : static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(unit), static_cast<size_t>(reserved)));
  if (!data_) fail("out of memory: {} bytes wanted", bytes);
  if (shares) release_ = [data = data_] { HugePages::shared().free(data); };
  else release_ = [data = data_] { std::free(data); };
  if (large) ::madvise(data_, static_cast<size_t>(reserved), MADV_HUGEPAGE);
  std::memset(data_ + bytes, 0, static_cast<size_t>(std::min<int64_t>(reserved - bytes, kAlignment)));
}

namespace detail {
void fail_dtype(std::string_view what, DType has, DType asked) {
  fail("{} is {}, it was asked for as {}", what, name(has), name(asked));
}
void fail_place(Place place) { fail_internal("the processor cannot reach {} memory", name(place)); }
void fail_count(size_t values, const Shape& shape) { fail("{} values given for shape {}", values, shape.str()); }
}  // namespace detail

Buffer::~Buffer() {
  if (release_) release_();
}

Tensor::Tensor(DType dtype, const Shape& shape)
    : Tensor(dtype, shape, std::make_shared<Buffer>(storage_bytes(dtype, shape.elements())), 0) {
  if (bits(dtype) < 8 && bytes() > 0) static_cast<std::byte*>(data_)[bytes() - 1] = std::byte{0};
}

Tensor::Tensor(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer, int64_t offset)
    : dtype_(dtype), shape_(shape), buffer_(std::move(buffer)), data_(buffer_->data() + offset) {
  if (offset < 0 || offset + bytes() > buffer_->size()) {
    fail_internal("tensor of {} bytes at {} outside its buffer of {}", bytes(), offset, buffer_->size());
  }
}

Tensor Tensor::zeros(DType dtype, const Shape& shape) {
  Tensor out(dtype, shape);
  std::memset(out.raw(), 0, static_cast<size_t>(out.bytes()));
  return out;
}

std::vector<int64_t> Tensor::to_ints() const {
  if (dtype_ == DType::i64) {
    const auto values = data<int64_t>();
    return {values.begin(), values.end()};
  }
  if (dtype_ == DType::i32) {
    const auto values = data<int32_t>();
    return {values.begin(), values.end()};
  }
  fail("expected a tensor of i64 or i32, got {}", name(dtype_));
}

double Tensor::to_scalar() const {
  if (elements() != 1) fail("expected one element, got shape {}", shape_.str());
  if (!host_reaches(place())) detail::fail_place(place());
  return load_element(dtype_, data_, 0);
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.elements() != elements()) fail("cannot reshape {} to {}", shape_.str(), shape.str());
  Tensor out = *this;
  out.shape_ = shape;
  return out;
}

Tensor Tensor::clone() const {
  if (!host_reaches(place())) detail::fail_place(place());
  Tensor out(dtype_, shape_);
  std::memcpy(out.raw(), data_, static_cast<size_t>(bytes()));
  return out;
}

Tensor convert(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  if (!host_reaches(tensor.place())) detail::fail_place(tensor.place());
  Tensor out(dtype, tensor.shape());
  const int64_t count = tensor.elements();
  const bool plain = contains(AllTypes{}, tensor.dtype()) && contains(AllTypes{}, dtype);
  if (!plain) {
    std::memset(out.raw(), 0, static_cast<size_t>(out.bytes()));
    for (int64_t i = 0; i < count; ++i) {
      store_element(dtype, out.raw(), i, load_element(tensor.dtype(), tensor.raw(), i));
    }
    return out;
  }
  dispatch(AllTypes{}, tensor.dtype(), [&]<typename From>() {
    dispatch(AllTypes{}, dtype, [&]<typename To>() {
      const From* in = tensor.data<From>().data();
      To* to = out.data<To>().data();
      parallel_for(count, 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if constexpr (std::is_same_v<To, bool>) to[i] = static_cast<Compute<From>>(in[i]) != Compute<From>{};
          else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>)
            to[i] = To(static_cast<float>(in[i]));
          else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<Compute<From>>)
            store_element(dtype_of<To>(), to, i, static_cast<double>(in[i]));
          else to[i] = static_cast<To>(in[i]);
        }
      });
    });
  });
  return out;
}

}  // namespace sparkpilot
