// GpuDevice and GpuStream on the emulated driver.
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>

#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "ops/cuda/rows.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace gpu_test {

constexpr int kRows = 3, kSize = 50;

std::vector<float> softmax(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  for (size_t row = 0; row < x.size(); row += kSize) {
    double sum = 0;
    for (size_t i = row; i < row + kSize; ++i) sum += std::exp(static_cast<double>(x[i]));
    for (size_t i = row; i < row + kSize; ++i) out[i] = static_cast<float>(std::exp(static_cast<double>(x[i])) / sum);
  }
  return out;
}
std::vector<float> numbers(float first) {
  std::vector<float> out(kRows * kSize);
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(first + static_cast<float>(i));
  return out;
}

// A softmax with its input and output where the processor reaches them.
struct Softmax {
  explicit Softmax(std::shared_ptr<GpuDevice> device) : gpu(std::move(device)), stream(gpu) {
    const int64_t bytes = kRows * kSize * 4;
    in = gpu->allocate(bytes, gpu->shared_place());
    out = gpu->allocate(bytes, gpu->shared_place());
    on_gpu_in = gpu->unified() ? in : gpu->allocate(bytes, Place::device);
    on_gpu_out = gpu->unified() ? out : gpu->allocate(bytes, Place::device);
    function = &cuda::kernel_on(*gpu, "softmax_f32");
  }
  void enqueue() {
    const int64_t bytes = in->size();
    if (!gpu->unified()) stream.copy_to_gpu(on_gpu_in->data(), in->data(), bytes);
    cuda::SoftmaxArguments arguments{on_gpu_in->data(), on_gpu_out->data(), kRows, kSize};
    stream.launch(*function, cuda::softmax_launch(arguments), arguments);
    std::memset(static_cast<void*>(&arguments), 0xee, sizeof arguments);  // the driver has its own copy
    if (!gpu->unified()) stream.copy_to_host(out->data(), on_gpu_out->data(), bytes);
  }
  void write(const std::vector<float>& x) { std::memcpy(in->data(), x.data(), x.size() * 4); }
  std::vector<float> read() const {
    std::vector<float> y(kRows * kSize);
    std::memcpy(y.data(), out->data(), y.size() * 4);
    return y;
  }
  void expect(const std::vector<float>& x) const {
    const std::vector<float> expected = softmax(x), y = read();
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-6) << i;
  }

  std::shared_ptr<GpuDevice> gpu;
  GpuStream stream;
  std::shared_ptr<Buffer> in, out, on_gpu_in, on_gpu_out;
  const GpuFunction* function = nullptr;
};

TEST_F(GpuTest, Facts) {
  struct Expected {
    const char* gpu;
    int capability, multiprocessors;
    bool unified;
  };
  for (const Expected& e : {Expected{"gb10", 121, 48, true},
                            {"rtx4090", 89, 128, false},
                            {"rtx5090", 120, 170, false},
                            {"h100", 90, 132, false},
                            {"gh200", 90, 132, false},
                            {"wsl2", 89, 36, false}}) {
    emulate(e.gpu);
    const auto gpu = GpuDevice::open(0);
    EXPECT_EQ(gpu->facts().capability, e.capability) << e.gpu;
    EXPECT_EQ(gpu->facts().multiprocessors, e.multiprocessors) << e.gpu;
    EXPECT_EQ(gpu->unified(), e.unified) << e.gpu;
    EXPECT_EQ(GpuDevice::open(0), gpu);
  }
  emulate("gb10");
  EXPECT_FALSE(GpuDevice::open(0, {.unified = GpuOptions::off})->unified());
  emulate("gh200");
  EXPECT_TRUE(GpuDevice::open(0, {.unified = GpuOptions::on})->unified());
  emulate("rtx4090,rtx5090");
  EXPECT_EQ(GpuDevice::count(), 2);
  EXPECT_EQ(GpuDevice::open(1)->facts().name, "NVIDIA GeForce RTX 5090");
}

