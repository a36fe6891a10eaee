#include "monitor/output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "monitor/sampler.h"
#include "monitor/scripted_source.h"

namespace sparkpilot::monitor {
namespace {

using Json = nlohmann::ordered_json;

Sample sample_of(double seconds, std::optional<double> power, std::optional<double> energy = {}) {
  Sample sample;
  sample.seconds = seconds;
  GpuSample& gpu = sample.gpus.emplace_back();
  gpu.gpu.name = "NVIDIA \"GB10\"";
  gpu.gpu.power_w = power;
  gpu.energy_j = energy;
  return sample;
}

TEST(Quantities, HumanForms) {
  EXPECT_EQ(human(Unit::percent, 0), "0 %");
  EXPECT_EQ(human(Unit::percent, 0.26), "0.3 %");
  EXPECT_EQ(human(Unit::percent, 9.96), "10 %");
  EXPECT_EQ(human(Unit::percent, 412), "412 %");
  EXPECT_EQ(human(Unit::megahertz, 2411), "2411 MHz");
  EXPECT_EQ(human(Unit::watts, 41.26), "41.3 W");
  EXPECT_EQ(human(Unit::bytes, 0), "0 B");
  EXPECT_EQ(human(Unit::bytes, 1024), "1.00 KiB");
  EXPECT_EQ(human(Unit::bytes, 128524140544), "120 GiB");
  EXPECT_EQ(human(Unit::bytes_per_second, 1.314e6), "1.31 MB/s");
  EXPECT_EQ(human(Unit::bytes_per_second, 999.9), "1.00 kB/s");
  EXPECT_EQ(human(Unit::joules, 5300), "5.30 kJ");
  EXPECT_EQ(human(Unit::count, 2.414), "2.41");
  EXPECT_EQ(human(Unit::count, {}), "n/a");
}

TEST(Quantities, NamesAreColumnsWhateverADeviceIsCalled) {
  Sample sample;
  sample.disks.push_back({"a,\"b\nc", {}, {}, {}});
  for (const Quantity& quantity : quantities(sample)) {
    if (quantity.group != "disk") continue;
    EXPECT_EQ(quantity.instance, "a__b_c");
  }
}

TEST(Output, JsonIsNullWhereNothingIsKnown) {
  Sample sample = sample_of(1.25, 41.2567);
  sample.interval_s = 1;
  sample.processes.push_back({7, "", {}, {}, true, {}});
  const Json json = to_json(sample, "2026-03-01T12:00:00.250Z");
  EXPECT_EQ(json["time"], "2026-03-01T12:00:00.250Z");
  EXPECT_EQ(json["seconds"], 1.25);
  EXPECT_EQ(json["gpus"][0]["gpu"], "0");
  EXPECT_EQ(json["gpus"][0]["power_w"], 41.257);
  EXPECT_TRUE(json["gpus"][0]["temperature_c"].is_null());
  EXPECT_TRUE(json["gpus"][0]["throttle_reasons"].is_null());
  EXPECT_TRUE(json["memory"]["used_bytes"].is_null());
  EXPECT_TRUE(json["processes"]["list"][0]["name"].is_null());
  EXPECT_TRUE(json["processes"]["count"].is_null());
  // Every quantity has its key, whether known or not.
  for (const Quantity& quantity : quantities(sample)) {
    const Json& place =
        quantity.instance.empty() ? json[std::string(quantity.group)] : json[std::string(quantity.group) + "s"][0];
    EXPECT_TRUE(place.contains(quantity.key())) << quantity.column();
  }
}

TEST(Output, CsvKeepsItsColumns) {
  Sample two = sample_of(1, 40);
  two.gpus.push_back(two.gpus[0]);
  two.gpus[1].index = 1;
  const Csv csv(two);
  const std::string heading = csv.heading();
  EXPECT_EQ(heading.rfind("time,seconds,gpu.0.utilization_percent,", 0), 0U);
  const auto commas = [](const std::string& text) { return std::count(text.begin(), text.end(), ','); };
  Sample one = sample_of(2, {});
  one.disks.push_back({"new", 1, 1, 1});
  for (const Sample& sample : {two, one}) EXPECT_EQ(commas(csv.row(sample, "t")), commas(heading));
  EXPECT_EQ(csv.row(one, "t").rfind("t,2.000,,", 0), 0U);
  // The cell in the column with this heading.
  const auto cell = [&](const std::string& row, const std::string& column) {
    std::stringstream names(heading), cells(row);
    for (std::string name, text; std::getline(names, name, ',') && std::getline(cells, text, ',');) {
      if (name == column) return text;
    }
    return std::string("none");
  };
  EXPECT_EQ(cell(csv.row(two, "t"), "gpu.1.power_w"), "40");
  EXPECT_EQ(cell(csv.row(one, "t"), "gpu.1.power_w"), "");
}

TEST(Output, TextSaysNotAvailable) {
  const std::string text = to_text(sample_of(1, 40), 5);
  EXPECT_NE(text.find("GPU 0  NVIDIA \"GB10\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  power                      40.0 W\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  temperature                   n/a\n"), std::string::npos) << text;
}

TEST(Summary, SaysMeanPercentilesAndMost) {
  Summary summary(sample_of(0, 0));
  for (int i = 1; i <= 100; ++i) {
    Sample sample = sample_of(i, i);
    if (i <= 3) sample.cpu.percent = 10 * i;  // later values are unknown, and do not count
    summary.add(sample);
  }
  std::map<std::string, Statistics> rows;
  for (const Summary::Row& row : summary.rows()) rows[row.quantity.column()] = row.statistics;
  EXPECT_EQ(rows.size(), 2U);
  const Statistics power = rows["gpu.0.power_w"];
  EXPECT_DOUBLE_EQ(power.mean, 50.5);
  EXPECT_DOUBLE_EQ(power.p50, 50);
  EXPECT_DOUBLE_EQ(power.p99, 99);
  EXPECT_DOUBLE_EQ(power.max, 100);
  EXPECT_EQ(rows["cpu.utilization_percent"].count, 3);
  EXPECT_DOUBLE_EQ(rows["cpu.utilization_percent"].mean, 20);
  EXPECT_DOUBLE_EQ(*summary.energy().at(0).joules, 5000);  // counted from the start, before the first sample
  EXPECT_DOUBLE_EQ(summary.energy()[0].seconds, 100);
  const Json json = to_json(summary);
  EXPECT_EQ(json["samples"], 100);
  EXPECT_EQ(json["quantities"]["gpu.0.power_w"]["p99"], 99);
}

TEST(Summary, ALongSeriesTakesBoundedMemoryAndStaysRight) {
  Series series;
  constexpr int kCount = 200'000;
  for (int i = 1; i <= kCount; ++i) series.add(i);
  const Statistics s = series.statistics();
  EXPECT_EQ(s.count, kCount);
  EXPECT_DOUBLE_EQ(s.mean, (kCount + 1) / 2.0);
  EXPECT_DOUBLE_EQ(s.max, kCount);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_NEAR(s.p50, kCount * 0.5, kCount * 0.001);
  EXPECT_NEAR(s.p99, kCount * 0.99, kCount * 0.001);
}

TEST(Energy, ByTheCounterElseByPower) {
  EnergyMeter counted, integrated, none, reset, standing;
  for (int i = 0; i <= 10; ++i) {
    counted.add(sample_of(i, 40, 1000 + 50 * i));
    if (i != 5) integrated.add(sample_of(i, 10 * i));
    none.add(sample_of(i, {}));
    reset.add(sample_of(i, 40, i < 5 ? 1000 + i : i));  // the driver was reloaded
    standing.add(sample_of(i, 40, 7));
  }
  EXPECT_TRUE(counted.energy().at(0).counted);
  EXPECT_DOUBLE_EQ(*counted.energy()[0].joules, 500);
  EXPECT_FALSE(integrated.energy().at(0).counted);
  EXPECT_DOUBLE_EQ(*integrated.energy()[0].joules, 500);
  EXPECT_DOUBLE_EQ(integrated.energy()[0].seconds, 10);
  EXPECT_EQ(none.energy().at(0).joules, std::nullopt);
  EXPECT_DOUBLE_EQ(*reset.energy().at(0).joules, 400);
  EXPECT_DOUBLE_EQ(*standing.energy().at(0).joules, 400);
}

TEST(Energy, NoPowerNoEnergyForThatTime) {
  EnergyMeter meter;
  for (int i = 0; i <= 10; ++i) meter.add(sample_of(i, i == 5 ? std::nullopt : std::optional(40.0)));
  EXPECT_DOUBLE_EQ(*meter.energy().at(0).joules, 320);
  EXPECT_DOUBLE_EQ(meter.energy()[0].seconds, 8);
}

TEST(Output, ThePageNamesEveryQuantity) {
  std::ifstream file(std::string(SPARKPILOT_SOURCE_DIR) + "/docs/monitor.md");
  std::stringstream page;
  page << file.rdbuf();
  Sample sample = sample_of(0, 1);
  sample.cpu.clusters.resize(2);
  sample.disks.push_back({"d", {}, {}, {}});
  sample.ports.push_back({"p", {}, {}, {}});
  sample.temperatures.push_back({"t", 40, false});
  for (const Quantity& quantity : quantities(sample)) {
    EXPECT_NE(page.str().find("`" + quantity.key() + "`"), std::string::npos) << quantity.column();
  }
}

}  // namespace
}  // namespace sparkpilot::monitor
