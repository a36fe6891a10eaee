// Every number type's words, on every instruction set that this processor has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sim/lanes_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "sim/lanes-inl.h"
#include "sim/math-inl.h"
#include "sim/noise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::sim::HWY_NAMESPACE {
namespace {

constexpr int kFunctions = 14;

template <class N>
SIM_FN void all_functions(N x, const N* slots, N (&out)[kFunctions]) {
  N normal[4];
  sin_cos(x, out[0], out[1]);
  out[2] = tan(clip(x, N(-1.5), N(1.5)));
  out[3] = atan(x);
  out[4] = exp(clip(x, N(-80), N(80)));
  out[5] = log(abs(x) + N(0.001));
  out[6] = sqrt(abs(x));
  out[7] = round(x);
  out[8] = min(max(x, N(-2)), -x);
  out[9] = select((x > N(1)) || !(x >= N(-1) && x <= N(0.5)), x / N(3), x - N(1));
  normal_numbers(uint64_t{0x123456789abcdef}, WordsOf<N>(77u), round(abs(x) * N(100)), N(5), normal);
  out[10] = normal[0] + normal[1];
  out[11] = normal[2] * normal[3];
  out[12] = look_back(slots, 2, 3, 10, round(clip(abs(x), N(0), N(9))));
  out[13] = look_back(slots, 2, 3, 10, N(7));
}

// x in, each function's values behind each other out; count is a multiple of 64.
void functions_impl(const float* x, int count, float* out, float* single) {
  alignas(64) float slots[20 * kLanes];
  for (int i = 0; i < count; i += kLanes) {
    for (int k = 0; k < 20 * kLanes; ++k) slots[k] = static_cast<float>(k / kLanes) + x[i + k % kLanes];
    Lanes in, values[kFunctions];
    std::memcpy(static_cast<void*>(&in), x + i, sizeof(in));
    all_functions(in, reinterpret_cast<const Lanes*>(slots), values);
    for (int f = 0; f < kFunctions; ++f) std::memcpy(out + f * count + i, &values[f], sizeof(Lanes));
  }
  for (int i = 0; i < count; ++i) {
    float own[20], values[kFunctions];
    for (int k = 0; k < 20; ++k) own[k] = static_cast<float>(k) + x[i];
    all_functions(x[i], static_cast<const float*>(own), values);
    for (int f = 0; f < kFunctions; ++f) single[f * count + i] = values[f];
  }
}
bool fused_impl() {
  const Lanes a(1 + 0x1p-12), r = mul_add(a, a, Lanes(-1));
  return hn::GetLane(r.v[0]) == 0x1p-11f + 0x1p-24f;
}

}  // namespace
}  // namespace sparkpilot::sim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::sim {
namespace {

HWY_EXPORT(functions_impl);
HWY_EXPORT(fused_impl);

TEST(Lanes, AreTheSameAsSingleFloats) {
  constexpr int kCount = 4096, kAll = HWY_NAMESPACE::kFunctions;
  std::vector<float> x(kCount), lanes(kCount * kAll), single(kCount * kAll);
  for (int i = 0; i < kCount; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(std::pow(static_cast<double>(i - kCount / 2) / 512, 3));
  int fused = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    HWY_DYNAMIC_DISPATCH(functions_impl)(x.data(), kCount, lanes.data(), single.data());
    const bool is_fused = HWY_DYNAMIC_DISPATCH(fused_impl)();
    fused += is_fused;
    for (size_t i = 0; i < lanes.size(); ++i) {
      const double difference = std::fabs(lanes[i] - single[i]);
      const double allowed = is_fused ? 0 : 4e-6 * std::max(1.0f, std::fabs(single[i]));
      ASSERT_LE(difference, allowed) << hwy::TargetName(target) << " function " << i / kCount << " of "
                                     << x[i % kCount];
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  RecordProperty("fused", fused);
}

}  // namespace
}  // namespace sparkpilot::sim
#endif  // HWY_ONCE
