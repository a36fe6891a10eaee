// Col2Im: sums overlapping blocks, each placed where it was taken from an image with any number of axes.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::col2im_ops {
namespace {

struct Axis {
  int64_t image = 1, block = 1, stride = 1, dilation = 1, begin = 0;
  int64_t places = 1;  // positions of the block along the axis
};
constexpr int kMaxAxes = Shape::kMaxRank - 2;

struct State final : KernelState {
  std::array<Axis, kMaxAxes> axes{};  // stride, dilation and begin; the sizes are operands
};

int64_t place_count(const Axis& axis, int64_t end) {
  const auto sane = [](int64_t value, int64_t least) { return value >= least && value <= Shape::kMaxElements; };
  if (!sane(axis.image, 0) || !sane(axis.block, 1) || !sane(axis.stride, 1) || !sane(axis.dilation, 1) ||
      !sane(axis.begin, 0) || !sane(end, 0)) {
    fail("image {}, block {}, stride {}, dilation {}, pads {} and {} make no sense", axis.image, axis.block,
         axis.stride, axis.dilation, axis.begin, end);
  }
  int64_t reach = 0;
  if (__builtin_mul_overflow(axis.dilation, axis.block - 1, &reach)) fail("a block of {} is too large", axis.block);
  const int64_t room = axis.image + axis.begin + end - reach - 1;
  if (room < 0)
    fail("a block reaching over {} does not fit the padded image of {}", reach + 1, axis.image + axis.begin + end);
  return room / axis.stride + 1;
}

// The attributes of axis i of n.
Axis attributes_of(const Attributes& attrs, size_t i, size_t n, int64_t* end) {
  const auto list = [&](std::string_view key, size_t count, int64_t fallback) {
    std::vector<int64_t> values = attrs.integers(key, std::vector<int64_t>(count, fallback));
    if (values.size() != count) fail("{} has {} entries, expected {}", key, values.size(), count);
    return values;
  };
  const std::vector<int64_t> pads = list("pads", 2 * n, 0);
  *end = pads[n + i];
  return {.stride = list("strides", n, 1)[i], .dilation = list("dilations", n, 1)[i], .begin = pads[i]};
}

void infer(InferContext& c) {
  const Shape& in = c.shape(0);
  if (in.rank() != 3) fail("input has shape {}, expected [N, C blocks, L]", in.str());
  const std::vector<int64_t> image = list_operand(c, 1, kMaxAxes), block = list_operand(c, 2, kMaxAxes);
  if (image.empty() || image.size() != block.size())
    fail("{} image sizes and {} block sizes given", image.size(), block.size());
  std::vector<int64_t> dims{in[0], 0}, places;
  int64_t size = 1;
  for (size_t i = 0; i < image.size(); ++i) {
    int64_t end = 0;
    Axis axis = attributes_of(c.attrs, i, image.size(), &end);
    axis.image = image[i];
    axis.block = block[i];
    places.push_back(place_count(axis, end));
    dims.push_back(image[i]);
    if (__builtin_mul_overflow(size, block[i], &size)) fail("the block is too large");
  }
  if (in[1] % size != 0) fail("{} rows are no multiple of the block's {} elements", in[1], size);
  const int64_t total = Shape(std::span<const int64_t>(places)).elements();
  if (in[2] != total) fail("{} blocks given, the image has places for {}", in[2], total);
  dims[1] = in[1] / size;
  c.output(0, c.dtype(0), Shape(std::span<const int64_t>(dims)));
}

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  const auto n = static_cast<size_t>(p.outputs[0].shape.rank() - 2);
  for (size_t i = 0; i < n; ++i) {
    int64_t end = 0;
    Axis& axis = state->axes[i];
    axis = attributes_of(p.attrs(), i, n, &end);
    axis.image = p.outputs[0].shape[static_cast<int>(i) + 2];
    axis.places = end;  // until the block size is known in run
  }
  return state;
}

