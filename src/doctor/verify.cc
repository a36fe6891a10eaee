#include "doctor/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/clock.h"
#include "hw/gpu_driver_call.h"

namespace sparkpilot {
namespace {

// out[i] = f(f(...f(in[i]))), `rounds` times, f(x) = fma(x, -0.75, 1): one rounding per step, and always bounded.
constexpr const char* kKernel = R"(.version 6.0
.target sm_50
.address_size 64
.visible .entry iterate(.param .u64 out, .param .u64 in, .param .u32 count, .param .u32 rounds) {
  .reg .pred %p<3>;
  .reg .b32 %r<7>;
  .reg .f32 %f<2>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r6, [rounds];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.u32 %rd5, %r5, 4;
  add.s64 %rd6, %rd4, %rd5;
  add.s64 %rd7, %rd3, %rd5;
  ld.global.f32 %f1, [%rd6];
again:
  fma.rn.f32 %f1, %f1, 0fBF400000, 0f3F800000;
  sub.u32 %r6, %r6, 1;
  setp.gt.u32 %p2, %r6, 0;
  @%p2 bra again;
  st.global.f32 [%rd7], %f1;
done:
  ret;
}
)";
constexpr unsigned kCount = 65'537, kRounds = 7, kBlock = 256;  // an odd number: the last block is not full
constexpr unsigned kLoadCount = 1 << 20, kLoadRounds = 20'000;

float iterate(float x) {
  for (unsigned i = 0; i < kRounds; ++i) x = std::fma(x, -0.75F, 1.0F);
  return x;
}

std::vector<float> inputs() {
  std::vector<float> values(kCount);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-24F;
  }
  return values;
}

// A failed call: its name and the driver's error.
struct Failed {
  std::string call;
  int error;
};

class DriverCalls {
 public:
  DriverCalls(const Library& library, Watch& watch) : library_(library), watch_(watch) {}

  // Calls the newest of `symbols`; throws Failed unless it succeeds.
  template <size_t N, typename... Args>
  void call(const std::array<const char*, N>& symbols, Args... args) {
    std::string_view used;
    const auto function = library_.find<int (*)(Args...)>(symbols, &used);
    if (!function) throw Failed{symbols[0], 0};
    watch_.calling(used);
    if (const int error = function(args...); error != 0) throw Failed{std::string(used), error};
  }
  template <typename... Args>
  void call(const char* symbol, Args... args) {
    call(std::array{symbol}, args...);
  }

 private:
  const Library& library_;
  Watch& watch_;
};

using DevicePointer = unsigned long long;

