#include "runtime/kernel_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/test_files.h"
#include "ir/launch.h"
#include "ir/problem_key.h"

namespace sparkpilot {
namespace kernel_tuner_test {

// --- turns
// Way 0 is the first choice. Times by way, used one after the other; the last one repeats.
std::optional<size_t> fastest(std::vector<std::vector<double>> times, const Turns& turns = {},
                              std::vector<size_t>* asked = nullptr, size_t first = 0) {
  int64_t now = 0;
  return fastest_in_turns(
      times.size(), first,
      [&](size_t way) {
        if (asked) asked->push_back(way);
        const double time = times[way].front();
        if (times[way].size() > 1) times[way].erase(times[way].begin());
        if (time != kNoTime) now += static_cast<int64_t>(time);
        return time;
      },
      turns, [&] { return now; });
}

TEST(Turns, AnotherIsTakenWhereItIsATwentiethFaster) {
  EXPECT_EQ(fastest({{100}, {94}}), 1U);
  EXPECT_EQ(fastest({{100}, {96}}), 0U);
  EXPECT_EQ(fastest({{100}, {95}}), 0U);
  EXPECT_EQ(fastest({{100}, {90}, {80}}), 2U);
  EXPECT_EQ(fastest({{90}, {100}, {80}}, {}, nullptr, 1), 2U);
  EXPECT_EQ(fastest({{90}, {100}, {96}}, {}, nullptr, 1), 0U);
  EXPECT_EQ(fastest({{0}, {0}}), 0U);  // a clock too coarse
}

TEST(Turns, NeitherOneFastNorOneSlowRunDecides) {
  EXPECT_EQ(fastest({{100}, {100, 50, 100}}), 0U);
  EXPECT_EQ(fastest({{100}, {80, 4000, 80}}), 1U);
  EXPECT_EQ(fastest({{100, 100, 100, 70, 100}, {80}}), 0U);  // its minimum is not better
}

TEST(Turns, GoRound) {
  std::vector<size_t> asked;
  fastest({{100}, {101}}, {.most = 3}, &asked);
  EXPECT_EQ(asked, (std::vector<size_t>{0, 1, 0, 1, 0, 1}));
}

TEST(Turns, WhatIsFarBehindIsLeftOut) {
  std::vector<size_t> asked;
  EXPECT_EQ(fastest({{100}, {900, 400}, {90}}, {.most = 4}, &asked), 2U);
  EXPECT_EQ(asked, (std::vector<size_t>{0, 1, 2, 0, 1, 2, 0, 2, 0, 2}));
  asked.clear();
  EXPECT_EQ(fastest({{100}, {900}}, {}, &asked), 0U);
  EXPECT_EQ(asked.size(), 4U);
}

TEST(Turns, AreBoundInTime) {
  std::vector<size_t> asked;
  EXPECT_EQ(fastest({{100}, {90}}, {.ns = 10}, &asked), 1U);
  EXPECT_EQ(asked.size(), 6U);  // the fewest turns that decide
  asked.clear();
  EXPECT_FALSE(fastest({{100}, {90}}, {.ns = 10, .hard_ns = 300}, &asked));
  EXPECT_EQ(asked.size(), 4U);
}

TEST(Turns, WhatCannotRunIsNotTaken) {
  EXPECT_EQ(fastest({{100}, {kNoTime}}), 0U);
  EXPECT_EQ(fastest({{kNoTime}, {100}}), 1U);
  EXPECT_FALSE(fastest({{kNoTime}, {kNoTime}}));
}

// --- an op whose kernels take as long as the test says, on a simulated clock
int64_t now = 0;
struct Said {
  int64_t takes = 100;  // nanoseconds per run; below 0: it fails
  int runs = 0, prepared = 0;
  bool accepts = true;
};
std::map<std::string, Said, std::less<>> said;  // by kernel
std::string yields_to;
float inputs_sum = 0;

void run_as_said(std::string_view kernel, const Call& call) {
  Said& own = said[std::string(kernel)];
  ++own.runs;
  if (own.takes < 0) fail("it does not work");
  now += own.takes;
  for (int64_t i = 0; i < call.inputs[0].elements(); ++i) inputs_sum += std::abs(call.inputs[0].as<float>()[i]);
  std::fill_n(call.outputs[0].as<float>(), call.outputs[0].elements(), 1.0F);
}
std::unique_ptr<KernelState> prepare_as_said(std::string_view kernel) {
  ++said[std::string(kernel)].prepared;
  auto state = std::make_unique<KernelState>();
  state->workspace = 64;
  return state;
}
Acceptance accepts_as_said(std::string_view kernel) {
  return said[std::string(kernel)].accepts ? Acceptance(true) : "said so";
}

const OpDef& timed_op() {
  static const Kernel kernels[] = {
      {.name = "a",
       .accepts = [](const Problem&) { return accepts_as_said("a"); },
       .prepare = [](const Problem&) { return prepare_as_said("a"); },
       .run = [](const Call& call) { run_as_said("a", call); },
       .yields = [](const Problem&) { return std::string_view(yields_to); }},
      {.name = "b",
       .accepts = [](const Problem&) { return accepts_as_said("b"); },
       .prepare = [](const Problem&) { return prepare_as_said("b"); },
       .run = [](const Call& call) { run_as_said("b", call); }},
      {.name = "c",
       .accepts = [](const Problem&) { return accepts_as_said("c"); },
       .prepare = [](const Problem&) { return prepare_as_said("c"); },
       .run = [](const Call& call) { run_as_said("c", call); }},
      {.name = "reference", .run = [](const Call& call) { run_as_said("reference", call); }}};
  static const AttrSpec attributes[] = {{"kind", AttrType::integer}};
  static const OpDef op{.name = "Timed",
                        .domain = "test",
                        .inputs = {1, 1},
                        .outputs = {1, 1},
                        .attributes = attributes,
                        .infer = [](InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); },
                        .cpu = kernels};
  return op;
}

class Tuner : public ::testing::Test {
 protected:
  Tuner() {
    now = 0;
    said = {{"c", {.accepts = false}}};
    yields_to.clear();
    options.tune = Tune::full;
    options.say = [this](const std::string& line) { lines.push_back(line); };
  }

