// sparkpilot train in several processes: on one machine, and on two hosts that only a network joins.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tensor/difference.h"
#include "train_fixture.h"

namespace sparkpilot {
namespace train_processes_test {

namespace fs = std::filesystem;

class TrainProcesses : public TrainCli {
 protected:
  void SetUp() override {
    if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  }
  static std::string launcher(int processes) {
    return "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 timeout 120 mpirun --allow-run-as-root "
           "--oversubscribe -np " +
           std::to_string(processes);
  }
  static std::string flags() {
    return both() + "--network policy --schedule constant --kind lora --rank 2 --threads 1 --dtype fp32 ";
  }
  std::string adapter(const std::string& run) const { return folder.file(run) + "/adapter/adapter_model.safetensors"; }
  // Adapters that differ by rounding at most.
  void expect_same(const std::string& run, const std::string& other) const {
    const std::map<std::string, Tensor> expected = tensors_of(adapter(run)), got = tensors_of(adapter(other));
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_LE(difference_of(got.at(name).view(), tensor.view()).relative_l2, 1e-3) << name;
    }
  }
};

// Two processes with batches of 2 take the steps of one with batches of 4, and so do four with batches of 1.
TEST_F(TrainProcesses, AreOneWithALargerBatch) {
  const json one = parsed(flags() + out("one") + "--batch 4 --updates 6 --evaluate-every 3");
  const auto loss = one["loss"].get<double>();
  const ProgramResult two =
      run_program("train " + flags() + out("two") + "--batch 2 --updates 3 --evaluate-every 3 --json", launcher(2));
  ASSERT_EQ(two.code, 0) << two.err;
  // It goes on, with as many processes.
  const ProgramResult more = run_program("train --json --updates 6 --resume '" + folder.file("two") + "'", launcher(2));
  ASSERT_EQ(more.code, 0) << more.err;
  const json done = json::parse(more.out, nullptr, false);
  EXPECT_EQ(done["updates"], 6);
  EXPECT_NEAR(done["loss"].get<double>(), loss, 1e-4 * std::abs(loss));
  expect_same("one", "two");
  const ProgramResult four =
      run_program("train " + flags() + out("four") + "--batch 1 --updates 6 --evaluate-every 3 --json", launcher(4));
  ASSERT_EQ(four.code, 0) << four.err;
  EXPECT_NEAR(json::parse(four.out)["loss"].get<double>(), loss, 1e-4 * std::abs(loss));
  expect_same("one", "four");
}

TEST_F(TrainProcesses, ShareTheirOwnFeatures) {
  const std::string own = both() + "--own-features --schedule constant --kind lora --rank 2 --threads 1 --updates 4 ";
  const json alone = parsed(own + out("one") + "--batch 4");
  const ProgramResult two = run_program("train " + own + out("two") + "--batch 2 --json", launcher(2));
  ASSERT_EQ(two.code, 0) << two.err;
  const auto loss = alone["loss"].get<double>();
  EXPECT_NEAR(json::parse(two.out)["loss"].get<double>(), loss, 1e-4 * std::abs(loss));
}

// A process that would train something else, as by the options or files of its machine, ends all before the first step.
TEST_F(TrainProcesses, AllTrainTheSame) {
  const std::string other = folder.file("other");
  fs::create_directory(other);
  ASSERT_EQ(run_program("zoo build --quiet tiny_driving_policy --seed 5 --out '" + other + "'").code, 0);
  const std::string models = shared->file("models"),
                    vision = " --vision " + models + "/tiny_driving_vision.onnx --policy ";
  const std::string same = vision + models + "/tiny_driving_policy.onnx ";
  const std::string rest = "train --data '" + shared->file("answers") + "' --network policy --kind lora --threads 1 ";
  const std::string usual = "--batch 2 --rank 2 --updates 2 ", first = same + usual;
  for (const auto& [second, word] : {std::pair<std::string, std::string>{first + "--rate 0.5", "option"},
                                     {same + "--batch 2 --rank 3 --updates 2", "option"},
                                     {same + "--batch 1 --rank 2 --updates 2", "option"},
                                     {first + "--dry-run", "option"},
                                     {first + "--teacher " + other + "/tiny_driving_policy.onnx", "teacher"},
                                     {vision + other + "/tiny_driving_policy.onnx " + usual, "model or adapter"}}) {
    const std::string before = launcher(2) + R"( sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then set -- "$@" )" +
                               first + R"(; else set -- "$@" )" + second + R"(; fi; exec "$@"' sh)";
    const ProgramResult result = run_program(rest + out("differ"), before);
    EXPECT_EQ(result.code, 2) << second << result.err;
    EXPECT_NE(result.err.find("process 1 has another " + word + " than process 0"), std::string::npos)
        << second << result.err;
    EXPECT_FALSE(fs::exists(folder.file("differ") + "/checkpoints"));
  }
}

TEST_F(TrainProcesses, EndWithOnesFaultWhichIsSaidOnce) {
  fs::copy(shared->file("answers"), folder.file("broken"));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.file("broken"))) {
    if (entry.path().string().ends_with("frames.safetensors")) fs::resize_file(entry.path(), 1000);
  }
  const ProgramResult broken = run_program("train --models '" + shared->file("models") + "' --data '" +
                                               folder.file("broken") + "' " + out("bad") + "--updates 1 --rank 1",
                                           launcher(2));
  EXPECT_EQ(broken.code, 2) << broken.err;
  EXPECT_NE(broken.err.find("frames.safetensors"), std::string::npos) << broken.err;
}

