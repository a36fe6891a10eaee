#include "ops/cuda/attention_candidates.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/cpu/attention/attention_shape.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/plans.h"

namespace sparkpilot::cuda {
namespace {

constexpr int64_t kMostMask = int64_t{1} << 24;  // elements of a mask that is made beforehand

struct AttentionState : KernelState {
  const GpuFunction* function = nullptr;
  GpuLaunch how;
  AttentionArguments arguments{};
  std::array<int64_t, 3> first{};  // bytes before the first head's elements in queries, keys, values
  std::shared_ptr<Buffer> mask;
};

bool by_place(const AttentionShape& a) { return a.causal || a.left >= 0 || a.right >= 0; }

// The mask's shape as [batch, heads, queries, keys], where 1 stands for all; the keys may be fewer than there are.
std::array<int64_t, 4> mask_sizes(const Problem& p) {
  std::array<int64_t, 4> sizes{1, 1, 1, 1};
  if (!p.has(3)) return sizes;
  const Shape& shape = p.inputs[3].shape;
  for (int i = 0; i < shape.rank(); ++i) sizes[static_cast<size_t>(4 - shape.rank() + i)] = shape[i];
  return sizes;
}

// Whether the mask is made in `prepare`, from constants.
bool makes_mask(const Problem& p, const AttentionShape& a) { return by_place(a) || (p.has(3) && p.is_constant(3)); }

// What is added to the scores, as f32, of all keys and of as many batches, heads and queries as differ.
Tensor made_mask(const Problem& p, const AttentionShape& a) {
  const std::array<int64_t, 4> from = mask_sizes(p);
  const int64_t queries = by_place(a) ? a.q.rows : from[2];
  Tensor mask = Tensor::zeros(DType::f32, Shape{from[0], from[1], queries, a.total});
  float* to = mask.data<float>().data();
  for (int64_t outer = 0; outer < from[0] * from[1]; ++outer) {
    for (int64_t i = 0; i < queries; ++i, to += a.total) {
      const KeyRange seen = visible_keys(a, i, -1);
      const int64_t row = (outer * from[2] + (from[2] == 1 ? 0 : i)) * from[3];
      for (int64_t j = 0; j < a.total; ++j) {
        double value = by_place(a) && (j < seen.first || j >= seen.last) ? -INFINITY : 0;
        if (p.has(3) && value == 0) {
          const Tensor& given = p.constants[3];
          value = j < from[3] ? load_element(given.dtype(), given.raw(), row + j) : -INFINITY;
          if (given.dtype() == DType::boolean && j < from[3]) value = value != 0 ? 0 : -INFINITY;
        }
        to[j] = static_cast<float>(value);
      }
    }
  }
  return mask;
}

Acceptance takes_mask(const Problem& p, const AttentionShape& a) {
  const std::array<int64_t, 4> sizes = mask_sizes(p);
  if (p.has(3) && p.inputs[3].shape.elements() == 0) return "empty mask";
  if (makes_mask(p, a)) {
    if (p.has(3) && !p.is_constant(3)) return "a mask at run time, and causal or with a window of keys";
    if (p.has(3) && p.inputs[3].dtype != DType::boolean && !storage_suffix(p.inputs[3].dtype)) {
      return fmt::format("{} mask", name(p.inputs[3].dtype));
    }
    if (sizes[0] * sizes[1] * (by_place(a) ? a.q.rows : sizes[2]) > kMostMask / a.total) return "a large constant mask";
    return true;
  }
  if (!p.has(3)) return true;
  if (!storage_suffix(p.inputs[3].dtype)) return fmt::format("{} mask", name(p.inputs[3].dtype));
  if (sizes[3] != a.total) return "a mask of fewer keys than there are";
  return true;
}

void set_mask(const std::array<int64_t, 4>& sizes, AttentionArguments& to) {
  to.mask_key = 1;
  to.mask_query = sizes[2] == 1 ? 0 : sizes[3];
  to.mask_head = sizes[1] == 1 ? 0 : sizes[2] * sizes[3];
  to.mask_batch = sizes[0] == 1 ? 0 : sizes[1] * sizes[2] * sizes[3];
}

AttentionArguments arguments_of(const AttentionShape& a, Storage storage, int multiprocessors) {
  AttentionArguments out{};
  out.batches = static_cast<int>(a.q.batch);
  out.heads = static_cast<int>(a.q.heads);
  out.heads_per_key = static_cast<int>(a.group());
  out.queries = static_cast<int>(a.q.rows);
  out.keys = static_cast<int>(a.total);
  out.size = static_cast<int>(a.q.size);
  out.scale = static_cast<float>(a.scale);
  out.q_batch = a.q.batch_step, out.q_head = a.q.head_step, out.q_token = a.q.row_step;
  out.k_batch = a.k.batch_step, out.k_head = a.k.head_step, out.k_token = a.k.row_step;
  out.v_batch = a.v.batch_step, out.v_head = a.v.head_step, out.v_token = a.v.row_step;
  out.y_batch = a.y.batch_step, out.y_head = a.y.head_step, out.y_token = a.y.row_step;
  out.warps_per_query = attention_warps_per_query(storage, out, multiprocessors);
  return out;
}

Acceptance accepts(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  if (!storage_suffix(dtype)) return fmt::format("{} queries", name(dtype));
  if (p.inputs[1].dtype != dtype || p.inputs[2].dtype != dtype) return "queries, keys and values of several types";
  if (p.has(4) || p.has(5)) return "past keys and values";
  if (p.has(6)) return "keys that are padding";
  for (size_t i = 1; i < p.outputs.size(); ++i) {
    if (p.outputs[i].dtype != DType::none) return "keys, values or scores are wanted";
  }
  for (const TensorType* type : {&p.inputs[0], &p.inputs[1], &p.inputs[2], &p.outputs[0]}) {
    if (const Acceptance takes = takes_elements(type->shape); !takes) return takes;
  }
  const AttentionShape a = attention_shape(p);
  if (a.softcap != 0) return "scores with a soft cap";
  if (a.q.size != a.v.size) return "keys and values of two sizes";
  if (a.q.size == 0 || a.q.heads == 0) return "empty";
  if (!attention_accepts(arguments_of(a, storage_of(dtype), p.gpu->facts().multiprocessors))) {
    return "more than 65535 batches or heads";
  }
  return takes_mask(p, a);
}

std::vector<WarpPlan> plans(const Problem& p) {
  const Storage storage = storage_of(p.inputs[0].dtype);
  const AttentionArguments a = arguments_of(attention_shape(p), storage, p.gpu->facts().multiprocessors);
  return warp_plans(a.warps_per_query, attention_most_warps(storage, a));
}

std::vector<std::string> variants(const Problem& p) { return variants_of(plans(p)); }

void take_variant(const Problem& p, std::string_view variant, KernelState& prepared) {
  auto& state = static_cast<AttentionState&>(prepared);
  state.arguments.warps_per_query = plan_of(plans(p), variant).warps;
  state.how = attention_launch(storage_of(p.inputs[0].dtype), state.arguments);
}

std::unique_ptr<KernelState> prepare(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  const Storage storage = storage_of(dtype);
  const AttentionShape a = attention_shape(p);
  auto state = std::make_unique<AttentionState>();
  AttentionArguments& arguments = state->arguments;
  arguments = arguments_of(a, storage, p.gpu->facts().multiprocessors);
  state->how = attention_launch(storage, arguments);
  state->function = &kernel_on(*p.gpu, attention_name(storage, arguments));
  state->first = {storage_bytes(dtype, a.q.first), storage_bytes(dtype, a.k.first), storage_bytes(dtype, a.v.first)};
  if (makes_mask(p, a)) {
    const Tensor mask = made_mask(p, a);
    state->mask = p.gpu->upload(mask.raw(), mask.bytes());
    if (p.has(3)) state->consumed |= 8;
    arguments.mask = state->mask->data();
    arguments.mask_storage = Storage::f32;
    set_mask({mask.shape()[0], mask.shape()[1], mask.shape()[2], mask.shape()[3]}, arguments);
  } else if (p.has(3)) {
    arguments.mask_storage = storage_of(p.inputs[3].dtype);
    set_mask(mask_sizes(p), arguments);
  }
  return state;
}

void run(const Call& c) {
  const auto& state = c.as<AttentionState>();
  AttentionArguments arguments = state.arguments;
  const auto from = [&](size_t i) { return static_cast<const std::byte*>(c.inputs[i].data) + state.first[i]; };
  arguments.q = from(0);
  arguments.k = from(1);
  arguments.v = from(2);
  if (!state.mask && c.has(3)) arguments.mask = c.inputs[3].data;
  arguments.y = c.outputs[0].data;
  c.stream->launch(*state.function, state.how, arguments);
}

constexpr std::array kAttention = {Kernel{.name = "fused",
                                          .accepts = accepts,
                                          .prepare = prepare,
                                          .run = run,
                                          .variants = variants,
                                          .take_variant = take_variant}};

}  // namespace

std::span<const Kernel> attention_candidates() { return kAttention; }

}  // namespace sparkpilot::cuda