  // One node for each number, which is its attribute.
  static Graph nodes(std::initializer_list<int64_t> kinds) {
    Graph g;
    ValueId x = g.add_input("x", DType::f32, Shape{4});
    for (const int64_t kind : kinds) {
      const NodeId node = g.add_node(timed_op(), {x}, {{"kind", kind}}, 1);
      x = g.node(node).outputs[0];
      g.value(x).dtype = DType::f32;
      g.value(x).shape = Shape{4};
    }
    g.add_output(x, "y");
    return g;
  }

  bool tune(const Graph& graph, int threads = 1) { return KernelTuner(options, plans, tuning).tune(graph, threads); }
  // The kernel that runs the graph's first node.
  KernelDecision taken(const Graph& graph, int threads = 1) const {
    const ThreadScope scope(threads);
    const NodeId id = graph.order().front();
    const NodeProblem types(graph, id);
    return launch(graph, id, types.problem(), plans.kernels).decision;
  }
  static int runs() { return said["a"].runs + said["b"].runs + said["c"].runs + said["reference"].runs; }

  TempFolder folder;
  SessionOptions options;
  PlanOptions plans;
  Tuning tuning{.clock = [] { return now; }, .rules_hold = false};
  std::vector<std::string> lines;
};

TEST_F(Tuner, TakesALaterCandidateThatIsFaster) {
  said["b"].takes = 90;
  const Graph g = nodes({0});
  EXPECT_EQ(taken(g).kernel, "a");
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(taken(g).kernel, "b");
  EXPECT_EQ(taken(g).by, ChosenBy::measured);
  EXPECT_EQ(said["c"].runs + said["reference"].runs, 0);  // "c" does not accept; the reference is not timed
  EXPECT_GT(inputs_sum, 0) << "operands hold numbers";
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "timing the kernels of 1 kind of nodes on 1 thread, for 10.0 s at most");
}

TEST_F(Tuner, TheRulesHoldWithinATwentieth) {
  said["b"].takes = 96;
  const Graph g = nodes({0});
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(taken(g).kernel, "a");
  EXPECT_EQ(taken(g).by, ChosenBy::measured);
}

TEST_F(Tuner, WhatTheRulesYieldToIsThePrior) {
  yields_to = "b";
  said["a"].takes = 96;
  const Graph g = nodes({0});
  EXPECT_EQ(taken(g).kernel, "b");
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(taken(g).kernel, "b");
  said["a"].takes = 90;
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(taken(g).kernel, "a");
}

TEST_F(Tuner, NodesOfAKindAreTimedOnce) {
  tune(nodes({0, 0, 0}));
  EXPECT_EQ(said["a"].prepared, 1);
  const int once = runs();
  said["a"].runs = said["b"].runs = 0;
  tune(nodes({1, 2, 1}));
  EXPECT_EQ(said["a"].prepared, 3);
  EXPECT_EQ(runs(), 2 * once);
}

TEST_F(Tuner, WhereNothingIsToBeChosenNothingIsTimed) {
  said["b"].accepts = false;
  EXPECT_FALSE(tune(nodes({0})));
  said["a"].accepts = false;
  EXPECT_FALSE(tune(nodes({0})));
  EXPECT_EQ(runs(), 0);
  EXPECT_TRUE(lines.empty());
}

