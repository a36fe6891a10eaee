#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/test_files.h"
#include "hw/cpu.h"
#include "ir/op.h"
#include "runtime/cpu/busy_watch.h"
#include "runtime/cpu/thread_choice.h"
#include "runtime/session.h"
#include "runtime/tuning_file.h"

namespace sparkpilot {
namespace {
namespace fs = std::filesystem;

// --- what self-checks found
TEST(Checks, AreKeptBesideTheRestAndBounded) {
  const TempFolder folder;
  const fs::path path = folder.file("tuning.json");
  TuningFile file(path, "a processor");
  EXPECT_EQ(file.check("a GPU"), "");
  EXPECT_TRUE(file.keep_check("a GPU", TuningFile::kPassed));
  EXPECT_FALSE(file.keep_check("a GPU", "two\nlines"));
  EXPECT_FALSE(file.keep_check("a GPU", std::string(1000, 'x')));
  EXPECT_TRUE(file.keep_threads("3f09", 1));
  EXPECT_TRUE(file.keep_kernels({{"a node", "a kernel"}}));
  for (size_t i = 0; i + 1 < TuningFile::kMaxChecks; ++i) {
    EXPECT_TRUE(TuningFile(path, "a processor").keep_check("model " + std::to_string(i), "node \"x\" differs"));
  }
  const TuningFile again(path, "a processor");
  EXPECT_EQ(again.check("a GPU"), "passed");
  EXPECT_EQ(again.check("model 0"), "node \"x\" differs");
  EXPECT_EQ(again.threads("3f09"), 1);
  EXPECT_TRUE(file.keep_check("one more", TuningFile::kPassed));
  EXPECT_EQ(TuningFile(path, "a processor").check("a GPU"), "");  // the oldest
  EXPECT_EQ(TuningFile(path, "another").check("one more"), "");
  // What is no text, or too long, is no entry.
  for (const std::string value : {"true", "1", "null", "[\"passed\"]", "\"\"", "\"pas\\u0000sed\""}) {
    std::ofstream(path) << R"({"sparkpilot": ")" SPARKPILOT_VERSION
                           R"(", "cpu": "a processor", "threads": {}, "checks": {"k": )"
                        << value << "}}";
    EXPECT_EQ(TuningFile(path, "a processor").check("k"), "") << value;
    EXPECT_EQ(TuningFile(path, "a processor").ignored(), "");
  }
}

// A key of a check stands for the weights, too.
TEST(Checks, KeysHoldTheWholeModel) {
  const auto key = [](float last, const char* also = "") {
    Graph graph;
    std::vector<float> weights(1000, 1);
    weights.back() = last;
    const ValueId x = graph.add_input("x", DType::f32, Shape{1000});
    Builder b(graph);
    graph.add_output(b.add("Add", {x, b.constant(Tensor::of<float>(Shape{1000}, std::span<const float>(weights)))}),
                     "y");
    return content_key(graph, {}, also);
  };
  EXPECT_EQ(key(1), key(1));
  EXPECT_NE(key(1), key(2));
  EXPECT_NE(key(1), key(1, "other GPU code"));
}

// --- the number of threads
TEST(Threads, ChoicesEndAtAll) {
  EXPECT_EQ(thread_choices(1), (std::vector<int>{1}));
  EXPECT_EQ(thread_choices(2), (std::vector<int>{1, 2}));
  EXPECT_EQ(thread_choices(6), (std::vector<int>{1, 2, 4, 6}));
  EXPECT_EQ(thread_choices(8), (std::vector<int>{1, 2, 4, 8}));
}

// Times by number of threads, used one after the other; the last one repeats.
using Times = std::map<int, std::vector<double>>;
int choose(Times times, std::vector<int>* asked = nullptr) {
  std::vector<int> choices;
  for (const auto& [threads, list] : times) choices.push_back(threads);
  return fastest_threads(choices, [&](int threads) {
    if (asked) asked->push_back(threads);
    std::vector<double>& list = times[threads];
    const double first = list.front();
    if (list.size() > 1) list.erase(list.begin());
    return first;
  });
}

TEST(Threads, MoreAreTakenWhileTheyAreFaster) {
  EXPECT_EQ(choose({{1, {100}}, {2, {55}}, {4, {30}}, {8, {20}}}), 8);
  EXPECT_EQ(choose({{1, {100}}, {2, {55}}, {4, {60}}, {8, {20}}}), 2);
  EXPECT_EQ(choose({{1, {100}}, {2, {97}}}), 1);  // not worth a second processor
  EXPECT_EQ(choose({{3, {100}}}), 3);
}

TEST(Threads, AreComparedInTurns) {
  std::vector<int> asked;
  choose({{1, {100}}, {2, {200}}, {4, {1}}}, &asked);
  EXPECT_EQ(asked, (std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST(Threads, OneDisturbedTurnDecidesNothing) {
  EXPECT_EQ(choose({{1, {100}}, {2, {55, 4000, 55}}}), 2);
  EXPECT_EQ(choose({{1, {100}}, {2, {4000, 55, 4000}}}), 1);
}

// Simulates runs that take 1.8 us alone and `together` ns on several threads; returns the share run alone.
double share_alone(BusyWatch& watch, int runs, int64_t together) {
  int alone = 0;
  for (int i = 0; i < runs; ++i) {
    alone += watch.alone();
    watch.took(watch.alone() ? 1800 : together);
  }
  return static_cast<double>(alone) / runs;
}

TEST(BusyWatch, LeavesAQuietMachineAlone) {
  BusyWatch watch;
  EXPECT_EQ(share_alone(watch, 5000, 1000), 0);
  EXPECT_EQ(share_alone(watch, 5000, 1300), 0);  // a lower clock frequency
}

TEST(BusyWatch, TakesOneThreadWhileTheMachineIsBusy) {
  BusyWatch watch;
  share_alone(watch, 500, 1000);
  EXPECT_GT(share_alone(watch, 20000, 9000), 0.97);
  share_alone(watch, 4200, 1000);  // until it tries several threads again
  EXPECT_EQ(share_alone(watch, 5000, 1000), 0);
}

// As where the number of threads was remembered from an idle machine.
TEST(BusyWatch, TakesOneThreadWhereTheMachineIsBusyFromTheFirstRun) {
  BusyWatch knows(1800), learns;
  EXPECT_GT(share_alone(knows, 20000, 9000), 0.97);
  EXPECT_EQ(share_alone(learns, 20000, 9000), 0) << "that takes the time on one thread";
  BusyWatch quiet(1800);
  EXPECT_EQ(share_alone(quiet, 5000, 1000), 0);
}

// Trying whether the machine is idle again is cheap.
TEST(BusyWatch, LooksBrieflyWhereRunsAreManyTimesSlower) {
  BusyWatch watch;
  share_alone(watch, 500, 1000);
  int64_t together = 0;
  for (int i = 0; i < 2000; ++i) {
    together += !watch.alone();
    watch.took(watch.alone() ? 1800 : 50000);
  }
  EXPECT_LT(together, 32 + 4 * 5);
}

TEST(BusyWatch, AHiccupCostsLittle) {
  BusyWatch watch;
  share_alone(watch, 500, 1000);
  watch.took(40000);
  EXPECT_LT(share_alone(watch, 5000, 1000), 0.03);
}

TEST(BusyWatch, SeveralThreadsStayWhereOneIsHeldUpToo) {
  BusyWatch watch;
  share_alone(watch, 500, 500);
  EXPECT_LT(share_alone(watch, 5000, 1700), 0.05);  // slower than before, but still faster than one thread
}

// --- the tuning file
class Tuning : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string ignored() { return TuningFile(path, "cpu").ignored(); }
  TempFolder folder;
  fs::path path = folder / "sparkpilot/tuning.json";
};

TEST_F(Tuning, IsKeptForTheSameProcessor) {
  {
    TuningFile file(path, "cpu");
    EXPECT_EQ(file.ignored(), "");
    EXPECT_FALSE(file.threads("a"));
    EXPECT_TRUE(file.keep_threads("a", 1));
    EXPECT_EQ(file.threads("a"), 1);
    TuningFile other(path, "cpu");  // another process meanwhile
    EXPECT_TRUE(other.keep_threads("b", 1));
    EXPECT_TRUE(file.keep_threads("c", 1));
  }
  const TuningFile file(path, "cpu");
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(file.threads(key), 1) << key;
  TuningFile elsewhere(path, "another cpu");
  EXPECT_NE(elsewhere.ignored().find("another processor"), std::string::npos);
  EXPECT_FALSE(elsewhere.threads("a"));
  EXPECT_TRUE(elsewhere.keep_threads("a", 1));
  EXPECT_NE(ignored(), "");
}

TEST_F(Tuning, KernelsAreKeptBesideThreads) {
  {
    TuningFile file(path, "cpu");
    EXPECT_TRUE(file.is_writable());
    EXPECT_TRUE(file.keep_threads("a", 1));
    EXPECT_TRUE(file.keep_kernels({{"one", "simd"}, {"two", "dot"}}));
    TuningFile other(path, "cpu");  // another process meanwhile
    EXPECT_TRUE(other.keep_kernels({{"three", "onednn"}, {"one", "onednn"}}));
    EXPECT_TRUE(file.keep_threads("b", 1));
  }
  const TuningFile file(path, "cpu");
  EXPECT_EQ(file.kernels(), (TuningFile::Kernels{{"two", "dot"}, {"three", "onednn"}, {"one", "onednn"}}));
  EXPECT_EQ(file.threads("a"), 1);
  EXPECT_EQ(file.threads("b"), 1);
  EXPECT_TRUE(TuningFile(path, "another cpu").kernels().empty());
}

TEST_F(Tuning, ForeignKernelsAreBound) {
  const std::string head = R"({"sparkpilot": ")" SPARKPILOT_VERSION R"(", "cpu": "cpu", "threads": {"a": 1}, )";
  for (const char* kernels : {"[]", "1", "null", "\"simd\""}) {
    write(head + R"("kernels": )" + kernels + "}");
    EXPECT_NE(ignored(), "") << kernels;
    EXPECT_FALSE(TuningFile(path, "cpu").threads("a")) << kernels;
  }
  write(head + R"("kernels": {"a": 1, "b": ["simd"], "c": "", "d": ")" + std::string(65, 'x') + R"(", ")" +
        std::string(1025, 'k') + R"(": "simd", "e": null, "": "simd", "\u0000\n": "\u0000"}})");
  EXPECT_EQ(TuningFile(path, "cpu").kernels(),
            (TuningFile::Kernels{{"", "simd"}, {std::string("\0\n", 2), std::string("\0", 1)}}));
  std::string many = head + R"("kernels": {)";
  for (size_t i = 0; i < TuningFile::kMaxKernels + 10; ++i) many += fmt::format("{}\"{}\": \"simd\"", i ? "," : "", i);
  write(many + "}}");
  EXPECT_EQ(TuningFile(path, "cpu").kernels().size(), TuningFile::kMaxKernels);
}

