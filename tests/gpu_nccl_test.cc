// Exchanges among processes with a GPU each: mpirun, the emulated driver and the emulated NCCL (tests/emulated_nccl).
// The test's program is also what the launcher starts: `gpu_nccl_test --rank SCENARIO`.
#include <csignal>
#include <filesystem>
#include <iostream>

#include "base/test_files.h"
#include "comm/nccl.h"
#include "gpu_main.h"
#include "program.h"

namespace sparkpilot {
namespace gpu_nccl_test {

// --- a rank

// A buffer on the GPU with floats.
class Floats {
 public:
  Floats(const std::shared_ptr<GpuDevice>& gpu, const std::vector<float>& values)
      : stream_(gpu), size_(values.size()), buffer_(gpu->upload(values.data(), bytes())) {
    gpu->finish_uploads();
  }
  std::span<float> span() const { return {reinterpret_cast<float*>(buffer_->data()), size_}; }
  std::vector<float> values() {
    std::vector<float> out(size_);
    stream_.copy_to_host(out.data(), buffer_->data(), bytes());
    stream_.wait();
    return out;
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(size_ * sizeof(float)); }
  GpuStream stream_;
  size_t size_;
  std::shared_ptr<Buffer> buffer_;
};

std::vector<float> values_of(int rank, size_t size) {
  std::vector<float> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 97) + 0.25f;
  return out;
}

// "right", or what is not: `count` means of values of several sizes.
std::string means(Comm& comm, NcclComm& nccl, const std::shared_ptr<GpuDevice>& gpu, int count = 3) {
  for (int i = 0; i < count; ++i) {
    const size_t size = std::array<size_t, 3>{1, 1000, 300'001}[static_cast<size_t>(i % 3)];
    Floats floats(gpu, values_of(comm.rank(), size));
    const int copied = driver_count("bytes cuMemcpyDtoHAsync_v2"), sent = driver_count("bytes cuMemcpyHtoDAsync_v2");
    nccl.mean(floats.span());
    if (driver_count("bytes cuMemcpyDtoHAsync_v2") != copied || driver_count("bytes cuMemcpyHtoDAsync_v2") != sent)
      return "copied";
    std::vector<float> expected(size);
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::vector<float> theirs = values_of(rank, size);
      for (size_t k = 0; k < size; ++k) expected[k] += theirs[k] / static_cast<float>(comm.size());
    }
    const std::vector<float> got = floats.values();
    for (size_t k = 0; k < size; ++k) {
      if (std::abs(got[k] - expected[k]) > 1e-5f * expected[k]) return "wrong";
    }
  }
  return "right";
}

// What became of joining and three means: "right", "not joined: ...", "failed: ...".
std::string outcome(Comm& comm, int gpu_ordinal, double patience) {
  const std::shared_ptr<GpuDevice> gpu = GpuDevice::open(gpu_ordinal);
  std::string why_not;
  const std::unique_ptr<NcclComm> nccl = NcclComm::join(comm, gpu, why_not, patience);
  if (!nccl) return "not joined: " + why_not;
  std::string result;
  try {
    comm.together([&] { result = means(comm, *nccl, gpu); });
  } catch (const FailedElsewhere&) {
    result = "failed elsewhere";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) return "another kind of error";
    result = std::string("failed: ") + error.what();
  }
  return result;
}

void tell(Comm& comm, const std::string& text) {
  std::cout << "rank " + std::to_string(comm.rank()) + ": " + text + "\n" << std::flush;
}

int be_rank(const std::string& scenario) {
  Comm comm;
  const auto wanted = [](const char* name, const char* otherwise) {
    const char* const value = std::getenv(name);
    return std::atof(value ? value : otherwise);
  };
  const int ordinal = wanted("SAME_GPU", "0") != 0 ? 0 : comm.rank() % std::max(GpuDevice::count(), 1);
  const double patience = wanted("PATIENCE", "60");
  if (scenario == "once") {
    tell(comm, outcome(comm, ordinal, patience));
    return 0;
  }
  if (scenario == "die") {
    const std::shared_ptr<GpuDevice> gpu = GpuDevice::open(ordinal);
    std::string why_not;
    const std::unique_ptr<NcclComm> nccl = NcclComm::join(comm, gpu, why_not, patience);
    if (!nccl) return 1;
    tell(comm, means(comm, *nccl, gpu, 1));
    comm.barrier();
    if (comm.rank() == 1) ::raise(SIGKILL);
    comm.together([&] { means(comm, *nccl, gpu, 1); });
    return 0;
  }
  // A file: each line a call that is to fail.
  const std::string gpus = std::getenv("EMULATED_GPU");
  std::ifstream file(scenario);
  for (std::string fault; std::getline(file, fault);) {
    setenv("EMULATED_NCCL_FAIL", fault.c_str(), 1);
    emulate(gpus.c_str(), fault.c_str());
    tell(comm, fault + " -> " + outcome(comm, ordinal, patience));
    const bool is_lost = fault.ends_with(":700");  // with its context, which gives nothing back
    if (!is_lost && held_by_driver() != kNothingHeld) tell(comm, fault + " left " + held_by_driver());
    comm.barrier();
  }
  return 0;
}

// --- the tests

class GpuNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  }
  // `wrapper` stands before the program of each rank.
  ProgramResult ranks(int count, const std::string& scenario, const std::string& environment = "",
                      const std::string& wrapper = "") {
    const std::string out = folder_.file("out"), err = folder_.file("err");
    const std::string command =
        "EMULATED_GPU=rtx4090,rtx5090,a100 " + environment +
        " OMPI_MCA_mpi_yield_when_idle=1 timeout 100 mpirun --allow-run-as-root --oversubscribe -np " +
        std::to_string(count) + " " + wrapper + " '" + own_path() + "' --rank '" + scenario + "' >'" + out + "' 2>'" +
        err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out), read_text(err)};
  }
  static std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }
  static void expect_each(const ProgramResult& result, int count, const std::string& what) {
    EXPECT_EQ(result.code, 0) << result.err;
    for (int rank = 0; rank < count; ++rank) {
      const std::string line = "rank " + std::to_string(rank) + ": " + what;
      EXPECT_NE(result.out.find(line), std::string::npos) << line << " is not in\n" << result.out << result.err;
    }
  }
  TempFolder folder_;
};

TEST_F(GpuNccl, TakesTheMeanWhereTheValuesAre) {
  expect_each(ranks(2, "once"), 2, "right\n");
  expect_each(ranks(3, "once"), 3, "right\n");
}

// Memory that the processor shares; the two are told apart by the names of their machines, as two Sparks are.
TEST_F(GpuNccl, TakesTheMeanInUnifiedMemory) {
  expect_each(ranks(2, "once", "EMULATED_GPU=gb10", R"(sh -c 'NCCL_HOSTID=spark$OMPI_COMM_WORLD_RANK exec "$0" "$@"')"),
              2, "right\n");
}

TEST_F(GpuNccl, IsNotUsedWhereItCannotBe) {
  expect_each(ranks(2, "once", "SAME_GPU=1"), 2, "not joined: processes 0 and 1 have the same GPU\n");
  expect_each(ranks(2, "once", "EMULATED_NCCL_VERSION=21304"), 2,
              "not joined: process 0: libnccl.so.2 is NCCL 2.13.4: 2.14.0 or newer is needed\n");
  expect_each(ranks(2, "once", "", R"(sh -c 'EMULATED_NCCL_VERSION=2280$OMPI_COMM_WORLD_RANK exec "$0" "$@"')"), 2,
              "not joined: process 1 has NCCL 2.28.1, process 0 NCCL 2.28.0\n");
  // In one process alone; the other must not wait for it.
  write_text(folder_.file("libnccl.so.2"), "");
  expect_each(ranks(2, "once", "",
                    "sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && export LD_LIBRARY_PATH=\"" + folder_.path().string() +
                        R"(:$LD_LIBRARY_PATH"; exec "$0" "$@"')"),
              2,
              "not joined: process 1: NCCL cannot be loaded: " + folder_.file("libnccl.so.2") + ": file too short\n");
}

// Each call once, in either process: nobody waits longer than it has patience, and all know it.
TEST_F(GpuNccl, FailsInEachCall) {
  // Once a process has loaded the library, its version is known.
  const std::vector<std::string> joining = {"ncclGetVersion:1:3",
                                            "ncclGetVersion:1:3:1",
                                            "ncclGetUniqueId:1:2",
                                            "ncclCommInitRankConfig:1:1:0",
                                            "ncclCommInitRankConfig:1:5:1",
                                            "ncclCommGetAsyncError:1:3:0",
                                            "ncclCommGetAsyncError:1:3:1",
                                            "join_hang:1:1:0",
                                            "join_hang:1:1:1"};
  const std::vector<std::string> exchanging = {"cuStreamQuery:1:2",   "cuStreamQuery:3:700", "ncclAllReduce:1:1:0",
                                               "ncclAllReduce:3:2:1", "async:1:6:1",         "async:3:3:0",
                                               "hang:2:1:0",          "hang:3:1:1"};
  // An end that fails does not harm the run.
  const std::vector<std::string> ending = {"ncclCommDestroy:1:3:0", "ncclCommDestroy:1:3:1", "none:1:1"};
  std::string all;
  for (const auto* faults : {&joining, &exchanging, &ending}) {
    for (const std::string& fault : *faults) all += fault + "\n";
  }
  write_text(folder_.file("faults"), all);
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = ranks(2, folder_.file("faults"), "PATIENCE=1");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  for (const std::string& fault : joining) expect_each(result, 2, fault + " -> not joined: process ");
  for (const std::string& fault : exchanging) expect_each(result, 2, fault + " -> failed");
  for (const std::string& fault : ending) expect_each(result, 2, fault + " -> right\n");
  EXPECT_EQ(result.out.find(" left "), std::string::npos) << result.out;
  for (const char* text : {"process 0: ncclGetVersion: internal error", "process 1: ncclGetVersion: internal error",
                           "ncclGetUniqueId: unhandled system error", "ncclCommInitRankConfig: unhandled cuda error",
                           "ncclCommInitRankConfig: no end after 1 s: another process or the network does not answer",
                           "ncclAllReduce: no end after 1 s: another process or the network does not answer",
                           "ncclAllReduce: remote process exited or there was a network error"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << " is not in\n" << result.out;
  }
}

// The other waits in NCCL, and has more patience than the test.
TEST_F(GpuNccl, EndsWithAProcessThatIsKilled) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* environment : {"", "EMULATED_NCCL_FAIL=hang:2:1:0"}) {
    const ProgramResult result = ranks(2, "die", std::string("PATIENCE=600 ") + environment);
    EXPECT_NE(result.code, 0);
    EXPECT_NE(result.code, 124) << "it did not end";
    EXPECT_NE(result.out.find("rank 1: right"), std::string::npos) << result.out;
    EXPECT_NE(result.err.find("rank 1"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("signal 9"), std::string::npos) << result.err;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace gpu_nccl_test
}  // namespace sparkpilot

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--rank") return sparkpilot::gpu_nccl_test::be_rank(argv[2]);
  return sparkpilot::run_with_emulated_driver(argc, argv, EMULATED_NCCL ":" EMULATED_CUDA);
}
