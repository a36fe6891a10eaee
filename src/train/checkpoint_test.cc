#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/test_files.h"
#include "passes/test_graph.h"
#include "train/losses.h"

namespace {
std::vector<std::filesystem::path> synced;  // in their order
}  // namespace

// Instead of the C library's.
extern "C" int fsync(int fd) {
  synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace sparkpilot::train {
namespace checkpoint_test {

namespace fs = std::filesystem;

TrainingProgram program_of(uint64_t seed, int64_t width = 3) {
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {2, 4}), w = b.constant(testing::random_tensor({4, width}, seed));
  const ValueId loss =
      mean_squared_error(b, b.add("MatMul", {x, w}), b.constant(Tensor::zeros(DType::f32, {2, width})));
  return {std::move(graph), loss, {{w, "w"}}, {}, {.ema = 0.9f, .session = {.threads = 1}}};
}
void step(TrainingProgram& program) {
  std::fill_n(program.input("x").as<float>(), 8, 0.5f);
  program.run_gradients();
  program.update(0.1);
}

Checkpoint checkpoint_at(int64_t updates) {
  return {.progress = {.updates = updates,
                       .samples = 1 << 20,
                       .seconds = 1.0 / 3,
                       .evaluated = 4,
                       .best = 0.1,
                       .best_updates = 3,
                       .evaluations_since = 2},
          .identity = {.seed = ~uint64_t{0},
                       .batch = 8,
                       .micro_batches = 2,
                       .threads = 3,
                       .precision = "bf16",
                       .norms = "exact",
                       .optimizer = "adamw",
                       .schedule = "cosine",
                       .dataset = "d",
                       .validation = "v",
                       .target = "teacher",
                       .model = "m",
                       .samples = "all",
                       .processor = "avx2",
                       .program = "0.1.0"},
          .choices = {{"gradients", {{.node = "MatMul f32", .kernel = "onednn"}}}}};
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(Checkpoint, IsOnTheDiskBeforeItHasItsName) {
  const TempFolder folder;
  const TrainingProgram program = program_of(1);
  synced.clear();
  const fs::path path = fs::canonical(save_checkpoint(folder / "checkpoints", checkpoint_at(5), program));
  ASSERT_EQ(synced.size(), 4);
  std::sort(synced.begin(), synced.begin() + 2);
  EXPECT_EQ(synced[0].filename(), "checkpoint.json");
  EXPECT_EQ(synced[1].filename(), "states.safetensors");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(synced[i].parent_path(), synced[2]);
    EXPECT_NE(synced[i].parent_path(), path) << "it had its name already";
  }
  EXPECT_EQ(synced[2].parent_path(), path.parent_path());
  EXPECT_EQ(synced[3], path.parent_path());
}

TEST(Checkpoint, GivesBackWhatItHolds) {
  const TempFolder folder;
  TrainingProgram one = program_of(1), other = program_of(2);
  step(one);
  const Checkpoint saved = checkpoint_at(5);
  const fs::path path = save_checkpoint(folder / "checkpoints", saved, one);
  EXPECT_EQ(path, folder / "checkpoints" / "update_00000005");
  const Checkpoint read = load_checkpoint(path);
  EXPECT_EQ(read.progress, saved.progress);
  EXPECT_EQ(read.identity, saved.identity);
  ASSERT_EQ(read.choices.at("gradients").size(), 1);
  EXPECT_EQ(read.choices.at("gradients")[0].node, "MatMul f32");
  EXPECT_EQ(read.choices.at("gradients")[0].kernel, "onednn");
  load_states(path, other);
  step(one);
  step(other);
  for (const std::string& name : one.states()) {
    EXPECT_EQ(std::memcmp(one.state(name).raw(), other.state(name).raw(), static_cast<size_t>(one.state(name).bytes())),
              0)
        << name;
  }
  // Nothing but the checkpoint is there.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "checkpoints"), fs::directory_iterator()), 1);
}

TEST(Checkpoint, ReplacesOneOfTheSameName) {
  const TempFolder folder;
  TrainingProgram program = program_of(1);
  save_checkpoint(folder.path(), checkpoint_at(5), program);
  Checkpoint later = checkpoint_at(5);
  later.progress.seconds = 7;
  const fs::path path = save_checkpoint(folder.path(), later, program);
  EXPECT_EQ(load_checkpoint(path).progress.seconds, 7);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Checkpoint, KeepsTheLastAndTheBest) {
  const TempFolder folder;
  TrainingProgram program = program_of(1);
  for (const int64_t updates : {1, 2, 3, 4, 100'000'000})
    save_checkpoint(folder.path(), checkpoint_at(updates), program);
  fs::create_directory(folder / ".aside_update_00000009");  // of a killed run
  fs::create_directory(folder / "update_7");                // not ours
  drop_checkpoints(folder.path(), 2, 2);
  std::vector<int64_t> left;
  for (const auto& [updates, path] : find_checkpoints(folder.path())) left.push_back(updates);
  EXPECT_EQ(left, (std::vector<int64_t>{2, 4, 100'000'000}));
  EXPECT_FALSE(fs::exists(folder / ".aside_update_00000009"));
  EXPECT_TRUE(fs::exists(folder / "update_7"));
  EXPECT_TRUE(find_checkpoints(folder / "nowhere").empty());
}

TEST(Checkpoint, RefusesWhatIsDamagedOrOfAnotherRun) {
  const TempFolder folder;
  TrainingProgram program = program_of(1), wider = program_of(1, 5);
  const fs::path path = save_checkpoint(folder.path(), checkpoint_at(5), program);
  const std::string states = (path / "states.safetensors").string(), json = (path / "checkpoint.json").string();
  EXPECT_EQ(message([&] { load_states(path, wider); }), states + ": state \"w\" is f32[4,3], the run's is f32[4,5]");
  const std::string bytes = read_text(states), text = read_text(json);
  std::string changed = bytes;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  write_text(states, changed);
  EXPECT_TRUE(message([&] { load_states(path, program); }).starts_with(states + ": its bytes are not those"));
  write_text(states, bytes.substr(0, bytes.size() - 1));
  EXPECT_NE(message([&] { load_states(path, program); }).find(states), std::string::npos);
  fs::remove(states);
  EXPECT_NE(message([&] { load_states(path, program); }).find(states), std::string::npos);
  write_text(states, bytes);
  load_states(path, program);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_text(json, other.replace(at, from.size(), to));
    return message([&] { load_checkpoint(path); });
  };
  const std::string refused = json + ": not a checkpoint of training";
  EXPECT_EQ(with("\"version\": 1", "\"version\": 2"), refused + ": version 2, expected 1");
  EXPECT_EQ(with("\"updates\": 5", "\"updates\": -5"),
            refused + ": updates is -5, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(with("\"updates\": 5", "\"updates\": 5.5"),
            refused + ": updates is 5.5, expected a whole number from 0 to 9007199254740992");
  EXPECT_TRUE(with("\"samples\"", "\"simples\"").starts_with(refused));
  EXPECT_TRUE(with("\"best_updates\": 3", "\"best_updates\": 6").starts_with(refused));
  EXPECT_TRUE(with("\"seed\": 18446744073709551615", "\"seed\": 1e300").starts_with(refused));
  EXPECT_TRUE(with("\"choices\": {", "\"choices\": [").starts_with(refused));
  EXPECT_TRUE(with("\"kernel\": \"onednn\"", "\"kernel\": 3").starts_with(refused));
  EXPECT_TRUE(with("\"seconds\": 0.", "\"seconds\": \"x\", \"z\": 0.").starts_with(refused));
  write_text(json, text.substr(0, text.size() / 2));
  EXPECT_TRUE(message([&] { load_checkpoint(path); }).starts_with(refused));
}