// The file stays readable however long the keys are.
TEST_F(Tuning, KernelsStayFewAndSmall) {
  TuningFile file(path, "cpu");
  TuningFile::Kernels found;
  for (size_t i = 0; i < TuningFile::kMaxKernels + 10; ++i) found.emplace_back(fmt::format("{:01000}", i), "simd");
  EXPECT_TRUE(file.keep_kernels(found));
  EXPECT_EQ(ignored(), "");
  const TuningFile again(path, "cpu");
  ASSERT_FALSE(again.kernels().empty());
  EXPECT_EQ(again.kernels().back(), found.back());
  EXPECT_LT(fs::file_size(path), size_t{1} << 20);
}

TEST_F(Tuning, DamagedIsIgnoredAndWrittenOver) {
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "[";
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"threads\": 1}"), std::string("\xff\x00", 2),
        std::string(R"({"sparkpilot": "0.0.0", "cpu": "cpu", "threads": {"a": 1}})"), deep,
        std::string(1 << 19, ' ')}) {
    write(text);
    EXPECT_NE(ignored(), "") << text.substr(0, 60);
    EXPECT_TRUE(TuningFile(path, "cpu").keep_threads("a", 1));
    EXPECT_EQ(ignored(), "");
  }
}

TEST_F(Tuning, CountsThatThisMachineCannotHaveAreLeftOut) {
  write(R"({"sparkpilot": ")" SPARKPILOT_VERSION
        R"(", "cpu": "cpu", "threads": {"a": 0, "b": 100000, "c": "x", "d": 1, "e": 1.5}})");
  const TuningFile file(path, "cpu");
  EXPECT_EQ(file.ignored(), "");
  for (const char* key : {"a", "b", "c", "e"}) EXPECT_FALSE(file.threads(key)) << key;
  EXPECT_EQ(file.threads("d"), 1);
}