// The whole check of one device. Its resources there are released however it ends.
class Trial {
 public:
  Trial(DriverCalls& driver, int device) : driver_(driver), device_(device) {}
  ~Trial() {
    const auto quietly = [this](auto symbols, auto... args) {
      try {
        driver_.call(symbols, args...);
      } catch (const Failed&) {  // keep the first error
      }
    };
    for (const DevicePointer pointer : memory_) quietly(std::array{"cuMemFree_v2", "cuMemFree"}, pointer);
    if (module_) quietly("cuModuleUnload", module_);
    if (context_) quietly(std::array{"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}, device_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void start() {
    driver_.call("cuDevicePrimaryCtxRetain", &context_, device_);
    driver_.call("cuCtxSetCurrent", context_);
    driver_.call("cuModuleLoadData", &module_, static_cast<const void*>(kKernel));
    driver_.call("cuModuleGetFunction", &function_, module_, static_cast<const char*>("iterate"));
  }

  std::vector<float> run(const std::vector<float>& in) {
    const size_t bytes = in.size() * sizeof(float);
    const DevicePointer from = allocate(bytes), to = allocate(bytes);
    driver_.call(std::array{"cuMemcpyHtoD_v2", "cuMemcpyHtoD"}, from, static_cast<const void*>(in.data()), bytes);
    launch(to, from, static_cast<unsigned>(in.size()), kRounds);
    std::vector<float> out(in.size());
    driver_.call(std::array{"cuMemcpyDtoH_v2", "cuMemcpyDtoH"}, static_cast<void*>(out.data()), to, bytes);
    return out;
  }

  void load(double seconds) {
    const DevicePointer memory = allocate(kLoadCount * sizeof(float));
    const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    while (now_ns() < end) launch(memory, memory, kLoadCount, kLoadRounds);
  }

 private:
  DevicePointer allocate(size_t bytes) {
    DevicePointer pointer = 0;
    driver_.call(std::array{"cuMemAlloc_v2", "cuMemAlloc"}, &pointer, bytes);
    memory_.push_back(pointer);
    return pointer;
  }

  void launch(DevicePointer out, DevicePointer in, unsigned count, unsigned rounds) {
    void* parameters[] = {&out, &in, &count, &rounds};
    const unsigned blocks = (count + kBlock - 1) / kBlock;
    driver_.call("cuLaunchKernel", function_, blocks, 1U, 1U, kBlock, 1U, 1U, 0U, static_cast<void*>(nullptr),
                 static_cast<void**>(parameters), static_cast<void**>(nullptr));
    driver_.call("cuCtxSynchronize");
  }

  DriverCalls& driver_;
  int device_;
  void *context_ = nullptr, *module_ = nullptr, *function_ = nullptr;
  std::vector<DevicePointer> memory_;
};

Verification verify(DriverCalls& driver, int index, double load_seconds) {
  Verification out;
  out.index = index;
  try {
    int device = 0;
    driver.call("cuDeviceGet", &device, index);
    char name[128] = {};
    driver.call("cuDeviceGetName", static_cast<char*>(name), static_cast<int>(sizeof name), device);
    out.name = text_of(name, sizeof name);
    Trial trial(driver, device);
    const int64_t begin = now_ns();
    trial.start();
    const int64_t started = now_ns();
    const std::vector<float> in = inputs(), got = trial.run(in);
    out.start_ms = static_cast<double>(started - begin) * 1e-6;
    out.run_ms = static_cast<double>(now_ns() - started) * 1e-6;
    out.values = std::ssize(in);
    for (size_t i = 0; i < in.size(); ++i) {
      const float expected = iterate(in[i]);
      if (std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(got[i])) continue;
      if (out.wrong++ == 0) out.problem = fmt::format("value {} is {}, the processor computes {}", i, got[i], expected);
    }
    out.right = out.wrong == 0;
    if (out.wrong > 1) out.problem += fmt::format(", and {} more are wrong", out.wrong - 1);
    if (load_seconds > 0) trial.load(load_seconds);
  } catch (const Failed& failed) {
    out.right = false;
    out.problem = failed.error == 0 ? fmt::format("the driver has no {}", failed.call)
                                    : fmt::format("{}: {}", failed.call, cuda_error_name(failed.error));
  }
  return out;
}

// Filled by the thread that calls the driver; read by the waiting thread, which may give up first.
struct Shared {
  std::mutex mutex;
  std::vector<Verification> devices;
};

}  // namespace

Verifications verify_gpus(const VerifyOptions& options) {
  using State = GpuDriverAnswers::State;
  const auto shared = std::make_shared<Shared>();
  const double load_seconds = options.load_seconds;
  const auto work = [shared, load_seconds](const Library& library, Watch& watch) {
    GpuDriverAnswers state;
    DriverCalls driver(library, watch);
    int count = 0;
    try {
      driver.call("cuInit", 0U);
      driver.call("cuDeviceGetCount", &count);
    } catch (const Failed& failed) {
      state.state = State::failed;
      state.reason = fmt::format("{}: {}", failed.call, cuda_error_name(failed.error));
      return state;
    }
    for (int i = 0; i < count && i < 64; ++i) {
      Verification one = verify(driver, i, load_seconds);
      const std::lock_guard lock(shared->mutex);
      shared->devices.push_back(std::move(one));
    }
    state.state = State::answered;
    return state;
  };
  const GpuDriverAnswers state = ask_bounded(options.libraries, options.wait_seconds, work);
  Verifications out;
  if (state.state != State::answered) {
    out.problem = state.state == State::absent ? "there is no NVIDIA driver" : state.reason;
  }
  const std::lock_guard lock(shared->mutex);
  out.devices = shared->devices;
  if (out.devices.empty() && out.problem.empty()) out.problem = "the NVIDIA driver has no GPU";
  return out;
}

Verified outcome(const Verifications& verifications) {
  if (verifications.devices.empty()) return Verified::nothing;
  const auto& devices = verifications.devices;
  const bool right =
      std::all_of(devices.begin(), devices.end(), [](const Verification& device) { return device.right; });
  return right && verifications.problem.empty() ? Verified::right : Verified::wrong;
}

}  // namespace sparkpilot