TEST_F(Tuner, AKernelThatFailsIsNotTaken) {
  said["b"].takes = -1;
  const Graph g = nodes({0});
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(taken(g).kernel, "a");
}

TEST_F(Tuner, TimeIsBound) {
  said["a"].takes = said["b"].takes =
      400'000'000;  // each kind: two runs of each kernel, then as many as the node's limit allows
  options.tuning_file = folder.file("tuning.json");
  tuning.full_ns = 2'000'000'000;
  tune(nodes({0, 1, 2, 3}));
  const int some = runs();
  EXPECT_GT(some, 0);
  EXPECT_LE(now, tuning.full_ns + 8 * said["a"].takes);
  EXPECT_FALSE(tune(nodes({4}))) << "the session's time is spent";
  EXPECT_EQ(runs(), some);
}

// Kinds that one session had no time for are timed by the next.
TEST_F(Tuner, TheNextSessionGoesOn) {
  options.tune = Tune::automatic;
  options.tuning_file = folder.file("tuning.json");
  tuning.automatic_ns = 1;
  const Graph g = nodes({0, 1, 2});
  for (int session = 0; session < 3; ++session) {
    plans = {};
    said["a"].runs = said["b"].runs = 0;
    tune(g);
    EXPECT_GT(runs(), 0) << session;
  }
  plans = {};
  said["a"].runs = said["b"].runs = 0;
  tune(g);
  EXPECT_EQ(runs(), 0);
}

TEST_F(Tuner, AListOfKernelsLeavesNothingToTime) {
  options.kernels = "no-simd";
  EXPECT_FALSE(tune(nodes({0})));
  EXPECT_EQ(runs(), 0);
}

TEST_F(Tuner, ChoicesHoldForTheirNumberOfThreads) {
  said["b"].takes = 90;
  const Graph g = nodes({0});
  tune(g, 2);
  EXPECT_EQ(taken(g, 2).kernel, "b");
  EXPECT_EQ(taken(g, 1).kernel, "a");
}

// --- the tuning file
TEST_F(Tuner, IsKeptForLaterSessions) {
  options.tune = Tune::automatic;
  options.tuning_file = folder.file("cache/tuning.json");
  said["b"].takes = 90;
  const Graph g = nodes({0});
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(lines.size(), 1U);

  plans = {};
  said["a"].runs = said["b"].runs = 0;
  EXPECT_FALSE(tune(g));
  EXPECT_EQ(runs(), 0);
  EXPECT_EQ(lines.size(), 1U);
  EXPECT_EQ(taken(g).kernel, "b");
  EXPECT_EQ(taken(g).by, ChosenBy::measured);

  plans = {};
  said["b"].takes = 110;
  options.tune = Tune::full;  // timed again
  EXPECT_TRUE(tune(g));
  EXPECT_EQ(taken(g).kernel, "a");
  plans = {};
  options.tune = Tune::automatic;
  EXPECT_FALSE(tune(g));
  EXPECT_EQ(taken(g).kernel, "a");
}

TEST_F(Tuner, OffNeitherTimesNorReads) {
  options.tuning_file = folder.file("tuning.json");
  said["b"].takes = 90;
  const Graph g = nodes({0});
  tune(g);
  plans = {};
  said["a"].runs = said["b"].runs = 0;
  options.tune = Tune::off;
  EXPECT_FALSE(tune(g));
  EXPECT_EQ(runs(), 0);
  EXPECT_EQ(taken(g).kernel, "a");
  EXPECT_EQ(taken(g).by, ChosenBy::rules);
}

TEST_F(Tuner, WhatIsKeptAndDoesNotFitIsLeftToTheRules) {
  options.tune = Tune::automatic;
  options.tuning_file = folder.file("tuning.json");
  const Graph g = nodes({0});
  const std::string key = cpu_features().isa() + ": " + taken(g).node;
  for (const char* kernel : {"c", "no such kernel"}) {
    TuningFile(options.tuning_file, cpu_features().model).keep_kernels({{key, kernel}});
    plans = {};
    tune(g);
    EXPECT_EQ(taken(g).kernel, "a");
    EXPECT_EQ(taken(g).by, ChosenBy::rules);
    EXPECT_EQ(taken(g).note, "");
  }
  TuningFile(options.tuning_file, cpu_features().model).keep_kernels({{"z80: " + taken(g).node, "b"}, {key, "a"}});
  plans = {};
  tune(g);
  EXPECT_EQ(taken(g).kernel, "a") << "other instruction sets";
}

TEST_F(Tuner, AutomaticIsOffWhereNothingCanBeKept) {
  options.tune = Tune::automatic;
  for (const std::string& nowhere : {std::string(), std::string("/dev/null/tuning.json"), folder.path().string()}) {
    options.tuning_file = nowhere;
    EXPECT_FALSE(tune(nodes({0}))) << nowhere;
    EXPECT_EQ(runs(), 0) << nowhere;
  }
  options.tune = Tune::full;
  said["b"].takes = 90;
  EXPECT_TRUE(tune(nodes({0})));  // for this session only
}