TEST_F(Tuning, StaysSmall) {
  TuningFile file(path, "cpu");
  std::string all = R"({"sparkpilot": ")" SPARKPILOT_VERSION R"(", "cpu": "cpu", "threads": {)";
  for (size_t i = 0; i < TuningFile::kMax; ++i) all += (i ? ", \"k" : "\"k") + std::to_string(i) + "\": 1";
  write(all + "}}");
  EXPECT_TRUE(file.keep_threads("new", 1));
  EXPECT_FALSE(file.threads("k0"));
  EXPECT_EQ(file.threads("k1"), 1);
  EXPECT_EQ(TuningFile(path, "cpu").threads("new"), 1);
}

TEST_F(Tuning, NoPlaceToKeepItIsNoError) {
  for (const fs::path& nowhere : {fs::path(), fs::path("/dev/null/sparkpilot/tuning.json"), folder.path()}) {
    TuningFile file(nowhere, "cpu");
    EXPECT_FALSE(file.keep_threads("a", 1)) << nowhere;
    EXPECT_FALSE(file.keep_kernels({{"a", "simd"}})) << nowhere;
    EXPECT_FALSE(file.is_writable()) << nowhere;
  }
}

// --- sessions
Graph layer(int64_t columns = 24, float alpha = 1) {
  Graph g;
  Builder b(g, "layer");
  Tensor weights(DType::f32, Shape{32, columns});
  Random random(1);
  for (float& x : weights.data<float>()) x = static_cast<float>(random.normal());
  const ValueId x = g.add_input("x", DType::f32, std::vector<Dim>{{16, ""}, {32, ""}});
  g.add_output(b.add("Gemm", {x, b.constant(weights)}, {{"alpha", alpha}}), "y");
  return g;
}