// Each pixel sums what the blocks hold for it, so threads do not write to the same pixel and sums keep their order.
template <typename T>
void gather_pixels(const Call& c, std::span<const Axis> axes, int64_t block_size) {
  using Sum = std::conditional_t<std::is_floating_point_v<Compute<T>>, double, uint64_t>;
  const Shape& out = c.outputs[0].shape;
  const int64_t pixels = out.elements(2, out.rank()), blocks = c.inputs[0].shape[2];
  parallel_for(out.elements(), 1 + (1 << 12) / block_size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Sum sum = 0;
      const T* rows = c.inputs[0].as<T>() + i / pixels * block_size * blocks;
      for (int64_t element = 0; element < block_size; ++element) {
        int64_t rest = element, pixel = i % pixels, place = 0, step = 1;
        bool hit = true;
        for (size_t d = axes.size(); hit && d-- > 0;) {
          const Axis& a = axes[d];
          const int64_t at = pixel % a.image + a.begin - rest % a.block * a.dilation;
          hit = at >= 0 && at % a.stride == 0 && at / a.stride < a.places;
          place += at / a.stride * step;
          step *= a.places;
          rest /= a.block;
          pixel /= a.image;
        }
        if (hit) sum += static_cast<Sum>(static_cast<Compute<T>>(rows[element * blocks + place]));
      }
      c.outputs[0].as<T>()[i] = T(static_cast<Compute<T>>(sum));
    }
  });
}

void run(const Call& c) {
  std::array<Axis, kMaxAxes> axes = c.as<State>().axes;
  const IntOperand block(c.inputs[2]);
  const auto n = static_cast<size_t>(c.outputs[0].shape.rank() - 2);
  int64_t size = 1, places = 1;
  if (block.size() != static_cast<int64_t>(n)) fail("{} block sizes given for {} axes", block.size(), n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t end = axes[i].places;
    axes[i].block = block[static_cast<int64_t>(i)];
    axes[i].places = place_count(axes[i], end);
    if (__builtin_mul_overflow(size, axes[i].block, &size)) fail("the block is too large");
    if (__builtin_mul_overflow(places, axes[i].places, &places)) fail("the block has too many places");
  }
  if (size * c.outputs[0].shape[1] != c.inputs[0].shape[1] || places != c.inputs[0].shape[2]) {
    fail("a block of {} elements at {} places does not fit {}", size, places, c.inputs[0].shape.str());
  }
  dispatch(NumericTypes{}, c.inputs[0].dtype,
           [&]<typename T>() { gather_pixels<T>(c, std::span(axes.data(), n), size); });
}

// The blocks are read back by a convolution for each channel, whose filters each pick one element of a block.
std::vector<ValueId> gradient(GradContext& c) {
  const Term g(c.b, c.out_grads[0]);
  const std::vector<int64_t> block = constant_ints(c, 2);
  if (block.size() > 3) fail("{} axes, 3 are supported", block.size());
  const int64_t channels = g.shape()[1];
  std::vector<int64_t> dims{c.b.shape(c.in(0))[1], 1};
  dims.insert(dims.end(), block.begin(), block.end());
  Tensor picks = Tensor::zeros(g.dtype(), Shape(dims));
  const int64_t size = picks.elements() / std::max<int64_t>(1, dims[0]);
  for (int64_t row = 0; row < dims[0]; ++row) store_element(g.dtype(), picks.raw(), row * size + row % size, 1);
  Attributes attrs = c.node.attrs;
  attrs.set("group", channels);
  return {Term(c.b, c.b.add("Conv", {g, c.b.constant(std::move(picks))}, attrs)).as(c.b.shape(c.in(0)))};
}

double cost(const Problem& p) { return static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> cases() {
  const auto ints = [](std::initializer_list<int64_t> v) { return CaseInput::value(Tensor::ints(v)); };
  using List = std::vector<int64_t>;
  return {{"plain", {CaseInput::of({1, 6, 12}), ints({4, 6}), ints({2, 3})}, {}},
          {"strided",
           {CaseInput::of({2, 12, 9}), ints({6, 7}), ints({2, 3})},
           {{"strides", List{2, 2}}, {"dilations", List{2, 1}}, {"pads", List{1, 0, 0, 0}}}},
          {"three_axes", {CaseInput::of({1, 8, 12}), ints({3, 4, 3}), ints({2, 2, 2})}, {}},
          {"integers", {CaseInput::range({1, 4, 4}, -9, 9, DType::i32), ints({3, 3}), ints({2, 2})}, {}}};
}

constexpr Kernel kCpu[] = {
    {.name = "reference",
     .accepts = [](const Problem& p) -> Acceptance { return contains(NumericTypes{}, p.inputs[0].dtype); },
     .prepare = prepare,
     .run = run}};
constexpr AttrSpec kAttrs[] = {
    {"strides", AttrType::integers}, {"pads", AttrType::integers}, {"dilations", AttrType::integers}};

const OpDef kOps[] = {{
    .name = "Col2Im",
    .doc = "Overlapping blocks summed into an image.",
    .since = 18,
    .inputs = {3, 3},
    .outputs = {1, 1},
    .attributes = kAttrs,
    .infer = infer,
    .cpu = kCpu,
    .grad = gradient,
    .cost = cost,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::col2im_ops
