// Every machine of tests/machines is recognised correctly.
#include "sparkpilot/machine.h"

#include <gtest/gtest.h>

#include <map>

#include "hw/machine_json.h"
#include "hw/test_machines.h"
#include "hw/test_sanity.h"

namespace sparkpilot {
namespace {

struct Expected {
  HardwareClass hardware;
  Backend backend;
  std::string system, best_gpu, precision;
  size_t gpus;
};
const std::map<std::string, Expected>& expected() {
  using H = HardwareClass;
  using B = Backend;
  static const std::map<std::string, Expected> table = {
      {"spark_founders_edition", {H::dgx_spark, B::cuda, "NVIDIA DGX Spark", "NVIDIA GB10", "fp16", 1}},
      {"spark_nvml_memory", {H::dgx_spark, B::cuda, "NVIDIA DGX Spark", "NVIDIA GB10", "fp16", 1}},
      {"spark_dell", {H::dgx_spark, B::cuda, "Dell Pro Max with GB10", "NVIDIA GB10", "fp16", 1}},
      {"spark_lenovo", {H::dgx_spark, B::cuda, "Lenovo ThinkStation PGX", "NVIDIA GB10", "fp16", 1}},
      {"spark_asus", {H::dgx_spark, B::cuda, "ASUS Ascent GX10", "NVIDIA GB10", "fp16", 1}},
      {"container_without_gpu", {H::dgx_spark, B::cpu, "NVIDIA DGX Spark", "", "fp32", 1}},
      {"pc_two_gpus", {H::nvidia_pc, B::cuda, "X670E Taichi", "NVIDIA GeForce RTX 4090", "fp16", 2}},
      {"laptop_rtx",
       {H::nvidia_pc, B::cuda, "Razer Blade 16 - RZ09-0483", "NVIDIA GeForce RTX 4090 Laptop GPU", "fp16", 1}},
      {"server_h200", {H::nvidia_pc, B::cuda, "NVIDIA DGXH200", "NVIDIA H200", "fp16", 8}},
      {"no_gpu", {H::pc, B::cpu, "QEMU Standard PC (Q35 + ICH9, 2009)", "", "fp32", 0}},
      {"driver_without_device", {H::pc, B::cpu, "Micro-Star International Co., Ltd. MS-7D48", "", "fp32", 0}},
      {"device_without_driver", {H::pc, B::cpu, "Micro-Star International Co., Ltd. MS-7D48", "", "fp32", 1}},
      {"broken_libraries", {H::pc, B::cpu, "Micro-Star International Co., Ltd. MS-7D48", "", "fp32", 1}},
      {"wsl2", {H::nvidia_pc, B::cuda, "", "NVIDIA GeForce RTX 3080 Ti", "fp16", 1}},
      {"comma_tici", {H::comma_device, B::qcom, "comma tici", "", "fp32", 0}},
      {"comma_mici", {H::comma_device, B::qcom, "comma mici", "", "fp32", 0}},
      {"garbage", {H::pc, B::cpu, "", "", "fp32", 0}},
  };
  return table;
}

TEST(Machines, AreWhatTheyAre) {
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(machines_folder())) {
    const std::string name = entry.path().stem().string();
    SCOPED_TRACE(name);
    ASSERT_TRUE(expected().count(name)) << "a recorded machine that nobody expects anything of";
    const Expected& e = expected().at(name);
    const Machine m = machine_of(name);
    const Gpu* const best = best_gpu(m);
    EXPECT_EQ(hardware_class_name(hardware_class(m)), hardware_class_name(e.hardware));
    EXPECT_EQ(is_dgx_spark(m), e.hardware == HardwareClass::dgx_spark);
    EXPECT_EQ(backend_name(backend(m)), backend_name(e.backend));
    EXPECT_EQ(is_nvidia_available(m), e.backend == Backend::cuda);
    EXPECT_EQ(m.identity.system, e.system);
    EXPECT_EQ(best ? best->name : "", e.best_gpu);
    EXPECT_EQ(recommended_precision(best), e.precision);
    EXPECT_EQ(m.gpus.size(), e.gpus);
    EXPECT_EQ(Sanity().check(m), "");
    ++found;
  }
  EXPECT_EQ(found, expected().size());
}

TEST(Spark, IsDescribedWhole) {
  const Machine m = machine_of("spark_founders_edition");
  EXPECT_EQ(m.cpu.model, "Cortex-X925 + Cortex-A725");
  EXPECT_EQ(m.cpu.logical, 20);
  EXPECT_EQ(m.cpu.cores, 20);
  EXPECT_EQ(m.cpu.sockets, 1);
  // Grouped by part, not by frequency or capacity, which differ within a kind.
  ASSERT_EQ(m.cpu.kinds.size(), 2U);
  EXPECT_EQ(m.cpu.kinds[0].name, "Cortex-X925");
  EXPECT_EQ(m.cpu.kinds[0].processors, (std::vector<int>{5, 6, 7, 8, 9, 15, 16, 17, 18, 19}));
  EXPECT_EQ(m.cpu.kinds[1].count, 10);
  EXPECT_EQ(m.cpu.isa, (std::vector<std::string>{"neon", "neon_bf16", "i8mm", "sve", "sve2"}));

  const Gpu& gpu = m.gpus.at(0);
  EXPECT_EQ(gpu.capability, (ComputeCapability{12, 1}));
  EXPECT_EQ(gpu.multiprocessors, 48);
  EXPECT_EQ(gpu.pci, "000f:01:00.0");
  EXPECT_EQ(gpu.pci_id, "10de:2e12");
  EXPECT_EQ(gpu.unified_memory, true);
  EXPECT_EQ(gpu.pageable_memory_access, true);
  EXPECT_EQ(gpu.power_w, 3.0);
  EXPECT_EQ(gpu.process_memory, 0);
  // Values that NVML does not support there, and the link that it invents.
  EXPECT_EQ(gpu.memory_total, std::nullopt);
  EXPECT_EQ(gpu.power_limit_w, std::nullopt);
  EXPECT_EQ(gpu.memory_clock_mhz, std::nullopt);
  EXPECT_EQ(gpu.pcie_generation, std::nullopt);
  EXPECT_EQ(gpu.pcie_width, std::nullopt);
  EXPECT_EQ(m.driver.version, "580.95.05");
  EXPECT_EQ(m.driver.kernel_version, "580.95.05");
  EXPECT_EQ(m.driver.cuda, (ComputeCapability{13, 0}));
  for (const auto supports : {supports_fp16, supports_bf16, supports_fp8, supports_nvfp4}) EXPECT_TRUE(supports(gpu));

  EXPECT_EQ(m.identity.operating_system, "Ubuntu 24.04.3 LTS");
  EXPECT_EQ(m.identity.dgx_os, "7.2.3");
  ASSERT_EQ(m.disks.size(), 2U);
  EXPECT_EQ(m.disks[0].mount, "/");
  EXPECT_EQ(m.disks[0].rotational, false);
  ASSERT_EQ(m.ports.size(), 6U);
  const NetworkPort& port = m.ports[4];
  EXPECT_EQ(port.name, "enp1s0f1np1");
  EXPECT_EQ(port.hca, "rocep1s0f1");
  EXPECT_EQ(port.hca_active, true);
  EXPECT_EQ(port.hca_mbit_per_second, 200'000);
  EXPECT_EQ(port.mbit_per_second, 200'000);
  EXPECT_EQ(port.mtu, 9000);
  EXPECT_EQ(port.driver, "mlx5_core");
  EXPECT_EQ(port.pci, "0000:01:00.1");
  EXPECT_EQ(m.ports[3].mbit_per_second, std::nullopt);  // no cable: -1
}

TEST(Spark, SaysWhichSignsSpoke) {
  const auto signs = [](const std::string& name) {
    std::string out;
    for (const SparkSign& sign : machine_of(name).identity.spark_signs) out += sign.source + "=" + sign.seen + ";";
    return out;
  };
  EXPECT_EQ(signs("spark_lenovo"),
            "DMI=ThinkStation PGX;SMBIOS processor=GB10;GPU=NVIDIA GB10;compute capability=12.1;"
            "processor cores=Cortex-X925 and Cortex-A725;");
  EXPECT_EQ(signs("container_without_gpu"),
            "DMI=NVIDIA_DGX_Spark;GPU=10de:2e12;processor cores=Cortex-X925 and Cortex-A725;");
  EXPECT_EQ(signs("pc_two_gpus"), "GPU=NVIDIA GeForce RTX 3090;architecture=x86_64;");
}

// Each decisive sign alone is enough; signs shared with other machines are not; copied files do not make another
// machine a Spark.
TEST(Spark, IsToldByWeight) {
  const auto arm = [](nlohmann::json parts) {
    parts["architecture"] = "aarch64";
    return small_machine(parts);
  };
  const auto release = one_file("/etc/dgx-release", "DGX_PRETTY_NAME=NVIDIA DGX Spark\n");
  EXPECT_TRUE(is_dgx_spark(arm(release)));
  EXPECT_TRUE(is_dgx_spark(arm(one_file("/etc/fastos-release", "NAME=\"DGX SPARK FASTOS\"\n"))));
  EXPECT_TRUE(is_dgx_spark(arm(one_file("/proc/device-tree/model", std::string("NVIDIA DGX Spark\0", 17)))));
  EXPECT_FALSE(is_dgx_spark(arm(one_file("/etc/fastos-release", "NAME=\"N1x FASTOS\"\n"))));
  EXPECT_FALSE(is_dgx_spark(arm(one_file("/etc/dgx-release", "DGX_NAME=\"DGX Server\"\n"))));

  const auto cores = one_file("/proc/cpuinfo",
                              "processor: 0\nCPU implementer: 0x41\nCPU part: 0xd85\n"
                              "processor: 1\nCPU implementer: 0x41\nCPU part: 0xd87\n");
  const auto gpu = [](const char* name) {
    const nlohmann::json device = {{"name", name}, {"capability_major", 12}, {"capability_minor", 1}};
    return nlohmann::json{{"state", "answered"}, {"devices", {device}}};
  };
  nlohmann::json parts = cores;
  EXPECT_FALSE(is_dgx_spark(arm(parts)));
  parts["cuda"] = gpu("NVIDIA GB10");
  EXPECT_TRUE(is_dgx_spark(arm(parts)));
  parts["cuda"] = gpu("NVIDIA RTX Spark N1X");
  EXPECT_FALSE(is_dgx_spark(arm(parts)));
  parts["cuda"] = gpu("NVIDIA GB100");
  EXPECT_FALSE(is_dgx_spark(arm(parts)));

  parts = release;
  parts["architecture"] = "x86_64";
  EXPECT_FALSE(is_dgx_spark(small_machine(parts)));
  parts = release;
  parts["cuda"] = gpu("NVIDIA H200");
  EXPECT_FALSE(is_dgx_spark(arm(parts)));
}

TEST(Spark, SystemsHaveNames) {
  const auto named = [](const char* vendor, const char* product, const char* family) {
    Identity identity;
    identity.vendor = vendor;
    identity.product = product;
    identity.family = family;
    return gb10_system(identity).value_or(Gb10System{}).name;
  };
  EXPECT_EQ(named("NVIDIA", "NVIDIA_DGX_Spark", ""), "NVIDIA DGX Spark");
  EXPECT_EQ(named("Some Maker", "X1", "DGX Spark"), "DGX Spark");  // the family name is common to all makers
  EXPECT_EQ(named("LENOVO", "30KL0004FC", ""), "Lenovo ThinkStation PGX");
  EXPECT_EQ(named("HP", "HP ZGX Nano G1n AI Station", ""), "HP ZGX Nano G1n");
  EXPECT_EQ(named("Acer", "Veriton GN100", ""), "Acer Veriton GN100");
  EXPECT_EQ(named("Gigabyte Technology Co., Ltd.", "AI TOP ATOM", ""), "Gigabyte AI TOP ATOM");
  EXPECT_EQ(named("Micro-Star International Co., Ltd.", "EdgeXpert-11SUS", ""), "MSI EdgeXpert");
  EXPECT_EQ(named("Some Maker", "BrainSphere GB10 F1", ""), "BrainSphere GB10 F1");
  EXPECT_EQ(named("ASUSTeK COMPUTER INC.", "ROG STRIX", ""), "");
  EXPECT_EQ(named("LENOVO", "ThinkStation P620", ""), "");
  EXPECT_EQ(named("Some Maker", "GB1000", ""), "");
}

TEST(Spark, UpdatesNameItsSystem) {
  EXPECT_EQ(machine_of("spark_dell").identity.dgx_os, "7.4.0");  // the last of several
  EXPECT_EQ(machine_of("spark_asus").identity.dgx_os, "7.6.0");  // without quotes
  EXPECT_EQ(machine_of("spark_lenovo").identity.dgx_os, std::nullopt);
}

TEST(Memory, FollowsNvidiasRule) {
  const Machine asus = machine_of("spark_asus");
  EXPECT_EQ(asus.memory.total, int64_t{127535084} * 1024);
  EXPECT_EQ(asus.memory.allocatable(), (int64_t{14386092} + 33554428) * 1024);
  // If huge pages are reserved, only they count for a GPU without a memory of its own, and swap does not.
  const auto huge =
      small_source(one_file("/proc/meminfo",
                            "MemTotal: 1000000 kB\nMemAvailable: 9000 kB\nSwapTotal: 500 kB\nSwapFree: 500 kB\n"
                            "HugePages_Total: 100\nHugePages_Free: 7\nHugepagesize: 2048 kB\n"));
  Memory memory = probe_memory(*huge);
  EXPECT_EQ(memory.allocatable(), 9500 * 1024);
  memory.unified = true;
  EXPECT_EQ(memory.allocatable(), 7 * 2048 * 1024);
  memory.group_left = 5000;
  EXPECT_EQ(memory.allocatable(), 5000);
  EXPECT_TRUE(asus.memory.unified);
  EXPECT_EQ(asus.memory.group_left, std::nullopt);
  EXPECT_FALSE(machine_of("server_h200").memory.unified);
  EXPECT_EQ(probe_memory(*small_source(nlohmann::json::object())).allocatable(), std::nullopt);
}

TEST(Memory, OfTheGpuIsEmptyWhereItIsTheMachines) {
  // NVML there reports the machine's memory as if it were the GPU's own.
  const Machine m = machine_of("spark_nvml_memory");
  EXPECT_EQ(m.gpus.at(0).memory_total, std::nullopt);
  EXPECT_EQ(m.gpus.at(0).memory_used, std::nullopt);
  EXPECT_EQ(m.gpus.at(0).process_memory, (int64_t{37} << 30) + (int64_t{19} << 20));
  EXPECT_EQ(m.memory.available, int64_t{78783176} * 1024);
  EXPECT_EQ(machine_of("server_h200").gpus.at(3).process_memory, int64_t{98303} << 20);
}

TEST(Json, HasNullForWhatIsNotKnown) {
  const nlohmann::json spark = machine_json(machine_of("spark_founders_edition"));
  EXPECT_EQ(spark["hardware_class"], "dgx_spark");
  EXPECT_EQ(spark["gpus"][0]["capability"], "12.1");
  EXPECT_TRUE(spark["gpus"][0]["power_limit_w"].is_null());
  EXPECT_EQ(spark["gpus"][0]["precisions"], (nlohmann::json{"fp32", "fp16", "bf16", "fp8", "fp4"}));
  EXPECT_EQ(machine_json(machine_of("pc_two_gpus"))["best_gpu"], 1);
  const nlohmann::json nothing = machine_json(Machine{});
  EXPECT_TRUE(nothing["cpu"]["logical"].is_null());
  EXPECT_TRUE(nothing["memory"]["total_bytes"].is_null());
  EXPECT_TRUE(nothing["best_gpu"].is_null());
}

}  // namespace
}  // namespace sparkpilot
