// The parts of a machine, each on its own.
#include "hw/probe.h"

#include <gtest/gtest.h>

#include "hw/test_machines.h"

namespace sparkpilot {
namespace {

TEST(Gpus, AreMergedByAddress) {
  const Machine m = machine_of("pc_two_gpus");
  ASSERT_EQ(m.gpus.size(), 2U);
  EXPECT_EQ(m.gpus[0].name, "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(m.gpus[0].nvml_index, 0);
  EXPECT_EQ(m.gpus[0].cuda_index, 1);
  EXPECT_EQ(m.gpus[0].multiprocessors, 82);
  EXPECT_EQ(m.gpus[1].cuda_index, 0);
  EXPECT_EQ(m.gpus[1].multiprocessors, 128);
  EXPECT_EQ(m.gpus[1].memory_total, int64_t{24564} << 20);
  EXPECT_EQ(m.gpus[1].power_limit_w, 450.0);
  EXPECT_EQ(m.gpus[1].pcie_max_generation, 4);
  EXPECT_EQ(m.other_gpus, std::vector<std::string>{"amdgpu 1002:164e"});
  EXPECT_TRUE(supports_fp8(m.gpus[1]));
  EXPECT_FALSE(supports_fp8(m.gpus[0]));
  EXPECT_FALSE(supports_nvfp4(m.gpus[1]));
  EXPECT_FALSE(supports_fp16(Gpu{}));
}

TEST(Gpus, AreSeenWithoutADriver) {
  const Machine m = machine_of("device_without_driver");
  EXPECT_EQ(m.gpus.at(0).pci_id, "10de:2786");
  EXPECT_EQ(m.gpus.at(0).kernel_driver, "nouveau");
  EXPECT_EQ(m.driver.nvml_problem + m.driver.cuda_problem, "");  // nothing is broken: there is no driver
  const Driver broken = machine_of("broken_libraries").driver;
  EXPECT_EQ(broken.kernel_version, "580.82.09");
  EXPECT_EQ(broken.nvml_problem, "NVML does not start: NVML_ERROR_LIB_RM_VERSION_MISMATCH");
  EXPECT_EQ(broken.cuda_problem, "libcuda cannot be loaded: /usr/lib/x86_64-linux-gnu/libcuda.so.1: file too short");
  EXPECT_EQ(machine_of("driver_without_device").driver.cuda_problem, "libcuda does not start: CUDA_ERROR_NO_DEVICE");
  const Machine hangs =
      small_machine({{"nvml", {{"state", "timed_out"}, {"reason", "nvmlInit did not come back within 0.5 s"}}}});
  EXPECT_EQ(hangs.driver.nvml_problem, "NVML hangs: nvmlInit did not come back within 0.5 s");
}

TEST(Gpus, ThatMayNotComputeAreNotChosen) {
  nlohmann::json device = {{"name", "NVIDIA A2"},   {"capability_major", 8}, {"capability_minor", 6},
                           {"multiprocessors", 10}, {"pci_domain", 0},       {"pci_bus", 1},
                           {"pci_device", 0}};
  const auto with = [](const std::vector<nlohmann::json>& devices) {
    return small_machine({{"cuda", {{"state", "answered"}, {"devices", devices}}}});
  };
  const auto chosen = [&](const std::vector<nlohmann::json>& devices) {
    const Machine machine = with(devices);
    const Gpu* const best = best_gpu(machine);
    return best ? best->cuda_index : std::nullopt;
  };
  EXPECT_EQ(chosen({device}), 0);
  nlohmann::json half = device;
  half["multiprocessors"] = 5;
  EXPECT_EQ(with({device, half}).gpus.size(), 1U);  // one partitioned GPU
  half["pci_bus"] = 2;
  EXPECT_EQ(chosen({half, device}), 1);
  device["compute_mode"] = 2;
  EXPECT_EQ(chosen({device}), std::nullopt);
  EXPECT_EQ(chosen({{{"handle", {{"error", 101}}}}}), std::nullopt);
}

TEST(Gpus, SayNoNonsense) {
  const auto device = [](const char* question, const nlohmann::json& value) {
    const nlohmann::json answers = {
        {"name", "NVIDIA X"}, {"memory_total_bytes", 25757220864}, {"pcie_max_width", 16}, {question, value}};
    return small_machine({{"nvml", {{"state", "answered"}, {"devices", {answers}}}}}).gpus.at(0);
  };
  EXPECT_EQ(device("temperature_c", 4294967295).temperature_c, std::nullopt);
  EXPECT_EQ(device("temperature_c", 41).temperature_c, 41);
  EXPECT_EQ(device("gpu_percent", 65535).gpu_percent, std::nullopt);
  EXPECT_EQ(device("gpu_percent", 100).gpu_percent, 100);
  EXPECT_EQ(device("memory_used_bytes", 25757220865).memory_used, std::nullopt);
  EXPECT_EQ(device("memory_used_bytes", 25757220864).memory_used, 25757220864);
  EXPECT_EQ(device("sm_clock_mhz", 0).sm_clock_mhz, std::nullopt);
  EXPECT_EQ(device("sm_clock_mhz", 1'000'000).sm_clock_mhz, std::nullopt);
  EXPECT_EQ(device("power_limit_mw", 0).power_limit_w, std::nullopt);
  EXPECT_EQ(device("pcie_width", 32).pcie_width, std::nullopt);
  EXPECT_EQ(device("pcie_width", 8).pcie_width, 8);
  EXPECT_EQ(device("ecc", 2).ecc, std::nullopt);
  EXPECT_EQ(device("throttle_reasons", -1).throttle_reasons, std::nullopt);
  EXPECT_EQ(small_machine({{"nvml", {{"state", "answered"}, {"devices", {{{"name", "odd \x01"}}}}}}}).gpus.size(), 0U);
}

TEST(Gpus, OfNvmlAlone) {
  for (const char* name : {"pc_two_gpus", "spark_nvml_memory", "server_h200"}) {
    const auto source = source_of(name);
    const Machine whole = probe(*source);
    const std::vector<Gpu> gpus = nvml_gpus(source->nvml());
    ASSERT_EQ(gpus.size(), whole.gpus.size());
    for (size_t i = 0; i < gpus.size(); ++i) {
      EXPECT_EQ(gpus[i].nvml_index, static_cast<int>(i)) << name;
      EXPECT_EQ(gpus[i].name, whole.gpus[i].name) << name;
      EXPECT_EQ(gpus[i].pci, whole.gpus[i].pci) << name;
      EXPECT_EQ(gpus[i].power_w, whole.gpus[i].power_w) << name;
      EXPECT_EQ(gpus[i].memory_total, whole.gpus[i].memory_total) << name;
      EXPECT_EQ(gpus[i].pcie_width, whole.gpus[i].pcie_width) << name;
      EXPECT_EQ(gpus[i].cuda_index, std::nullopt) << name;
    }
  }
  GpuDriverAnswers nvml = source_of("pc_two_gpus")->nvml();
  nvml.devices[0] = {{"handle", {{}, 15}}, {"temperature_c", {int64_t{50}}}};
  const std::vector<Gpu> gpus = nvml_gpus(nvml);
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].nvml_index, std::nullopt);
  EXPECT_EQ(gpus[0].temperature_c, std::nullopt);
  EXPECT_EQ(gpus[1].nvml_index, 1);
  EXPECT_EQ(nvml_problem(nvml), "");
  EXPECT_EQ(nvml_problem(source_of("broken_libraries")->nvml()),
            "NVML does not start: NVML_ERROR_LIB_RM_VERSION_MISMATCH");
}

TEST(Cpu, KindsOfIntelAndThreads) {
  const Cpu laptop = machine_of("laptop_rtx").cpu;
  ASSERT_EQ(laptop.kinds.size(), 2U);
  EXPECT_EQ(laptop.kinds[0].name, "P-core");
  EXPECT_EQ(laptop.kinds[0].count, 8);
  EXPECT_EQ(laptop.kinds[0].processors.size(), 16U);
  EXPECT_EQ(laptop.kinds[0].max_mhz, 5500);
  EXPECT_EQ(laptop.kinds[1].max_mhz, 4000);
  EXPECT_EQ(laptop.cores, 24);
  const Cpu server = machine_of("server_h200").cpu;
  EXPECT_EQ(server.logical, 224);
  EXPECT_EQ(server.cores, std::nullopt);
  EXPECT_EQ(server.isa, (std::vector<std::string>{"avx2", "avx512", "avx512_bf16", "avx512_vnni", "amx_bf16"}));
  EXPECT_EQ(machine_of("comma_tici").cpu.model, "Kryo 3xx Gold + Kryo 3xx Silver");
}

TEST(Disks, AreThoseThatHoldFiles) {
  const std::vector<Disk> disks = machine_of("pc_two_gpus").disks;
  ASSERT_EQ(disks.size(), 4U);
  EXPECT_EQ(disks[2].mount, "/data");  // mounted a second time below /srv
  EXPECT_EQ(disks[2].rotational, true);
  EXPECT_EQ(disks[2].model, "WDC WD80EFZZ-68");
  EXPECT_EQ(disks[3].mount, "/mnt/my routes");
  EXPECT_EQ(disks[3].total, std::nullopt);  // a server may be unreachable: it is not asked
  const auto layered = small_source(
      {{"files",
        {{"/proc/mounts", "/dev/mapper/vg-root / xfs rw 0 0\n"},
         {"/sys/class/block/sda/queue/rotational", "0\n"},
         {"/sys/class/block/sda/device/model", "Disk\n"}}},
       {"links", {{"/dev/mapper/vg-root", "../dm-0"}, {"/sys/class/block/sda2", "../../devices/block/sda/sda2"}}},
       {"folders", {{"/sys/class/block/dm-0/slaves", {"sda2"}}}}});
  EXPECT_EQ(probe_disks(*layered).at(0).model, "Disk");
  const std::vector<Disk> wsl = machine_of("wsl2").disks;
  ASSERT_EQ(wsl.size(), 2U);  // without the drivers that WSL mounts over /usr/lib/wsl
  EXPECT_EQ(wsl[1].mount, "/mnt/c");
  const auto portal = one_file("/proc/mounts", "/dev/fuse /run/user/1000/doc fuse.portal rw 0 0\n");
  EXPECT_TRUE(probe_disks(*small_source(portal)).empty());
  const std::vector<Disk> container = machine_of("container_without_gpu").disks;
  ASSERT_EQ(container.size(), 1U);
  EXPECT_EQ(container[0].mount, "/");
}

TEST(Identity, KnowsContainersAndWindows) {
  EXPECT_EQ(machine_of("container_without_gpu").identity.container, "docker");
  EXPECT_EQ(machine_of("spark_founders_edition").identity.container, std::nullopt);
  const auto identity = [](const nlohmann::json& parts) { return probe_identity(*small_source(parts)); };
  EXPECT_EQ(identity({{"variables", {{"KUBERNETES_SERVICE_HOST", "x"}}}}).container, "kubernetes");
  EXPECT_EQ(identity({{"variables", {{"container", "lxc"}}}}).container, "lxc");
  EXPECT_EQ(identity(one_file("/run/.containerenv", "")).container, "podman");
  EXPECT_EQ(identity(one_file("/proc/1/cgroup", "0::/system.slice/docker-abc\n1:x:/docker/abc\n")).container, "docker");
  EXPECT_EQ(machine_of("wsl2").identity.wsl, 2);
  EXPECT_EQ(machine_of("wsl2").identity.container, std::nullopt);
  EXPECT_EQ(identity(one_file("/proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n")).wsl, 1);
  EXPECT_EQ(identity(one_file("/proc/sys/kernel/osrelease", "6.8.0-generic\n")).wsl, std::nullopt);
  EXPECT_EQ(machine_of("comma_mici").identity.comma_device, "mici");
  EXPECT_EQ(identity({{"architecture", "aarch64"}, {"files", {{"/TICI", ""}}}}).comma_device, "unknown");
  EXPECT_EQ(identity({{"architecture", "x86_64"}, {"files", {{"/TICI", ""}}}}).comma_device, std::nullopt);
}

TEST(Network, KnowsPortsOfInfiniBandWithoutAnInterface) {
  const std::vector<NetworkPort> ports = machine_of("server_h200").ports;
  ASSERT_EQ(ports.size(), 3U);
  EXPECT_EQ(ports[1].name, "");
  EXPECT_EQ(ports[1].hca, "mlx5_0");
  EXPECT_EQ(ports[1].hca_mbit_per_second, 400'000);
  EXPECT_TRUE(ports[1].up);
}

}  // namespace
}  // namespace sparkpilot