TEST_F(GpuTest, RefusesWhatIsNotThereOrTooOld) {
  EXPECT_NE(error_of([] { GpuDevice::open(1); }).find("there is no GPU 1: CUDA shows 1 (CUDA_VISIBLE_DEVICES"),
            std::string::npos);
  emulate("gtx1080");
  EXPECT_NE(error_of([] { GpuDevice::open(0); }).find("GTX 1080 has compute capability 6.1; 8.0 or newer is needed"),
            std::string::npos);
}

TEST_F(GpuTest, MemoryIsRefusedWithTheFigures) {
  emulate("rtx4090", "cuMemAlloc_v2:2:2");
  const auto gpu = GpuDevice::open(0);
  const auto buffer = gpu->allocate(600000, Place::device);
  EXPECT_EQ(buffer->place(), Place::device);
  EXPECT_EQ(gpu->allocated_bytes(), 600000);
  EXPECT_NE(error_of([&] { gpu->allocate(int64_t{30} << 30, Place::device); }).find("32.21 GB are needed and"),
            std::string::npos);
  EXPECT_NE(error_of([&] { gpu->allocate(600000, Place::device); }).find("CUDA_ERROR_OUT_OF_MEMORY"),
            std::string::npos);
  EXPECT_EQ(gpu->allocated_bytes(), 600000);
  gpu->allocate(2000000, Place::pinned);
}

TEST_F(GpuTest, KeptMemoryIsGivenAgain) {
  for (const auto& [name, place, call] : {std::tuple{"rtx4090", Place::pinned, "call cuMemHostAlloc"},
                                          {"rtx4090", Place::device, "call cuMemAlloc_v2"},
                                          {"gb10", Place::unified, "call cuMemAllocManaged"}}) {
    emulate(name);
    const auto gpu = GpuDevice::open(0);
    const std::byte* const first = gpu->allocate_kept(1000, place)->data();
    const int before = driver_count(call);
    const auto again = gpu->allocate_kept(900, place);
    EXPECT_EQ(again->data(), first);
    EXPECT_EQ(again->place(), place);
    EXPECT_EQ(driver_count(call), before);
    const auto beside = gpu->allocate_kept(900, place);  // the first is in use
    EXPECT_EQ(driver_count(call), before + 1);
    const auto larger = gpu->allocate_kept(3000, place), small = gpu->allocate_kept(10, place);
    EXPECT_EQ(driver_count(call), before + 3);
  }
}

TEST_F(GpuTest, KeptMemoryIsOfItsPlaceAndDoesNotStandInTheWay) {
  setenv("EMULATED_CUDA_MEMORY", "1000000", 1);
  emulate("rtx4090");
  const auto gpu = GpuDevice::open(0);
  gpu->allocate_kept(600000, Place::device);
  EXPECT_EQ(gpu->allocated_bytes(), 600000);
  gpu->allocate_kept(600000, Place::pinned);
  EXPECT_EQ(gpu->allocated_bytes(), 600000) << "pinned memory is another";
  const auto whole = gpu->allocate(900000, Place::device);
  EXPECT_EQ(gpu->allocated_bytes(), 900000) << "what was kept is given back first";
  EXPECT_NE(error_of([&] { gpu->allocate(600000, Place::device); }).find("are needed and"), std::string::npos);
}

TEST_F(GpuTest, KeptMemoryIsGivenBackWhereTheDriverFindsTooLittle) {
  for (const auto& [call, place] :
       {std::pair{"cuMemAlloc_v2:2:2", Place::device}, {"cuMemHostAlloc:2:2", Place::pinned}}) {
    emulate("rtx4090", call);
    const auto gpu = GpuDevice::open(0);
    gpu->allocate_kept(1000, place);
    EXPECT_EQ(gpu->allocate(5000, place)->place(), place);
  }
}