TEST_F(Tuning, TheKeyStandsForWhatIsComputed) {
  const std::string key = tuning_key(layer(), {});
  EXPECT_EQ(tuning_key(layer(), {}), key);
  EXPECT_NE(tuning_key(layer(25), {}), key);
  EXPECT_NE(tuning_key(layer(24, 2), {}), key);
  EXPECT_NE(tuning_key(layer(), {.precision = Precision::bf16}), key);
  EXPECT_NE(tuning_key(layer(), {.off = {"fold"}}), key);
}

TEST_F(Tuning, ASessionTakesWhatWasKept) {
  const SessionOptions options{.tuning_file = path.string()};
  const std::string key = tuning_key(layer(), options.passes);
  for (const int threads : thread_choices(available_processors())) {
    ASSERT_TRUE(TuningFile(path, cpu_features().model).keep_threads(key, threads));
    EXPECT_EQ(Session(layer(), options).threads(), threads);
  }
  EXPECT_EQ(Session(layer(), {.threads = 3, .tuning_file = path.string()}).threads(), 3);
}

std::vector<float> results(Session& session) {
  const View x = session.input("x");
  for (int64_t i = 0; i < x.elements(); ++i) x.as<float>()[i] = static_cast<float>(i % 13) - 6;
  session.run();
  const std::span<const float> y = session.output<float>("y");
  return {y.begin(), y.end()};
}

TEST_F(Tuning, ChoicesOfASessionAreItsKernels) {
  Session session(layer(), {.threads = 1, .profile = true});
  const std::vector<KernelDecision> choices = session.choices();
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].by, ChosenBy::rules);
  EXPECT_EQ(choices[0].note, "");
  EXPECT_EQ(choices[0].node, session.profile().nodes.at(0).kind);
  EXPECT_EQ(choices[0].kernel, session.profile().nodes.at(0).kernel);
  EXPECT_NE(choices[0].node.find("f32[16,32] f32[32,24]*"), std::string::npos) << choices[0].node;
  EXPECT_NE(choices[0].node.find("threads=1"), std::string::npos) << choices[0].node;
  Session asked(layer(), {.threads = 1, .kernels = "onednn"});
  EXPECT_EQ(asked.choices().at(0).by, ChosenBy::asked);
  EXPECT_EQ(asked.choices().at(0).kernel, "onednn");
}

