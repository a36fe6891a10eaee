// NonMaxSuppression: for each image and class, selects boxes in descending order of score, leaving out those whose
// overlap (intersection over union) with a selected one exceeds a threshold. Output: [selected, 3] of image, class,
// box.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::nms_ops {
namespace {

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

// A box is two opposite corners in any order (y, x, y, x), or centre and size (x, y, width, height).
Box box_at(const float* b, bool centered) {
  if (centered) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0)) return 0;
  const float shared = height * width, all = a.area() + b.area() - shared;
  return all > 0 ? shared / all : 0;
}

void infer(InferContext& c) {
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (c.dtype(0) != DType::f32 || c.dtype(1) != DType::f32)
    fail("boxes and scores are {} and {}, expected f32", name(c.dtype(0)), name(c.dtype(1)));
  if (boxes.rank() != 3 || boxes[2] != 4) fail("boxes have shape {}, expected [images, boxes, 4]", boxes.str());
  if (scores.rank() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    fail("scores have shape {}, boxes {}: expected [images, classes, boxes]", scores.str(), boxes.str());
  }
  for (const int i : {2, 3, 4}) {
    if (!c.has(i)) continue;
    if (c.shape(i).elements() != 1) fail("input {} has shape {}, expected one element", i, c.shape(i).str());
    if (i == 2) expect_index_dtype(c, i);
    else if (c.dtype(i) != DType::f32) fail("input {} is {}, expected f32", i, name(c.dtype(i)));
  }
  c.output_dynamic(0, DType::i64);
}

void run(const Call& c) {
  const Shape& scores = c.inputs[1].shape;
  const int64_t images = scores[0], classes = scores[1], boxes = scores[2];
  const int64_t most = c.has(2) ? IntOperand(c.inputs[2])[0] : 0;
  const float limit = c.has(3) ? *c.inputs[3].as<float>() : 0;
  const bool centered = c.attrs().integer("center_point_box", 0) != 0;
  std::vector<int64_t> out, order;
  std::vector<Box> kept;
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t cls = 0; cls < classes; ++cls) {
      const float* score = c.inputs[1].as<float>() + (image * classes + cls) * boxes;
      order.clear();
      kept.clear();
      for (int64_t i = 0; i < boxes; ++i) {
        // A NaN score is not a candidate: it would break the order below.
        if (score[i] == score[i] && (!c.has(4) || score[i] > *c.inputs[4].as<float>())) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
      for (const int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        const Box box = box_at(c.inputs[0].as<float>() + (image * boxes + i) * 4, centered);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& k) { return overlap(box, k) > limit; })) continue;
        kept.push_back(box);
        out.insert(out.end(), {image, cls, i});
      }
    }
  }
  const View y = (*c.allocate)(0, Shape{static_cast<int64_t>(out.size()) / 3, 3});
  std::copy(out.begin(), out.end(), y.as<int64_t>());
}

std::vector<OpCase> cases() {
  const auto boxes = CaseInput::range({2, 30, 4}, 0, 1);
  const auto scores = CaseInput::range({2, 3, 30}, 0, 1);
  const auto most = CaseInput::value(Tensor::scalar<int64_t>(5));
  const auto real = [](float v) { return CaseInput::value(Tensor::scalar(v)); };
  return {{"corners", {boxes, scores, most, real(0.5f), real(0.2f)}, {}},
          {"centers", {boxes, scores, most, real(0.3f)}, {{"center_point_box", int64_t{1}}}},
          {"none_asked", {boxes, scores}, {}}};
}

constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};
constexpr AttrSpec kAttrs[] = {{"center_point_box", AttrType::integer}};

const OpDef kOps[] = {{
    .name = "NonMaxSuppression",
    .doc = "The best boxes that do not overlap.",
    .since = 10,
    .inputs = {2, 5},
    .outputs = {1, 1},
    .attributes = kAttrs,
    .traits = {.dynamic = true},
    .infer = infer,
    .cpu = kCpu,
    .no_gradient = no_gradient::kNotFloats,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::nms_ops
