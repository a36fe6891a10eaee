#include "ops/cuda/copy_candidates.h"

#include <algorithm>
#include <cstring>

#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/copy.h"

namespace sparkpilot::cuda {
namespace {

// A piece's addresses are bytes from the beginnings of an input and an output until it runs.
struct CopyState : KernelState {
  const GpuFunction* function = nullptr;
  struct Batch {
    CopyArguments wide, narrow;  // narrow: where memory does not begin at a multiple of 16
    std::vector<size_t> inputs, outputs;
  };
  std::vector<Batch> batches;
};

// The constants that say what is copied and are not copied themselves.
uint64_t operands_beside(const Problem& p, const std::vector<CopyPart>& parts) {
  uint64_t out = 0;
  for (size_t i = 0; i < std::min<size_t>(p.inputs.size(), 64); ++i) {
    const bool read = std::any_of(parts.begin(), parts.end(), [&](const CopyPart& part) { return part.input == i; });
    if (!read && p.is_constant(i)) out |= uint64_t{1} << i;
  }
  return out;
}

Acceptance takes_copied(const Problem& p) {
  if (!copied_bytes(p.outputs[0].dtype)) return fmt::format("packed {}", name(p.outputs[0].dtype));
  for (const TensorType& type : p.inputs) {
    if (type.shape.elements() >= int64_t{1} << 31) return "2^31 elements";
  }
  int64_t elements = 0;
  for (const TensorType& type : p.outputs) {
    if (type.shape.elements() >= int64_t{1} << 31) return "2^31 elements";
    elements += type.shape.elements();
  }
  if (elements == 0) return "empty";
  return true;
}

}  // namespace

Acceptance copy_accepts(const Problem& p, const CopyParts& parts) {
  if (parts.why_not) return parts.why_not;
  if (const Acceptance takes = takes_copied(p); !takes) return takes;
  for (const CopyPart& part : parts.parts) {
    const StridedLoops loops{.sizes = part.sizes, .strides = {part.from_strides, part.to_strides}};
    if (loops.merged().sizes.size() > kMostDimensions) return "too many dimensions";
  }
  return true;
}

std::unique_ptr<KernelState> copy_prepare(const Problem& p, const CopyParts& parts) {
  auto state = std::make_unique<CopyState>();
  const int bytes = *copied_bytes(p.outputs[0].dtype);
  state->function = &kernel_on(*p.gpu, "copy_strided");
  state->consumed = operands_beside(p, parts.parts);
  std::vector<CopyPiece> wide, narrow;
  CopyState::Batch batch;
  const auto finish = [&] {
    if (wide.empty()) return;
    batch.wide = make_copies(wide), batch.narrow = make_copies(narrow);
    state->batches.push_back(std::move(batch));
    wide.clear(), narrow.clear(), batch = {};
  };
  for (const CopyPart& part : parts.parts) {
    const std::optional<CopyPiece> aligned =
        make_copy(address_of_nothing(part.from * bytes), address_of_nothing(part.to * bytes), bytes, part.sizes,
                  part.from_strides, part.to_strides);
    if (!aligned) continue;
    wide.push_back(*aligned);
    // As at an address that is a multiple of an element only.
    narrow.push_back(*make_copy(address_of_nothing(bytes), address_of_nothing(bytes), bytes, part.sizes,
                                part.from_strides, part.to_strides));
    narrow.back().from = aligned->from, narrow.back().to = aligned->to;
    batch.inputs.push_back(part.input), batch.outputs.push_back(part.output);
    if (wide.size() == CopyArguments::kMostPieces) finish();
  }
  finish();
  return state;
}

void copy_run(const Call& call) {
  const auto& state = call.as<CopyState>();
  for (const CopyState::Batch& batch : state.batches) {
    bool wide = true;
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      wide &= is_aligned(call.inputs[batch.inputs[i]].data, 16) && is_aligned(call.outputs[batch.outputs[i]].data, 16);
    }
    CopyArguments arguments = wide ? batch.wide : batch.narrow;
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      CopyPiece& piece = arguments.pieces[i];
      const auto from = reinterpret_cast<uintptr_t>(piece.from), to = reinterpret_cast<uintptr_t>(piece.to);
      piece.from = static_cast<const std::byte*>(call.inputs[batch.inputs[i]].data) + from;
      piece.to = static_cast<std::byte*>(call.outputs[batch.outputs[i]].data) + to;
    }
    call.stream->launch(*state.function, copy_strided_launch(arguments), arguments);
  }
}