TEST_F(Tuner, AutomaticTimesNothingWhereTheRulesWereMeasured) {
  options.tune = Tune::automatic;
  options.tuning_file = folder.file("tuning.json");
  tuning.rules_hold = true;
  said["b"].takes = 90;
  const Graph g = nodes({0});
  EXPECT_FALSE(tune(g));
  EXPECT_EQ(runs(), 0);
  const std::string key = cpu_features().isa() + ": " + taken(g).node;
  TuningFile(options.tuning_file, cpu_features().model).keep_kernels({{key, "b"}});
  EXPECT_FALSE(tune(g));
  EXPECT_EQ(taken(g).kernel, "b");  // as timed with Tune::full
}

TEST_F(Tuner, RestoredChoicesComeFirst) {
  said["a"].takes = 50;
  const Graph g = nodes({0});
  options.choices = {{.node = taken(g).node, .kernel = "b"}};
  EXPECT_FALSE(tune(g));
  EXPECT_EQ(runs(), 0);
  EXPECT_EQ(taken(g).kernel, "b");
  EXPECT_EQ(taken(g).by, ChosenBy::restored);

  said["b"].accepts = false;
  EXPECT_EQ(taken(g).kernel, "a");
  EXPECT_EQ(taken(g).by, ChosenBy::rules);
  EXPECT_EQ(taken(g).note, "b does not accept: said so");
  plans = {};
  options.choices[0].kernel = "d";
  tune(g);
  EXPECT_EQ(taken(g).note, "d is no kernel of this op");
}

// --- which processors the rules were measured on
TEST(MeasuredProcessors, AreToldByDesignAndInstructionSets) {
  CpuFeatures cpu;
  cpu.maker = "AuthenticAMD", cpu.family = 26, cpu.design = 2;
  cpu.avx2 = cpu.avx512 = cpu.avx512_bf16 = cpu.avx512_vnni = true;
  EXPECT_TRUE(rules_were_measured_on(cpu));
  CpuFeatures other = cpu;
  other.avx512_bf16 = false;  // SPARKPILOT_CPU=avx512
  EXPECT_FALSE(rules_were_measured_on(other));
  other = cpu;
  other.family = 25;
  EXPECT_FALSE(rules_were_measured_on(other));
  other = cpu;
  other.maker = "GenuineIntel";
  EXPECT_FALSE(rules_were_measured_on(other));
  other.family = 6, other.design = 85, other.avx512_bf16 = false;  // Cascade Lake
  EXPECT_TRUE(rules_were_measured_on(other));
  other.avx512_bf16 = true;  // Cooper Lake has the same design number
  EXPECT_FALSE(rules_were_measured_on(other));
  EXPECT_FALSE(rules_were_measured_on({}));
}

// --- what a kind of node is
TEST(ProblemKey, SaysWhatDecides) {
  Graph g;
  const ValueId x = g.add_input("x", DType::f32, Shape{2, 3});
  const ValueId w = g.add_constant(Tensor::zeros(DType::f16, Shape{3}));
  const auto key = [&](ValueId input, const Attributes& attributes) {
    const NodeId id = g.add_node(timed_op(), {input, {}}, attributes, 1, "a name");
    g.value(g.node(id).outputs[0]).dtype = DType::f32;
    g.value(g.node(id).outputs[0]).shape = Shape{4};
    const NodeProblem types(g, id);
    return problem_key(types.problem());
  };
  const ThreadScope scope(3);
  EXPECT_EQ(key(x, {{"kind", int64_t{7}}, {"epilogue", std::vector<std::string>{"relu", "add:3"}}}),
            "test::Timed f32[2,3] - -> f32[4] epilogue=relu,add:3 kind=7 threads=3");
  EXPECT_EQ(key(w, {}), "test::Timed f16[3]* - -> f32[4] threads=3");
  const std::string one = key(x, {{"text", "a\nb"}}), two = key(x, {{"text", "a\nc"}});
  EXPECT_NE(one, two);
  EXPECT_EQ(one.find('\n'), std::string::npos);
  const std::string longest = key(x, {{"t", std::string(10'000, 'x')}, {"u", std::string(150, 'y')}});
  EXPECT_LE(longest.size(), kLongestProblemKey);
  EXPECT_NE(longest.find("threads=3"), std::string::npos);
  Attributes many;
  for (int i = 0; i < 100; ++i) many.set("attribute" + std::to_string(i), int64_t{i});
  EXPECT_LE(key(x, many).size(), kLongestProblemKey);
}

}  // namespace kernel_tuner_test
}  // namespace sparkpilot