// A process that is killed ends the job; the launcher names it, and the run goes on from its checkpoint.
TEST_F(TrainProcesses, EndWithOneThatIsKilled) {
  for (const int killed : {1, 0}) {
    const std::string run = "run" + std::to_string(killed), pids = folder.file("pid");
    bool did = false;
    std::thread killer([&] {
      for (int i = 0; i < 600 && !did; ++i) {  // once there are checkpoints
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (!fs::exists(folder.file(run) + "/checkpoints/update_00000004")) continue;
        did = ::kill(std::stoi(read_text(pids + std::to_string(killed))), SIGKILL) == 0;
      }
    });
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result =
        run_program("train " + flags() + out(run) + "--batch 2 --updates 100000 --checkpoint-every 2 --keep 100",
                    launcher(2) + " sh -c 'echo $$ > \"" + pids + "$OMPI_COMM_WORLD_RANK\"; exec \"$0\" \"$@\"'");
    killer.join();
    ASSERT_TRUE(did);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));  // it does not wait for ever
    EXPECT_NE(result.code, 0);
    EXPECT_NE(result.err.find("rank " + std::to_string(killed)), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("signal 9"), std::string::npos) << result.err;
    const std::string newest = read_text(folder.file(run) + "/metrics.jsonl");
    const auto before = std::count(newest.begin(), newest.end(), '\n');
    const ProgramResult more = run_program(
        "train --json --updates " + std::to_string(before + 2) + " --patience 0 --resume '" + folder.file(run) + "'",
        launcher(2));
    ASSERT_EQ(more.code, 0) << more.err;
    EXPECT_EQ(json::parse(more.out)["updates"], before + 2);
  }
}

// Through a network, with the same result; and an update sends what docs/cluster.md says.
TEST_F(TrainProcesses, TrainOnTwoHosts) {
  const auto on_two_hosts = [&](const std::string& run, int updates) {
    const ProgramResult result = run_program("train " + flags() + out(run) + "--batch 2 --evaluate-every 100 --json " +
                                                 "--updates " + std::to_string(updates),
                                             "timeout 120 '" SPARKPILOT_SOURCE_DIR "/tests/two_hosts.sh'");
    return result;
  };
  const ProgramResult few = on_two_hosts("few", 6);
  if (few.code == 77) GTEST_SKIP() << few.err;
  ASSERT_EQ(few.code, 0) << few.err;
  parsed(flags() + out("one") + "--batch 4 --updates 6 --evaluate-every 100");
  expect_same("one", "few");
  const ProgramResult many = on_two_hosts("many", 26);
  ASSERT_EQ(many.code, 0) << many.err;
  const auto sent = [](const ProgramResult& result) {
    const size_t at = result.err.rfind("sent: ");
    return at == std::string::npos ? 0.0 : std::stod(result.err.substr(at + 6));
  };
  double bytes = 0;  // of the adapter in fp32, which is what an update sends
  for (const auto& [name, tensor] : tensors_of(adapter("few"))) bytes += static_cast<double>(tensor.bytes());
  const double an_update = (sent(many) - sent(few)) / 20;
  EXPECT_GT(an_update, bytes);
  EXPECT_LT(an_update, 1.3 * bytes + 8192);  // headers, losses, and each tensor's end
}

}  // namespace train_processes_test
}  // namespace sparkpilot