namespace {

CopyParts parts_of_view(const Problem& p) { return {{{0, 0, 0, 0, {p.inputs[0].shape.elements()}, {1}, {1}}}}; }

}  // namespace

constinit const Kernel kView[1] = {{.name = "copy",
                                    .accepts = kStrided<parts_of_view>.accepts,
                                    .prepare = kStrided<parts_of_view>.prepare,
                                    .run = [](const Call& call) {
                                      if (call.outputs[0].data != call.inputs[0].data) copy_run(call);
                                    }}};

// ---------------------------------------------------------------- Transpose
namespace {

struct TilesState : KernelState {
  const GpuFunction* function = nullptr;
  TransposeArguments arguments{};
};

std::optional<TransposeArguments> tiles_of(const Problem& p, const std::vector<int>& permutation) {
  const int bytes = *copied_bytes(p.inputs[0].dtype);
  return make_transpose(nullptr, nullptr, bytes, sizes_of(p.inputs[0].shape), permutation);
}

}  // namespace

Acceptance tiles_accept(const Problem& p, const std::vector<int>& permutation) {
  if (const Acceptance takes = takes_copied(p); !takes) return takes;
  if (!tiles_of(p, permutation)) return "no large matrices are transposed";
  return true;
}

std::unique_ptr<KernelState> tiles_prepare(const Problem& p, const std::vector<int>& permutation) {
  auto state = std::make_unique<TilesState>();
  state->arguments = *tiles_of(p, permutation);
  state->function = &kernel_on(*p.gpu, "copy_tiles");
  return state;
}

void tiles_run(const Call& call) {
  const auto& state = call.as<TilesState>();
  TransposeArguments arguments = state.arguments;
  arguments.from = call.inputs[0].data;
  arguments.to = call.outputs[0].data;
  call.stream->launch(*state.function, copy_tiles_launch(arguments), arguments);
}

// ---------------------------------------------------------------- Pad
namespace {

struct PadState : KernelState {
  const GpuFunction* function = nullptr;
  PadArguments arguments{};
};

PadMode pad_mode(const std::string& mode) {
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "edge") return PadMode::edge;
  return mode == "wrap" ? PadMode::wrap : PadMode::constant;
}

}  // namespace

Acceptance pad_accepts(const Problem& p, const PadBorders& borders) {
  if (borders.why_not) return borders.why_not;
  if (const Acceptance takes = takes_copied(p); !takes) return takes;
  if (p.inputs[0].shape.elements() == 0) return "empty";
  if (p.inputs[0].shape.rank() > kMostDimensions) return "too many dimensions";
  if (p.has(2) && !p.is_constant(2)) return "the value is not constant";
  const auto crops = [](const std::vector<int64_t>& pads) {
    return std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; });
  };
  if (pad_mode(borders.mode) != PadMode::constant && (crops(borders.before) || crops(borders.after))) {
    return "crops and repeats";  // what was cropped is not repeated
  }
  return true;
}

std::unique_ptr<KernelState> pad_prepare(const Problem& p, const PadBorders& borders) {
  auto state = std::make_unique<PadState>();
  const int bytes = *copied_bytes(p.inputs[0].dtype);
  unsigned long long value = 0;
  if (p.has(2)) std::memcpy(&value, p.constants[2].raw(), static_cast<size_t>(bytes));
  state->arguments = make_pad(nullptr, nullptr, bytes, sizes_of(p.inputs[0].shape), borders.before, borders.after,
                              pad_mode(borders.mode), value);
  for (size_t i = 1; i < p.inputs.size(); ++i) {
    if (p.is_constant(i)) state->consumed |= uint64_t{1} << i;
  }
  state->function = &kernel_on(*p.gpu, "pad");
  return state;
}

void pad_run(const Call& call) {
  const auto& state = call.as<PadState>();
  PadArguments arguments = state.arguments;
  arguments.x = call.inputs[0].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, pad_launch(arguments), arguments);
}

}  // namespace sparkpilot::cuda