TEST_F(GpuTest, MemoryThatIsGivenBackLaterIsKeptInsteadOfOther) {
  emulate("rtx4090");
  const auto gpu = GpuDevice::open(0);
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  gpu->allocate_kept(300 * kMegabyte, Place::device);
  gpu->allocate_kept(310 * kMegabyte, Place::device);
  EXPECT_EQ(gpu->allocated_bytes(), 310 * kMegabyte);
  gpu->allocate_kept(600 * kMegabyte, Place::device);
  EXPECT_EQ(gpu->allocated_bytes(), 310 * kMegabyte) << "that was more than is kept in all";
}

TEST_F(GpuTest, UnifiedMemoryKeepsAReserveForTheSystem) {
  const auto gpu = GpuDevice::open(0, {.reserve = int64_t{1} << 50});
  const std::string error = error_of([&] { gpu->allocate(100, Place::unified); });
  EXPECT_NE(error.find("0.00 GB are needed and 0.00 GB can be taken (1125899.91 GB are kept for the system)"),
            std::string::npos)
      << error;
}

TEST_F(GpuTest, TheProcessorCannotTouchDeviceMemory) {
  const auto gpu = GpuDevice::open(0, {.unified = GpuOptions::off});
  const auto buffer = gpu->allocate(100, Place::device);
  EXPECT_EXIT(static_cast<volatile std::byte*>(buffer->data())[0] = std::byte{1}, ::testing::KilledBySignal(SIGSEGV),
              "");
}

TEST_F(GpuTest, ComputesAndCountsWithAndWithoutUnifiedMemory) {
  NEEDS_IMAGES();
  for (const char* name : {"gb10", "rtx4090", "h100"}) {
    emulate(name);
    Softmax s(GpuDevice::open(0));
    s.enqueue();  // so that what recording may not do is done
    s.stream.wait();
    const GpuRecording recording = s.stream.record([&] { s.enqueue(); });
    EXPECT_EQ(recording.nodes(), s.gpu->unified() ? 1u : 3u);
    for (int run = 0; run < 3; ++run) {
      const auto x = numbers(static_cast<float>(run));
      s.write(x);
      s.stream.run(recording);
      s.stream.wait();
      s.expect(x);
    }
    const auto& counts = s.stream.counts();
    EXPECT_EQ(counts.runs, 3);
    EXPECT_EQ(counts.waits, 4);
    EXPECT_EQ(counts.launches, 2);
    EXPECT_EQ(counts.to_gpu + counts.to_host, s.gpu->unified() ? 0 : 4);
    EXPECT_EQ(driver_count("call cuGraphLaunch"), 3);
    EXPECT_EQ(driver_count("call cuStreamSynchronize"), 4);
    EXPECT_EQ(driver_count("kernel softmax_f32"), 4);
    EXPECT_EQ(driver_count("bytes cuMemcpyHtoDAsync_v2"), s.gpu->unified() ? 0 : 2 * kRows * kSize * 4);
  }
}

// The emulated driver works as late as it may, so what lacks a wait() shows.
TEST_F(GpuTest, WithoutWaitingTheOutputIsOldAndTheInputStillRead) {
  NEEDS_IMAGES();
  Softmax s(GpuDevice::open(0));
  const auto first = numbers(1), second = numbers(2);
  s.write(first);
  s.enqueue();
  EXPECT_TRUE(std::isnan(s.read()[0]));
  s.write(second);  // too early
  s.stream.wait();
  s.expect(second);
}

TEST_F(GpuTest, WhereItCannotBeSharedManagedMemoryIsClosedWhileTheGpuWorks) {
  NEEDS_IMAGES();
  emulate("wsl2");
  Softmax s(GpuDevice::open(0, {.unified = GpuOptions::on}));
  EXPECT_FALSE(s.gpu->unified());  // even if asked for
}