TEST(Checkpoint, StaysWhereTheNextCannotBeWritten) {
  const TempFolder folder;
  TrainingProgram program = program_of(1);
  const fs::path path = save_checkpoint(folder.path(), checkpoint_at(5), program);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 100, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string same = message([&] { save_checkpoint(folder.path(), checkpoint_at(5), program); });
  const std::string next = message([&] { save_checkpoint(folder.path(), checkpoint_at(6), program); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(same.find("File too large"), std::string::npos) << same;
  EXPECT_NE(next.find("File too large"), std::string::npos) << next;
  load_checkpoint(path);
  load_states(path, program);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Checkpoint, SaysWhatDiffers) {
  const RunIdentity then = checkpoint_at(1).identity;
  RunIdentity now = then;
  EXPECT_TRUE(differences(now, then).empty());
  now.threads = 1;
  now.precision = "fp32";
  now.base = "fp8";
  now.norms = "factored";
  now.dataset = "e";
  EXPECT_EQ(differences(now, then),
            (std::vector<std::string>{"number of threads: 1, was 3", "precision: fp32, was bf16",
                                      "precision of frozen weights: fp8, was fp32",
                                      "form of DoRA's norms: factored, was exact", "dataset: e, was d"}));
  EXPECT_FALSE(same_losses(now, then));
  now = then;
  now.threads = 1;
  EXPECT_TRUE(same_losses(now, then));
  now.target = "teacher, plan=50";
  EXPECT_FALSE(same_losses(now, then));
  EXPECT_EQ(differences(now, then).at(1), "target: teacher, plan=50, was teacher");
  now = then;
  now.base = "fp8";
  EXPECT_FALSE(same_losses(now, then));
  now = then;
  now.samples = "all, warp 1";
  EXPECT_TRUE(same_losses(now, then));
  EXPECT_EQ(differences(now, then).at(0), "way to take samples: all, warp 1, was all");
  now = then;
  now.target = "teacher, plan=50";
  now.threads = 1;
  RunIdentity older = then;  // a checkpoint from before there was a target
  older.target.clear();
  older.validation.clear();
  EXPECT_TRUE(same_losses(now, older));
  EXPECT_EQ(differences(now, older).size(), 1u);
}

}  // namespace checkpoint_test
}  // namespace sparkpilot::train
