#include "monitor/view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "hw/test_machines.h"
#include "monitor/sampler.h"

namespace sparkpilot::monitor {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A DGX Spark during training, as it could be after `second` seconds.
Sample spark(int second) {
  Sample sample;
  sample.seconds = second;
  sample.interval_s = 1;
  const double wave = std::sin(second * 0.12) * 0.5 + std::sin(second * 0.31) * 0.3;
  GpuSample& gpu = sample.gpus.emplace_back();
  gpu.gpu.name = "NVIDIA GB10";
  gpu.gpu.unified_memory = true;
  gpu.gpu.gpu_percent = static_cast<int>(78 + 18 * wave);
  gpu.gpu.sm_clock_mhz = 2411;
  gpu.gpu.power_w = 58.4 + 11 * wave;
  gpu.gpu.temperature_c = 71;
  gpu.gpu.slowdown_temperature_c = 86;
  gpu.gpu.process_memory = 31 * kGiB + kGiB / 2;
  gpu.throttle_reasons = {"power cap"};
  sample.memory.total = int64_t{119} * kGiB + kGiB * 7 / 10;
  sample.memory.available = 71 * kGiB;
  sample.memory.page_cache = 22 * kGiB;
  sample.memory.swap_total = 16 * kGiB;
  sample.memory.swap_free = 16 * kGiB;
  sample.cpu = {43.0 + 20 * wave, 3612, 64, 6.31, {}, {}};
  sample.cpu.clusters = {{"Cortex-X925", {}, 61.0 + 20 * wave, 3612, 3900}, {"Cortex-A725", {}, 25, 2808, 2808}};
  for (int i = 0; i < 20; ++i) {
    const bool fast = i % 10 >= 5;
    sample.cpu.clusters[fast ? 0 : 1].processors.push_back(i);
    sample.cpu.processors.push_back({i, std::fmod(i * 37.0 + second * 11, fast ? 100 : 55)});
  }
  sample.disks = {{"nvme0n1", 1.314e9, 2.1e6, 62}};
  sample.ports = {{"enp1s0f1np1", 11.2e6, 0.4e6, 200'000}, {"wlP9s9", 0, 0, {}}};
  sample.processes = {{41822, "python3 train.py", 312, 9 * kGiB, true, 28 * kGiB},
                      {41901, "sparkpilot", 96, kGiB, true, 3 * kGiB + kGiB / 4},
                      {2210, "Xorg", 1.2, kGiB / 8, true, kGiB / 4},
                      {41377, "ffmpeg", 188, kGiB / 3, false, {}},
                      {41911, "tensorboard", 14, kGiB / 2, false, {}},
                      {41950, "bash run.sh", 0.4, kGiB / 200, false, {}},
                      {3172, "dockerd", 0.9, kGiB / 11, false, {}},
                      {881, "nvidia-persiste", 0, kGiB / 512, false, {}},
                      {1, "systemd", 0, kGiB / 80, false, {}}};
  sample.process_count = 412;
  return sample;
}

Sample two_gpus() {
  Sample sample = spark(0);
  GpuSample& gpu = sample.gpus[0];
  gpu.gpu.name = "NVIDIA GeForce RTX 4090";
  gpu.gpu.unified_memory.reset();
  gpu.gpu.memory_total = 24 * kGiB;
  gpu.gpu.memory_used = 20 * kGiB;
  gpu.gpu.temperature_c = 88;
  gpu.throttle_reasons = {"hot (software)"};
  sample.gpus.push_back(gpu);
  sample.gpus[1].index = 1;
  sample.gpus[1].gpu = {};
  sample.gpus[1].gpu.name = "NVIDIA RTX A400";
  sample.gpus[1].throttle_reasons.reset();
  return sample;
}

History history_of(int seconds) {
  History history;
  for (int i = 0; i < seconds; ++i) history.add(spark(i));
  return history;
}

ViewState state_of() { return {"NVIDIA DGX Spark", "14:03:20", Sort::gpu, false, false, false, 1}; }

std::string drawn(const Sample& sample, int width = 80, int height = 24, const ViewState& state = state_of()) {
  return draw(sample, history_of(300), state, width, height).str();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(View, ShowsWhatMattersIn80By24) {
  const std::string text = drawn(spark(300));
  for (const char* part : {"sparkpilot  NVIDIA DGX Spark",
                           "14:03:20",
                           "GPU 0 NVIDIA GB10",
                           "power cap",
                           "2411 MHz",
                           "71 C",
                           "W",
                           "48.7 of 120 GiB",
                           "31.5 GiB by GPU processes",
                           "20 processors",
                           "load 6.31",
                           "3612 MHz",
                           "X925",
                           "A725",
                           "available 71.0 GiB",
                           "nvme0n1",
                           "1.31 GB/s",
                           "enp1s0f1np1",
                           "11.2 MB/s",
                           "Processes 412",
                           "python3 train.py",
                           "28.0 GiB",
                           "312 %",
                           "q quit",
                           "sort: gpu",
                           "every 1 s"}) {
    EXPECT_TRUE(has(text, part)) << part << "\n" << text;
  }
  const std::string two = drawn(two_gpus());
  for (const char* part : {"GPU 0 NVIDIA GeForce RTX 4090", "hot (software)", "20.0 of 24.0 GiB", "88 C",
                           "GPU 1 NVIDIA RTX A400", "used", "python3 train.py"}) {
    EXPECT_TRUE(has(two, part)) << part << "\n" << two;
  }
}

// The picture in README.md: SPARKPILOT_SAMPLE_VIEW=FILE.html writes the page from which it is taken, with the
// terminal's colours.
TEST(View, SamplePage) {
  constexpr const char* kColours[] = {"#c8ccd4", "#767c88", "#ffffff", "#87d787", "#5fafff",
                                      "#d787d7", "#d7af87", "#ffd75f", "#ff5f5f"};
  const Canvas canvas = draw(spark(300), history_of(300), state_of(), 120, 29);
  // Every character gets a box: for those missing in its font, a browser uses another font with other widths.
  std::string page =
      "<meta charset=utf-8><style>body{margin:0;background:#16181d}pre{margin:14px;font:15px/19px 'DejaVu Sans Mono'}"
      "i{font-style:normal;display:inline-block;width:9px;height:19px;overflow:hidden;vertical-align:top}</style><pre>";
  for (int y = 0; y < canvas.height(); ++y) {
    for (int x = 0; x < canvas.width(); ++x) {
      const Cell& cell = canvas.at(x, y);
      page += std::string("<i style=color:") + kColours[static_cast<int>(cell.ink)] +
              (cell.ink == Ink::bright ? ";font-weight:bold>" : ">") + utf8(cell.symbol) + "</i>";
    }
    page += "\n";
  }
  EXPECT_TRUE(has(page, "\u2588"));
  if (const char* file = std::getenv("SPARKPILOT_SAMPLE_VIEW")) std::ofstream(file) << page;
}

TEST(View, SaysNotAvailableNeverZero) {
  const std::string text = drawn(Sample());
  EXPECT_FALSE(has(text, " 0 ")) << text;
  EXPECT_TRUE(has(text, "n/a"));
  Sample lost;
  lost.gpus.emplace_back();
  lost.gpu_problem = "NVML hangs";
  EXPECT_TRUE(has(drawn(lost), "GPU 0 lost")) << drawn(lost);
  EXPECT_TRUE(has(drawn(lost), "NVML hangs"));
  EXPECT_FALSE(has(drawn(lost), " 0 %"));
  lost.gpus[0].gpu.nvml_index = 0;  // it answers, but with an empty name
  EXPECT_TRUE(has(drawn(lost), "GPU 0 n/a")) << drawn(lost);
}

TEST(View, AnySizeAnyMachine) {
  std::vector<Sample> samples = {Sample(), spark(3), two_gpus()};
  Sample many = two_gpus();
  for (int i = 2; i < 16; ++i) {
    many.gpus.push_back(many.gpus[0]);
    many.gpus.back().index = i;
  }
  for (int i = 0; i < 300; ++i) many.cpu.processors.push_back({i, 50.0});
  for (int i = 0; i < 40; ++i) many.disks.push_back({"disk" + std::to_string(i), 1, 1, 1});
  many.gpus[0].gpu.name = std::string(300, 'x');
  many.processes[0].name = std::string(300, 'y');
  samples.push_back(many);
  const History history = history_of(300);
  ViewState state = state_of();
  for (const Sample& sample : samples) {
    for (const bool ascii : {false, true}) {
      state.ascii = ascii;
      state.help = ascii;
      for (int width = 0; width <= 260; width += width < 130 ? 3 : 20) {
        for (int height = 0; height <= 80; height += height < 40 ? 1 : 9) {
          const Canvas canvas = draw(sample, history, state, width, height);
          ASSERT_EQ(canvas.width(), width);
          ASSERT_EQ(canvas.height(), height);
          bool only_ascii = true;
          for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) only_ascii = only_ascii && canvas.at(x, y).symbol < 0x7f;
          }
          if (ascii) {
            ASSERT_TRUE(only_ascii) << canvas.str();
          }
          if (width >= kMinWidth && height >= kMinHeight && !state.help) {
            ASSERT_TRUE(has(canvas.str(), "q quit")) << width << "x" << height;
          }
        }
      }
    }
  }
  EXPECT_TRUE(has(drawn(many, 120, 40), "more")) << drawn(many, 120, 40);  // more GPUs than there is room for
  EXPECT_TRUE(has(drawn(spark(1), 39, 24), "is too small"));
}

// Every section has its place; at any height, processes get rows before curves grow.
TEST(View, EverySectionHasItsPlace) {
  for (const Sample& sample : {spark(5), two_gpus()}) {
    for (const int width : {60, 80, 99, 100, 120, 200}) {
      for (const int height : {24, 30, 40, 60}) {
        const std::string text = drawn(sample, width, height);
        for (const char* part :
             {"GPU 0", "CPU", "Memory", "Disks", "etwork", "nvme0n1", "enp1s0f1np1", "Processes", "python3 train.py"}) {
          EXPECT_TRUE(has(text, part)) << part << " in " << width << "x" << height << "\n" << text;
        }
      }
    }
  }
}

TEST(View, SortsAndPauses) {
  ViewState state = state_of();
  const auto first = [&](Sort sort) {
    state.sort = sort;
    const std::string text = drawn(spark(1), 80, 40, state);
    const size_t row = text.find("command\n") + 8;
    return text.substr(row, text.find('\n', row) - row);
  };
  EXPECT_TRUE(has(first(Sort::gpu), "python3 train.py"));
  EXPECT_TRUE(has(first(Sort::cpu), "312 %"));
  EXPECT_TRUE(has(first(Sort::memory), "9.00 GiB"));
  EXPECT_TRUE(has(first(Sort::pid), "systemd"));
  EXPECT_FALSE(has(drawn(spark(1), 80, 24, state), "paused"));
  state.paused = true;
  EXPECT_TRUE(has(drawn(spark(1), 80, 24, state), "paused"));
  state.help = true;
  EXPECT_TRUE(has(drawn(spark(1), 80, 24, state), "sort by the next column"));
}

TEST(View, EveryRecordedMachineIsDrawn) {
  for (const auto& file : std::filesystem::directory_iterator(machines_folder())) {
    const auto source = source_of(file.path().stem());
    const Sample sample = Sampler(*source).next(0);
    const std::string text = draw(sample, History(), state_of(), 80, 24).str();
    EXPECT_TRUE(has(text, "Memory")) << file.path() << text;
  }
}

TEST(View, IntervalsStep) {
  EXPECT_DOUBLE_EQ(step_interval(1, true), 2);
  EXPECT_DOUBLE_EQ(step_interval(1, false), 0.5);
  EXPECT_DOUBLE_EQ(step_interval(0.3, false), 0.25);
  EXPECT_DOUBLE_EQ(step_interval(0.1, false), 0.1);
  EXPECT_DOUBLE_EQ(step_interval(60, true), 60);
  EXPECT_DOUBLE_EQ(step_interval(3600, true), 3600);
}

TEST(Canvas, BarsInEighths) {
  Canvas canvas(8, 3, false);
  canvas.bar(0, 0, 4, 0.5, Ink::gpu);
  canvas.bar(0, 1, 4, 0.28125, Ink::gpu);  // one and one eighth of a character
  canvas.bar(0, 2, 4, {}, Ink::gpu);
  EXPECT_EQ(canvas.str(), "██··\n█▏··\n····\n");
  Canvas ascii(8, 1, true);
  ascii.bar(0, 0, 4, 0.6, Ink::gpu);
  EXPECT_EQ(ascii.str(), "##..\n");
}

TEST(Canvas, CurvesInDots) {
  const std::vector<std::optional<double>> values = {100, {}, 50, 0, 100, 25};
  Canvas canvas(4, 1, false);
  canvas.curve(0, 0, 4, 1, values, 100, Ink::gpu);
  EXPECT_EQ(canvas.str(), " \u2847\u28c4\u28c7\n");
  Canvas high(3, 2, true);
  high.curve(0, 0, 3, 2, values, 100, Ink::gpu);
  EXPECT_EQ(high.str(), " #\n.#.\n");
}

TEST(Canvas, CutsWhatIsOutside) {
  Canvas canvas(3, 1, false);
  canvas.text(-1, 0, "abcdef", Ink::text);
  canvas.text(0, 5, "x", Ink::text);
  EXPECT_EQ(canvas.str(), "bcd\n");
  canvas.text_right(2, 0, "xyz", Ink::text);
  EXPECT_EQ(canvas.str(), "yzd\n");
  canvas.text(0, 0, "\x1b\xff", Ink::text);
  EXPECT_EQ(canvas.str(), "??d\n");
}

}  // namespace
}  // namespace sparkpilot::monitor
