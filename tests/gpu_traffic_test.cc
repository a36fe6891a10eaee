// The stand-ins in full size, once, with kernels that are checked: what they compute, no race and no access outside of
// memory at the sizes of real plans, and what each line of the hot kernels moves of memory for the bytes that it wants.
#include <algorithm>
#include <map>
#include <sstream>

#include "gpu_main.h"
#include "networks.h"
#include "ops/cuda/images.h"
#include "sim/test_worlds.h"
#include "tensor/difference.h"

namespace sparkpilot::testing {
namespace gpu_traffic_test {

struct Line {
  std::string kernel, place, kind;  // kind: "shared", "read", "write"
  double requests = 0, bytes = 0, sectors = 0;
  int worst_bank = 0;
  // A copy to shared memory is one line with both ends: its bytes count twice, its sectors once.
  double used() const { return bytes / (kind == "shared" ? 64 : 32) / sectors; }
};

// Lines that read something else than weights, and use less of a sector or conflict more than is allowed to the others.
struct Known {
  const char *kernel, *file;
  double least_used;
  int worst_bank;
};
constexpr Known kKnown[] = {
    // An image with channels first, a value of every second pixel at a time; the cache keeps the others.
    {"conv_any_", "conv_elements.cuh", 0.4, 2},
    // Activations, eight of a lane in two loads; the first-level cache keeps the other half of a sector.
    {"gemv_f32_weights_", "storage.cuh", 0.5, 2},
    {"gemv_group_f32_weights_", "storage.cuh", 0.5, 2},
};

bool is_hot(const std::string& kernel) {
  const char* const families[] = {"conv", "depthwise", "gemv", "gemm", "attention"};
  return std::any_of(std::begin(families), std::end(families), [&](const char* f) { return kernel.starts_with(f); });
}

// The findings and the lines of the driver's report.
std::vector<Line> checked_lines() {
  std::istringstream report(driver_report());
  std::vector<Line> lines;
  for (std::string text; std::getline(report, text);) {
    EXPECT_FALSE(text.starts_with("finding ")) << text;
    if (!text.starts_with("traffic ")) continue;
    std::istringstream words(text.substr(sizeof "traffic"));
    Line line;
    words >> line.kernel >> line.place >> line.kind >> line.requests >> line.bytes >> line.sectors >> line.worst_bank;
    EXPECT_TRUE(words) << text;
    lines.push_back(line);
  }
  return lines;
}

class GpuTraffic : public NetworkTest {
 protected:
  void SetUp() override {
    emulate_plainly();
    setenv("EMULATED_CUDA_CHECK", "1", 1);
    emulate("gb10");
    NetworkTest::SetUp();
  }
  Session session(const char* device, Precision precision) const {
    SessionOptions options{.device = device, .threads = 1, .tune = Tune::off};
    options.passes.precision = precision;
    Session out(network_.load(), options);
    fill_inputs(out, 7);
    out.run();
    return out;
  }
};

TEST_P(GpuTraffic, MovesWholeSectors) {
  NEEDS_IMAGES();
  Session gpu = session("cuda", Precision::fp16);
  const std::vector<Line> lines = checked_lines();
  std::map<std::string, double> sectors;
  for (const Line& line : lines) sectors[line.kernel] += line.sectors;
  int seen = 0;
  for (const Line& line : lines) {
    if (!is_hot(line.kernel)) continue;
    double least = 0.9;
    int worst = 2;
    for (const Known& known : kKnown) {
      if (!line.kernel.starts_with(known.kernel) || !line.place.starts_with(known.file)) continue;
      least = known.least_used;
      worst = known.worst_bank;
    }
    EXPECT_LE(line.worst_bank, worst) << line.kernel << " " << line.place;
    // What moves less than a twentieth of a kernel's sectors is no weights: operands of epilogues, results of one
    // value.
    if (line.sectors == 0 || line.kind == "write" || line.sectors < 0.05 * sectors[line.kernel]) continue;
    ++seen;
    EXPECT_GE(line.used(), least) << line.kernel << " " << line.place << " " << line.kind << ": "
                                  << line.sectors / sectors[line.kernel] << " of the kernel's sectors";
  }
  EXPECT_GT(seen, 3);
  Session cpu = session("cpu", Precision::fp32);
  const std::vector<Tensor> got = results(gpu), expected = results(cpu);
  DifferenceSum difference;
  for (size_t i = 0; i < got.size(); ++i) difference.add(got[i].view(), expected[i].view());
  EXPECT_LE(difference.result().relative_l2, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuTraffic,
                         ::testing::Values("driving_vision", "driving_policy", "dmonitoring_model"), test_name);

// Worlds of one kind of car: their delays are the same, so a warp reads one slot of its rings.
TEST(GpuWorlds, MoveWholeSectors) {
  NEEDS_IMAGES();
  emulate_plainly();
  setenv("EMULATED_CUDA_CHECK", "1", 1);
  emulate("h100");
  const auto alike = [](int64_t i) {
    sim::WorldSpec world;
    world.course.speed = 10 + 0.1 * static_cast<double>(i);
    return world;
  };
  for (const sim::Lateral lateral : sim::kGpuControls) {
    for (const sim::Tyres tyres : sim::kTyres) {
      sim::BatchOptions options{.lateral = lateral, .tyres = tyres, .steps = 110, .number = sim::Number::single};
      const auto expected = sim::run_worlds(130, alike, options);
      options.gpu = GpuDevice::open(0);
      EXPECT_EQ(sim::run_worlds(130, alike, options), expected);
    }
  }
  int seen = 0;
  for (const Line& line : checked_lines()) {
    if (line.sectors == 0) continue;
    ++seen;
    EXPECT_GE(line.used(), 0.99) << line.kernel << " " << line.place << " " << line.kind;
  }
  EXPECT_GE(seen, 9 * 4);
}

}  // namespace gpu_traffic_test
}  // namespace sparkpilot::testing

int main(int argc, char** argv) { return sparkpilot::run_with_emulated_driver(argc, argv, EMULATED_CUDA_CHECKED); }