// A session reports whatever kernels it is given, with the same results.
TEST_F(Tuning, ChoicesAreRestored) {
  std::vector<KernelDecision> choices = Session(layer(), {.threads = 1}).choices();
  ASSERT_EQ(choices.size(), 1U);
  for (const char* kernel : {"simd", "onednn", "reference"}) {
    choices[0].kernel = kernel;
    Session restored(layer(), {.threads = 1, .choices = choices});
    ASSERT_EQ(restored.choices().size(), 1U);
    EXPECT_EQ(restored.choices()[0].kernel, kernel);
    EXPECT_EQ(restored.choices()[0].by, ChosenBy::restored);
    Session asked(layer(), {.threads = 1, .kernels = kernel});
    EXPECT_EQ(results(restored), results(asked)) << kernel;
    Session again(layer(), {.threads = 1, .choices = restored.choices()});
    EXPECT_EQ(again.choices()[0].kernel, kernel);
  }
  choices[0].kernel = "dot";  // a kernel for bf16
  Session session(layer(), {.threads = 1, .choices = choices}), rules(layer(), {.threads = 1, .tune = Tune::off});
  EXPECT_EQ(session.choices().at(0).kernel, rules.choices().at(0).kernel);
  EXPECT_EQ(session.choices()[0].by, ChosenBy::rules);
  EXPECT_NE(session.choices()[0].note.find("dot"), std::string::npos) << session.choices()[0].note;
  EXPECT_EQ(results(session), results(rules));
}

// Tune::off: the rules, whatever the file says; automatic: what the file says.
TEST_F(Tuning, ASessionTakesTheKernelsThatWereKept) {
  const KernelDecision rules = Session(layer(), {.threads = 1}).choices().at(0);
  for (const std::string kernel : {"simd", "onednn"}) {
    const std::string key = cpu_features().isa() + ": " + rules.node;
    ASSERT_TRUE(TuningFile(path, cpu_features().model).keep_kernels({{key, kernel}}));
    Session automatic(layer(), {.threads = 1, .tuning_file = path.string(), .profile = true});
    EXPECT_EQ(automatic.choices().at(0).kernel, kernel);
    EXPECT_EQ(automatic.choices()[0].by, ChosenBy::measured);
    EXPECT_EQ(automatic.profile().nodes.at(0).chosen_by, ChosenBy::measured);
    Session off(layer(), {.threads = 1, .tuning_file = path.string(), .tune = Tune::off});
    Session plain(layer(), {.threads = 1});
    EXPECT_EQ(off.choices().at(0).kernel, rules.kernel);
    EXPECT_EQ(off.choices()[0].by, ChosenBy::rules);
    EXPECT_EQ(results(off), results(plain));
  }
}

// Whichever kernel is fastest here, a later session knows it.
TEST_F(Tuning, FullTimesEveryNodeOnThisMachine) {
  std::vector<std::string> lines;
  const auto say = [&](const std::string& line) { lines.push_back(line); };
  for (const int threads : {0, 1}) {
    lines.clear();
    Session full(layer(), {.threads = threads, .tuning_file = path.string(), .tune = Tune::full, .say = say});
    ASSERT_EQ(full.choices().size(), 1U);
    EXPECT_EQ(lines.size(), 1U);
    if (full.choices()[0].by != ChosenBy::measured) GTEST_SKIP() << "the machine stood still for too long";
    Session after(layer(), {.threads = full.threads(), .tuning_file = path.string(), .say = say});
    EXPECT_EQ(after.choices().at(0).kernel, full.choices()[0].kernel);
    EXPECT_EQ(after.choices()[0].by, ChosenBy::measured);
    EXPECT_EQ(lines.size(), 1U);
    EXPECT_EQ(results(after), results(full));
  }
}

TEST_F(Tuning, TryingLeavesNoTrace) {
  Graph g;
  Builder b(g, "count");
  const ValueId n = g.add_state(Tensor::of<float>(Shape{1}, {5}), "n");
  const ValueId next = b.add("Add", {n, b.constant(Tensor::of<float>(Shape{1}, {1}))});
  g.set_next(n, next);
  g.add_output(next, "y");
  Session session(std::move(g), {.profile = true});
  EXPECT_GE(session.threads(), 1);
  for (const NodeProfile& node : session.profile().nodes) EXPECT_EQ(node.calls, 0) << node.name;
  EXPECT_THROW(session.output("y"), Error);
  EXPECT_EQ(session.state("n").as<float>()[0], 5);
  session.run();
  EXPECT_EQ(session.output<float>("y")[0], 6);
}

}  // namespace
}  // namespace sparkpilot
