// sparkpilot train in several processes with an emulated GPU each, which exchange gradients by NCCL (emulated) or MPI.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "gpu_sessions.h"
#include "tensor/difference.h"
#include "train_fixture.h"

namespace sparkpilot {
namespace gpu_train_processes_test {

namespace fs = std::filesystem;

constexpr int kUpdates = 3;

class GpuTrainProcesses : public TrainCli {
 protected:
  void SetUp() override {
    NEEDS_IMAGES();
    if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
    write_text(folder.file("libnccl.so.2"), "");  // one that cannot be loaded
  }
  static std::string gpus() { return "EMULATED_GPU=rtx4090,rtx5090 "; }
  // Each rank's driver and NCCL write `run`.cuda and `run`.nccl and the rank.
  std::string launched(const std::string& run, const std::string& environment = "") const {
    return gpus() + "LD_LIBRARY_PATH='" EMULATED_NCCL ":" EMULATED_CUDA "' EMULATED_NCCL_REPORT='" +
           folder.file(run + ".nccl") + "' " + environment +
           " OMPI_MCA_mpi_yield_when_idle=1 timeout 120 mpirun --allow-run-as-root --oversubscribe -np 2 sh -c "
           "'echo $$ > \"" +
           folder.file(run + ".pid") + "$OMPI_COMM_WORLD_RANK\"; EMULATED_CUDA_REPORT=\"" + folder.file(run + ".cuda") +
           R"($OMPI_COMM_WORLD_RANK" exec "$0" "$@"')";
  }
  std::string without_nccl() const { return "LD_LIBRARY_PATH='" + folder.path().string() + ":" EMULATED_CUDA "'"; }
  std::string flags(const std::string& run, int batch, int updates = kUpdates) {
    return "train " + both() + "--network policy --schedule constant --kind lora --rank 2 --threads 1 --dtype fp32 " +
           "--no-rollout --device cuda --evaluate-every 1000 --batch " + std::to_string(batch) + " --updates " +
           std::to_string(updates) + " " + out(run);
  }
  std::string adapter(const std::string& run) const { return folder.file(run) + "/adapter/adapter_model.safetensors"; }
  int64_t count(const std::string& run, const std::string& report, int rank, const std::string& what) const {
    const std::string text = "\n" + read_text(folder.file(run + report) + std::to_string(rank));
    const size_t at = text.find("\n" + what + " ");
    return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + what.size() + 2);
  }
  // Two runs have the same adapter but for rounding; its bytes.
  int64_t expect_same(const std::string& run, const std::string& other) const {
    const std::map<std::string, Tensor> expected = tensors_of(adapter(run)), got = tensors_of(adapter(other));
    EXPECT_EQ(got.size(), expected.size());
    int64_t bytes = 0;
    for (const auto& [name, tensor] : expected) {
      EXPECT_LE(difference_of(got.at(name).view(), tensor.view()).relative_l2, 1e-3) << name;
      bytes += tensor.bytes();
    }
    return bytes;
  }
  static int times(const std::string& text, const std::string& what) {
    int out = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
    return out;
  }
};

// Two processes with batches of 2 take the steps of one with batches of 4; with NCCL the gradients stay on the GPUs.
TEST_F(GpuTrainProcesses, AreOneWithALargerBatch) {
  const ProgramResult one = run_program(flags("one", 4), gpus() + "LD_LIBRARY_PATH='" EMULATED_CUDA "'");
  ASSERT_EQ(one.code, 0) << one.err;
  const ProgramResult nccl = run_program(flags("nccl", 2), launched("nccl"));
  ASSERT_EQ(nccl.code, 0) << nccl.err;
  EXPECT_EQ(times(nccl.err, "NCCL 2.28.9 adds up the gradients"), 1) << nccl.err;
  const ProgramResult mpi = run_program(flags("mpi", 2), launched("mpi", without_nccl()));
  ASSERT_EQ(mpi.code, 0) << mpi.err;
  EXPECT_EQ(times(mpi.err, "process 0: NCCL cannot be loaded: " + folder.file("libnccl.so.2")), 1) << mpi.err;
  EXPECT_EQ(times(mpi.err, "MPI adds up the gradients"), 1) << mpi.err;

  const int64_t bytes = expect_same("one", "nccl");
  // The mean of two is exact but for the sum, in either way.
  EXPECT_EQ(read_text(adapter("nccl")), read_text(adapter("mpi")));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(count("nccl", ".nccl", rank, "call ncclAllReduce"), kUpdates) << rank;
    EXPECT_EQ(count("nccl", ".nccl", rank, "call ncclCommDestroy"), 1) << rank;
    for (const char* way : {"bytes cuMemcpyDtoHAsync_v2", "bytes cuMemcpyHtoDAsync_v2"}) {
      const int64_t without = count("nccl", ".cuda", rank, way), with = count("mpi", ".cuda", rank, way);
      EXPECT_GT(without, 0) << way;
      EXPECT_GE(with - without, kUpdates * bytes) << way;
    }
  }
}

// Two hosts with a GB10 each, whose memory the processor shares. MPI's network carries no gradients.
TEST_F(GpuTrainProcesses, TrainOnTwoHosts) {
  const std::string environment = "EMULATED_GPU=gb10 LD_LIBRARY_PATH='" EMULATED_NCCL ":" EMULATED_CUDA "' ";
  const ProgramResult two =
      run_program(flags("two", 2, 12), environment + "timeout 120 '" SPARKPILOT_SOURCE_DIR "/tests/two_hosts.sh'");
  if (two.code == 77) GTEST_SKIP() << two.err;
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(times(two.err, "NCCL 2.28.9 adds up the gradients"), 1) << two.err;
  ASSERT_EQ(run_program(flags("one", 4, 12), environment).code, 0);
  const int64_t bytes = expect_same("one", "two");
  const size_t sent = two.err.rfind("sent: ");
  ASSERT_NE(sent, std::string::npos) << two.err;
  EXPECT_LT(std::stod(two.err.substr(sent + 6)), 6.0 * static_cast<double>(bytes));  // half of what 12 updates would be
}

// NCCL fails in both; then one is killed while the other waits for it in NCCL.
TEST_F(GpuTrainProcesses, EndWithAFaultWhichIsSaidOnce) {
  const ProgramResult failed =
      run_program(flags("failed", 2) + " --quiet", launched("failed", "EMULATED_NCCL_FAIL=ncclAllReduce:2:1"));
  EXPECT_NE(failed.code, 0);
  EXPECT_EQ(times(failed.err, "ncclAllReduce: unhandled cuda error"), 1) << failed.err;
  bool did = false;
  std::thread killer([&] {
    const std::string checkpoint = folder.file("run") + "/checkpoints/update_00000002";
    for (int i = 0; i < 600 && !did; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (!fs::exists(checkpoint)) continue;
      std::this_thread::sleep_for(std::chrono::seconds(2));  // then it hangs in the next exchange
      did = ::kill(std::stoi(read_text(folder.file("run.pid1"))), SIGKILL) == 0;
    }
  });
  const ProgramResult result =
      run_program(flags("run", 2, 1000) + " --checkpoint-every 1", launched("run", "EMULATED_NCCL_FAIL=hang:3:1"));
  killer.join();
  ASSERT_TRUE(did) << result.err;
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.code, 124) << "it did not end";
  EXPECT_NE(result.err.find("rank 1"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("signal 9"), std::string::npos) << result.err;
}

}  // namespace gpu_train_processes_test
}  // namespace sparkpilot
