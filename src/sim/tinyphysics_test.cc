#include "sim/tinyphysics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/test_assets.h"
#include "base/test_error.h"
#include "base/test_files.h"
#include "sim/md5.h"
#include "sim/test_challenge.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::sim {
namespace {

namespace fs = std::filesystem;

std::string hex_md5(std::string_view text) {
  std::string out;
  for (const uint8_t byte : md5(text)) out += fmt::format("{:02x}", byte);
  return out;
}

TEST(Md5, HasTheValuesOfRfc1321) {
  EXPECT_EQ(hex_md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hex_md5("a"), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(hex_md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(hex_md5("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hex_md5("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(hex_md5("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
            "d174ab98d277d9f5a5611c2c9f419d9f");
  EXPECT_EQ(hex_md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(TinyPhysics, SeedsByThePathAsGiven) {
  EXPECT_EQ(challenge_seed("data/00000.csv"), 3285U);
  EXPECT_EQ(challenge_seed("./data/00000.csv"), 3963U);
}

const fs::path kPlant = SPARKPILOT_SOURCE_DIR "/tests/reference/tinyphysics/plant.onnx";

// A rollout that bench/sim/tinyphysics_numpy.py computed.
struct Golden {
  std::string network, controller, kind;
  uint32_t number = 0;
  std::vector<double> costs;
  std::vector<int64_t> near;  // rows whose draw lay within 1e-5 of its bin's edge
  std::vector<int> tokens;
};

std::vector<Golden> goldens(const std::string& network, const std::string& controller) {
  std::ifstream in(SPARKPILOT_SOURCE_DIR "/tests/reference/tinyphysics/goldens.txt");
  std::vector<Golden> found;
  std::string line;
  const auto numbers = [&](auto& to) {
    std::getline(in, line);
    std::istringstream words(line);
    for (typename std::remove_reference_t<decltype(to)>::value_type value; words >> value;) to.push_back(value);
  };
  while (std::getline(in, line)) {
    if (line[0] == '#') continue;
    Golden golden;
    std::istringstream(line) >> golden.network >> golden.controller >> golden.kind >> golden.number;
    numbers(golden.costs), numbers(golden.near), numbers(golden.tokens);
    if (golden.network == network && golden.controller == controller) found.push_back(golden);
  }
  EXPECT_FALSE(found.empty());
  return found;
}

// Routes and the tasks that refer to them.
struct Tasks {
  void add(const std::string& text, const std::string& path) {
    routes.push_back(parse_challenge_route(text, path));
    tasks.push_back({&routes.back(), challenge_seed(path), "a route"});
  }
  std::deque<ChallengeRoute> routes;
  std::vector<TinyPhysicsTask> tasks;
};

Tasks integer_tasks(uint32_t first, uint32_t count) {
  Tasks all;
  for (uint32_t k = first; k < first + count; ++k) all.add(integer_route(k), fmt::format("routes/integers_{}.csv", k));
  return all;
}

// Draws are taken from probabilities that differ by rounding, so a draw at the edge of its bin may fall into the next.
void expect_golden(const TinyPhysicsRollout& rollout, const Golden& golden) {
  SCOPED_TRACE(fmt::format("{} {} {} {}", golden.network, golden.controller, golden.kind, golden.number));
  ASSERT_EQ(rollout.tokens.size(), golden.tokens.size());
  ASSERT_TRUE(rollout.costs);
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    if (rollout.tokens[i] == golden.tokens[i]) continue;
    const auto row = static_cast<int64_t>(i) + kChallengeStart;
    EXPECT_NE(std::find(golden.near.begin(), golden.near.end(), row), golden.near.end()) << "row " << row;
    const double total = golden.costs[2];
    EXPECT_NEAR(rollout.costs->total, total, 0.01 * total);
    return;
  }
  EXPECT_NEAR(rollout.costs->lataccel, golden.costs[0], 1e-11 * golden.costs[0]);
  EXPECT_NEAR(rollout.costs->jerk, golden.costs[1], 1e-11 * golden.costs[1]);
  EXPECT_NEAR(rollout.costs->total, golden.costs[2], 1e-11 * golden.costs[2]);
}

void expect_goldens(const std::string& network, const fs::path& file, const std::string& demo,
                    const TinyPhysicsOptions& options = {.batch = 4, .threads = 2}) {
  for (const std::string controller : {"pid", "zero"}) {
    Tasks tasks;
    const std::vector<Golden> all = goldens(network, controller);
    for (const Golden& golden : all) {
      tasks.add(golden.kind == "demo" ? demo : integer_route(golden.number),
                fmt::format("routes/{}_{}.csv", golden.kind, golden.number));
    }
    TinyPhysics plant(load_onnx(file), file.string(), options);
    const auto rollouts = plant.run(tasks.tasks, challenge_controller(controller));
    for (size_t i = 0; i < all.size(); ++i) expect_golden(rollouts[i], all[i]);
  }
}

TEST(TinyPhysics, SamplesTheTokensOfTheNumpyVersion) { expect_goldens("plant", kPlant, ""); }

TEST(TinyPhysics, SamplesTheTokensOfTheNumpyVersionInTheRealNetwork) {
  const fs::path folder = assets_folder() / "controls_challenge";
  if (!fs::exists(folder)) GTEST_SKIP() << "no folder " << folder;
  expect_goldens("tinyphysics", folder / "tinyphysics.onnx",
                 read_text(folder / "demo_route_a2a0ccea_seg0_tinyphysics.csv"));
}

bool same(const TinyPhysicsRollout& a, const TinyPhysicsRollout& b) {
  return a.tokens == b.tokens && a.lataccel == b.lataccel && a.actions == b.actions && a.costs->total == b.costs->total;
}

TEST(TinyPhysics, ARoutesResultDependsOnNothingElse) {
  Tasks all = integer_tasks(1, 11);
  all.add(integer_route(20, 240), "short.csv");  // ends while the others of its slice go on
  const auto run = [&](int threads, size_t first, size_t count) {
    TinyPhysics plant(load_onnx(kPlant), "plant", {.batch = 4, .threads = threads, .trajectories = true});
    return plant.run(std::span(all.tasks).subspan(first, count), challenge_controller("pid"));
  };
  const auto whole = run(1, 0, 12);
  EXPECT_EQ(whole[0].tokens.size(), 400U);
  EXPECT_EQ(whole[0].lataccel.size(), 500U);
  EXPECT_EQ(whole[0].actions.size(), 500U);
  EXPECT_EQ(whole[11].tokens.size(), 140U);
  EXPECT_FALSE(same(whole[0], whole[1]));
  const auto threads = run(3, 0, 12);
  for (size_t i = 0; i < 12; ++i) EXPECT_TRUE(same(threads[i], whole[i])) << i;
  const auto part = run(2, 3, 7);
  for (size_t i = 0; i < 7; ++i) EXPECT_TRUE(same(part[i], whole[i + 3])) << i;
  EXPECT_TRUE(same(run(1, 11, 1)[0], whole[11]));
}

TEST(TinyPhysics, TakesANetworkForOneRouteToo) {
  Tasks all = integer_tasks(1, 3);
  Graph one = load_onnx(kPlant);
  for (const ValueId id : one.inputs()) (*one.value(id).declared)[0] = {1};
  const auto rollouts = TinyPhysics(std::move(one), "one", {.batch = 2}).run(all.tasks, challenge_controller("pid"));
  const auto expected =
      TinyPhysics(load_onnx(kPlant), "plant", {.batch = 2}).run(all.tasks, challenge_controller("pid"));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rollouts[i].tokens, expected[i].tokens);
}

// 7 rows, 300 bins up to 4 m/s^2, 32-bit tokens, other names, the other order, three routes at once, logits of the
// last position only.
TEST(TinyPhysics, SamplesTheTokensOfTheNumpyVersionInAnotherNetworkOfTheKind) {
  expect_goldens("other_plant", kPlant.parent_path() / "other_plant.onnx", "", {.most_lataccel = 4, .threads = 2});
  Graph graph = load_onnx(kPlant.parent_path() / "other_plant.onnx");
  EXPECT_EQ(TinyPhysics(std::move(graph), "other", {}).batch(), 3);
}

TEST(TinyPhysics, SaysWhatItExpectedOfANetwork) {
  const auto refusal = [](const std::function<void(Graph&)>& change) {
    Graph graph = load_onnx(kPlant);
    change(graph);
    return error_of([&] { TinyPhysics(std::move(graph), "n.onnx", {}); });
  };
  const auto dims = [](Graph& graph, const char* name) -> std::vector<Dim>& {
    return *graph.value(graph.find_input(name)).declared;
  };
  const std::string expected =
      "n.onnx: expected the inputs f32 [b, n, 4] (states) and i64 or i32 [b, n] (tokens) and one output f32 [b, n, "
      "bins] "
      "or [b, bins] (logits), got ";
  const std::string states = "\"states\" f32 [b, 20, 4]", tokens = "\"tokens\" i64 [b, 20]",
                    output = "\"output\" f32 [b, 20, 1024]";
  EXPECT_EQ(refusal([&](Graph& graph) { dims(graph, "states")[2].size = 5; }),
            expected + "\"states\" f32 [b, 20, 5], " + tokens + " and " + output + ": a row of states has 5 numbers");
  EXPECT_EQ(refusal([&](Graph& graph) { dims(graph, "tokens").resize(1); }),
            expected + states + ", \"tokens\" i64 [b] and " + output + ": no input can be the tokens");
  EXPECT_EQ(refusal([&](Graph& graph) { graph.value(graph.find_input("tokens")).dtype = DType::f32; }),
            expected + states + ", \"tokens\" f32 [b, 20] and " + output + ": no input can be the tokens");
  EXPECT_EQ(refusal([&](Graph& graph) { dims(graph, "tokens")[1].size = 19; }),
            expected + states + ", \"tokens\" i64 [b, 19] and " + output +
                ": its lengths of states and tokens are 20 and 19");
  const auto says = [&](const std::string& what, const std::function<void(Graph&)>& change) {
    const std::string error = refusal(change);
    return error.starts_with(expected) && error.ends_with(": " + what) ? "" : error;
  };
  EXPECT_EQ(says("only one of its inputs has a fixed first dimension",
                 [&](Graph& graph) { dims(graph, "states")[0].size = 7; }),
            "");
  EXPECT_EQ(says("its first dimensions are 7 and 6",
                 [&](Graph& graph) { dims(graph, "states")[0].size = 7, dims(graph, "tokens")[0].size = 6; }),
            "");
  EXPECT_EQ(says("a length of 101 rows, expected 1 to 100",
                 [&](Graph& graph) { dims(graph, "states")[1].size = dims(graph, "tokens")[1].size = 101; }),
            "");
  EXPECT_EQ(says("1 bins, expected 2 to 32768",
                 [&](Graph& graph) { graph.value(graph.outputs()[0].value).declared->back().size = 1; }),
            "");
  EXPECT_EQ(says("its number of bins is open",
                 [&](Graph& graph) { graph.value(graph.outputs()[0].value).declared->back().size = -1; }),
            "");
  EXPECT_EQ(says("its output cannot be the logits",
                 [&](Graph& graph) { graph.value(graph.outputs()[0].value).declared->resize(1); }),
            "");
  EXPECT_EQ(
      says("its inputs and outputs are 2 and 2", [&](Graph& graph) { graph.add_output(graph.inputs()[0], "more"); }),
      "");
  Graph graph = load_onnx(kPlant);
  EXPECT_EQ(error_of([&] { TinyPhysics(graph, "n.onnx", {.most_lataccel = -1}); }),
            "bins up to -1 m/s^2, expected above 0 to 1000");
  EXPECT_EQ(error_of([&] { TinyPhysics(graph, "n.onnx", {.batch = 0}); }), "expected a batch of 1 or more, got 0");
  EXPECT_EQ(TinyPhysics(graph, "n.onnx", {}).batch(), 16);
  EXPECT_EQ(TinyPhysics(graph, "n.onnx", {.device = "auto"}).batch(), 16);  // there is no GPU in this test
}

// Steers with what a function says, and keeps what it saw.
class Scripted : public ChallengeController {
 public:
  using Say = std::function<double(int step, const ChallengeInput& input)>;
  explicit Scripted(Say say) : say_(std::move(say)) {}
  void reset(size_t) override { step_ = 20; }
  void update(std::span<const ChallengeInput> inputs, std::span<double> actions) override {
    for (size_t i = 0; i < inputs.size(); ++i) actions[i] = say_(step_, inputs[i]);
    ++step_;
  }

 private:
  Say say_;
  int step_ = 0;
};
std::vector<TinyPhysicsRollout> scripted(const Tasks& tasks, const Scripted::Say& say) {
  TinyPhysics plant(load_onnx(kPlant), "plant", {.threads = 1, .trajectories = true});
  return plant.run(tasks.tasks, [&] { return std::make_unique<Scripted>(say); });
}

TEST(TinyPhysics, ShowsControllersTheNext49RowsAndFewerAtTheEnd) {
  Tasks tasks;
  tasks.add(integer_route(1, 520), "a");
  const ChallengeRoute& route = tasks.routes[0];
  int calls = 0;
  scripted(tasks, [&](int step, const ChallengeInput& input) {
    ++calls;
    const auto at = static_cast<size_t>(step);
    EXPECT_EQ(input.target, route.target[at]);
    EXPECT_EQ(input.v_ego, route.v_ego[at]);
    EXPECT_EQ(input.a_ego, route.a_ego[at]);
    EXPECT_EQ(input.roll_lataccel, route.roll_lataccel[at]);
    EXPECT_EQ(input.plan.v_ego.size(), std::min<size_t>(49, 519 - at));
    EXPECT_EQ(input.plan.lataccel[0], route.target[at + 1]);
    EXPECT_EQ(input.plan.a_ego.back(), route.a_ego[std::min<size_t>(at + 49, 519)]);
    return 0.0;
  });
  EXPECT_EQ(calls, 480);
}

TEST(TinyPhysics, ClipsActionsAndStepsAndTakesTheLogsActionsBefore100) {
  const Tasks tasks = integer_tasks(1, 1);
  const TinyPhysicsRollout out =
      scripted(tasks, [](int step, const ChallengeInput&) { return step < 300 ? 1e9 : -7.0; })[0];
  for (size_t row = 20; row < 500; ++row) {
    const double expected = row < 100 ? std::clamp(tasks.routes[0].steer[row], -2.0, 2.0) : row < 300 ? 2.0 : -2.0;
    EXPECT_EQ(out.actions[row], expected);
    if (row < 100) {
      EXPECT_EQ(out.lataccel[row], tasks.routes[0].target[row]);
    } else {
      EXPECT_LE(std::fabs(out.lataccel[row] - out.lataccel[row - 1]), 0.5 + 1e-15);
    }
  }
}

TEST(TinyPhysics, ARouteWhoseActionIsNotANumberEndsAlone) {
  const Tasks tasks = integer_tasks(1, 2);
  const double second = tasks.routes[1].target[200];
  const auto out = scripted(tasks, [&](int step, const ChallengeInput& input) {
    return step == 200 && input.target == second ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  });
  EXPECT_EQ(out[0].diverged_at, -1);
  EXPECT_TRUE(out[0].costs);
  EXPECT_EQ(out[1].diverged_at, 200);
  EXPECT_FALSE(out[1].costs);
  EXPECT_EQ(out[1].tokens.size(), 100U);
  const Tasks alone = integer_tasks(1, 1);
  EXPECT_EQ(out[0].tokens, scripted(alone, [](int, const ChallengeInput&) { return 0.0; })[0].tokens);
}

TEST(TinyPhysics, SaysWhereTheNetworkIsNotFinite) {
  Graph graph = load_onnx(kPlant);
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.value(ValueId{i});
    if (value.name == "sharp") value.constant = Tensor::scalar(std::numeric_limits<float>::quiet_NaN());
  }
  const Tasks tasks = integer_tasks(1, 1);
  EXPECT_EQ(
      error_of([&] { TinyPhysics(std::move(graph), "n.onnx", {}).run(tasks.tasks, challenge_controller("zero")); }),
      "a route: row 100: the network's output is not finite");
}

TEST(TinyPhysics, AStoppedRunKeepsTheRoutesThatAreDone) {
  const Tasks tasks = integer_tasks(1, 6);
  std::atomic<bool> stop = false;
  std::vector<size_t> finished;
  double share = 0;
  TinyPhysicsOptions options{.batch = 2, .threads = 1, .stop = &stop};
  options.progress = [&](double done) {
    EXPECT_GE(done, share);
    share = done;
  };
  options.finished = [&](size_t i, const TinyPhysicsRollout& rollout) {
    EXPECT_TRUE(rollout.costs);
    finished.push_back(i);
    stop = true;
  };
  const auto out = TinyPhysics(load_onnx(kPlant), "plant", options).run(tasks.tasks, challenge_controller("pid"));
  EXPECT_EQ(finished, (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(out[0].costs && out[1].costs);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(!out[i].costs && out[i].diverged_at < 0 && out[i].tokens.empty());
  EXPECT_GT(share, 0.33);
  EXPECT_LT(share, 0.4);
}

TEST(ChallengeControllers, RefuseWhatTheyDoNotHave) {
  EXPECT_EQ(error_of([] { challenge_controller("lqr"); }), "expected a controller pid or zero, got \"lqr\"");
  EXPECT_EQ(error_of([] {
              challenge_controller("pid", {{"q", 1}});
            }),
            "controller pid has no parameter \"q\"; it has p, i, d");
  EXPECT_EQ(error_of([] {
              challenge_controller("zero", {{"p", 1}});
            }),
            "controller zero has no parameter \"p\"; it has none");
  EXPECT_EQ(error_of([] {
              challenge_controller("pid", {{"p", INFINITY}});
            }),
            "parameter \"p\": expected a finite number, got inf");
}

}  // namespace
}  // namespace sparkpilot::sim