TEST_F(GpuTest, NothingMayBeAllocatedOrLoadedInARecording) {
  NEEDS_IMAGES();
  for (const bool load : {false, true}) {
    emulate("rtx4090");
    Softmax s(GpuDevice::open(0));
    std::string inner;
    const std::string error = error_of([&] {
      s.stream.record([&] {
        s.enqueue();
        inner = error_of([&] {
          if (load) cuda::kernel_on(*s.gpu, "word_half");
          else s.gpu->allocate(100, Place::device);
        });
      });
    });
    EXPECT_NE(inner.find("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), std::string::npos) << inner;
    EXPECT_NE(error.find("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"), std::string::npos) << error;
    const auto x = numbers(3);  // and goes on
    s.write(x);
    s.enqueue();
    s.stream.wait();
    s.expect(x);
  }
}

TEST_F(GpuTest, MemoryThatIsNotPinnedIsRefusedInARecording) {
  emulate("rtx4090");
  const auto gpu = GpuDevice::open(0);
  GpuStream stream(gpu);
  const auto on_gpu = gpu->allocate(400, Place::device);
  std::vector<float> pageable(100, 1.5f);
  stream.copy_to_gpu(on_gpu->data(), pageable.data(), 400);  // read before the call returns
  std::fill(pageable.begin(), pageable.end(), 0.0f);
  stream.copy_to_host(pageable.data(), on_gpu->data(), 400);
  stream.wait();
  EXPECT_EQ(pageable, std::vector<float>(100, 1.5f));
  const auto record = [&] { stream.record([&] { stream.copy_to_gpu(on_gpu->data(), pageable.data(), 400); }); };
  EXPECT_NE(error_of(record).find("cuMemcpyHtoDAsync_v2: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), std::string::npos);
}

TEST_F(GpuTest, TheImageThatFitsIsTaken) {
  NEEDS_IMAGES();
  struct Expected {
    const char *gpu, *image;
    int binary, ptx_of_words;
    const char* said;
  };
  for (const Expected& e : {Expected{"a100", "sm_80", 80, 80, "sm_80"},
                            {"rtx4090", "sm_89", 89, 89, "sm_89"},
                            {"h100", "sm_90", 90, 90, "sm_90"},
                            {"gb10", "sm_120", 120, 120, "sm_120"},
                            {"rtx5090", "sm_120", 120, 120, "sm_120"},
                            {"b200", "compute_90", 100, 90, "sm_100, compiled from compute_90 by the driver"}}) {
    emulate(e.gpu);
    const auto gpu = GpuDevice::open(0);
    const GpuFunction& function = cuda::kernel_on(*gpu, "softmax_f16");
    EXPECT_EQ(function.binary, e.binary) << e.gpu;
    EXPECT_EQ(function.ptx, e.binary < 90 ? 80 : 90) << e.gpu;  // machine code too
    EXPECT_EQ(cuda::image_of(function), e.said) << e.gpu;
    EXPECT_EQ(cuda::kernel_on(*gpu, "word_half").ptx, e.ptx_of_words) << e.gpu;
    EXPECT_NE(driver_report().find(std::string("image ") + e.image + "\n"), std::string::npos) << driver_report();
  }
  emulate("rtx4090");
  const auto gpu = GpuDevice::open(0);
  EXPECT_NE(error_of([&] { cuda::kernel_on(*gpu, "word_mma_e2m1"); }).find("needs compute capability 12.0"),
            std::string::npos);
}

TEST_F(GpuTest, AStreamMayMoveToAnotherThread) {
  NEEDS_IMAGES();
  Softmax s(GpuDevice::open(0));
  const auto x = numbers(4);
  std::thread([&] {
    s.write(x);
    s.enqueue();
    s.stream.wait();
  }).join();
  s.expect(x);
}

// Recordings are of one thread: what the others allocate, load or give back meanwhile is none of them.
TEST_F(GpuTest, OtherThreadsMayLoadDuringARecording) {
  NEEDS_IMAGES();
  emulate("rtx4090");
  Softmax s(GpuDevice::open(0));
  const auto x = numbers(5);
  s.write(x);
  std::string other;
  const GpuRecording recording = s.stream.record([&] {
    s.enqueue();
    std::thread([&] {
      other = error_of([&] {
        const GpuStream stream(s.gpu);
        s.gpu->upload(x.data(), 100);
        cuda::kernel_on(*s.gpu, "word_half");
        s.gpu->finish_uploads();
      });
    }).join();
  });
  EXPECT_EQ(other, "");
  s.stream.run(recording);
  s.stream.wait();
  s.expect(x);
}

// The next context of a GPU may have the handle of one that ended.
TEST_F(GpuTest, AThreadMayOutliveADevice) {
  NEEDS_IMAGES();
  const auto x = numbers(6);
  std::barrier turns(2);
  std::string error;
  auto first = GpuDevice::open(0);
  std::thread worker([&] {
    error = error_of([&] { first->api(); });
    turns.arrive_and_wait();  // main closes the device
    turns.arrive_and_wait();
    if (!error.empty()) return;
    error = error_of([&] {
      Softmax s(GpuDevice::open(0));
      s.write(x);
      s.enqueue();
      s.stream.wait();
      s.expect(x);
    });
  });
  turns.arrive_and_wait();
  first.reset();
  turns.arrive_and_wait();
  worker.join();
  EXPECT_EQ(error, "");
}

TEST_F(GpuTest, TimesArePositive) {
  NEEDS_IMAGES();
  Softmax s(GpuDevice::open(0));
  GpuTimer timer(s.gpu);
  timer.begin(s.stream);
  s.enqueue();
  timer.end(s.stream);
  EXPECT_GT(timer.milliseconds(), 0.0);
}

TEST_F(GpuTest, TimesARecording) {
  NEEDS_IMAGES();
  Softmax s(GpuDevice::open(0));
  GpuTimer inside(s.gpu), around(s.gpu);
  const GpuRecording recording = s.stream.record([&] {
    inside.begin(s.stream);
    s.enqueue();
    inside.end(s.stream);
  });
  for (int i = 0; i < 2; ++i) {
    around.begin(s.stream);
    s.stream.run(recording);
    around.end(s.stream);
    s.stream.wait();
    EXPECT_GT(inside.milliseconds(), 0.0);
    EXPECT_LE(inside.milliseconds(), around.milliseconds());
  }
}

// Each call fails once, in loading, running and at the end: an Error of kind device, nothing that leaks or hangs. After
// 700 the context is lost and cannot give anything back.
TEST_F(GpuTest, EachCallMayFail) {
  NEEDS_IMAGES();
  const auto work = [] {
    Softmax s(GpuDevice::open(0));
    const GpuRecording recording = s.stream.record([&] { s.enqueue(); });
    s.stream.run(recording);
    s.stream.wait();
    GpuTimer timer(s.gpu);
    timer.begin(s.stream);
    timer.end(s.stream);
    timer.milliseconds();
  };
  std::vector<std::string> names;
#define SPARKPILOT_NAME(name, parameters) names.push_back(#name);
  SPARKPILOT_CUDA_FUNCTIONS(SPARKPILOT_NAME)
  int failed = 0;
  for (const char* gpu : {"gb10", "rtx4090"}) {
    for (const std::string& name : names) {
      for (const char* code : {"2", "700"}) {
        for (int nth = 1; nth <= 2; ++nth) {
          emulate(gpu, (name + ":" + std::to_string(nth + (name == "cuInit")) + ":" + code).c_str());
          const bool is_end = name.find("Free") != std::string::npos || name.find("Destroy") != std::string::npos ||
                              name.find("Unload") != std::string::npos || name.find("Release") != std::string::npos;
          const std::string error = error_of(work);
          failed += !error.empty();
          if (!error.empty()) {
            EXPECT_NE(error.find(std::string(code) == "2" ? "OUT_OF_MEMORY" : "ILLEGAL_ADDRESS"), std::string::npos)
                << name << error;
          }
          if (std::string(code) == "2" && !is_end && name != "cuCtxSetCurrent") {
            EXPECT_EQ(held_by_driver(), kNothingHeld) << gpu << " " << name << " " << nth << " " << error;
          }
        }
      }
    }
  }
  EXPECT_GT(failed, 80);
  unsetenv("EMULATED_CUDA_FAIL");
  emulate("gb10");
}

}  // namespace gpu_test
}  // namespace sparkpilot
