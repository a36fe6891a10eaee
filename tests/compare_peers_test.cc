// sparkpilot compare --peer as users run it: with an adapter for tests, and with the engines that `make peers`
// installs.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "cli_fixture.h"
#include "compare/test_faults.h"
#include "ir/op.h"
#include "onnx/export.h"

namespace sparkpilot {
namespace compare_peers_test {

constexpr const char* kRepository = SPARKPILOT_SOURCE_DIR;

// A small network in 32-bit floats: convolutions with a residual, and a product.
Graph network() {
  Graph graph;
  graph.opsets[""] = 17;
  Builder b(graph, "n", 17);
  Random random(5);
  const auto weights = [&](const Shape& shape, double scale) {
    Tensor tensor(DType::f32, shape);
    for (float& weight : tensor.data<float>()) weight = static_cast<float>(scale * random.normal());
    return b.constant(tensor);
  };
  const auto conv = [&](ValueId x, int64_t channels) {
    return b.add("Conv", {x, weights({16, channels, 3, 3}, 0.1), weights({16}, 0.1)},
                 {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  };
  ValueId x = b.add("Relu", {conv(graph.add_input("image", DType::f32, Shape{1, 3, 24, 32}), 3)});
  for (int i = 0; i < 4; ++i) x = b.add("Add", {x, b.add("Relu", {conv(x, 16)})});
  x = b.add("Flatten", {b.add("GlobalAveragePool", {x})});
  x = b.add("Gemm", {x, weights({16, 40}, 0.2), weights({40}, 0.2)});
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.value(ValueId{i});
    if (!value.producer.present()) continue;
    value.name = fmt::format("value_{}", i);
    graph.node(value.producer).name = fmt::format("{}_{}", graph.node(value.producer).op->name, i);
  }
  graph.add_output(x, graph.value(x).name);
  return graph;
}

template <typename Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class ComparePeers : public Cli {
 protected:
  // y = x * 1.5, which tests/peers/peer_fake.py computes.
  ComparePeers() {
    Graph graph;
    graph.opsets[""] = 21;
    Builder b(graph, "n", 21);
    const ValueId x = graph.add_input("x", DType::f32, Shape{2, 8});
    graph.add_output(b.add("Mul", {x, b.scalar(DType::f32, 1.5f)}), "y");
    save_onnx(graph, folder / "model.onnx");
  }
  std::string compare(const std::string& peers) const {
    const auto has = [&](const char* flag) { return peers.find(flag) != std::string::npos; };
    const std::string rounds = has("--no-time") || has("--bisect") ? "" : "--rounds 5 ";  // refused beside these
    return "compare '" + folder.file("model.onnx") + "' --threads 1 " + rounds + "--peer " + peers;
  }
  static std::string with_fake() {
    return std::string("SPARKPILOT_PEERS='") + kRepository + "/tests/peers' SPARKPILOT_PYTHON=python3";
  }
  void script(const std::string& name, const std::string& text) const {
    write_text(folder / name, text);
    ::chmod((folder / name).c_str(), 0755);
  }
};

TEST_F(ComparePeers, AreTimedByBenchToo) {
  const std::string bench = "bench '" + folder.file("model.onnx") + "' --threads 1 --runs 5 ";
  const json document = parsed(bench + "--repeats 0 --peer fake,fake:crash", with_fake());
  const json& peers = document["models"][0]["peers"];
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(keys(peers[0]), (Keys{"peer", "engine", "device", "precision", "threads", "not_run", "load_ms", "mean_ms",
                                  "p50_ms", "p90_ms", "p99_ms", "min_ms", "time_ratio"}));
  EXPECT_TRUE(peers[0]["not_run"].is_null());
  EXPECT_GT(peers[0]["time_ratio"]["median"], 0);
  EXPECT_EQ(peers[1]["peer"], "fake:crash");
  EXPECT_TRUE(peers[1]["not_run"].is_string());
  EXPECT_FALSE(peers[1].contains("mean_ms"));
  const ProgramResult text = run_program(bench + "--peer fake,fake:crash", with_fake());
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"  fake, ", "fake:crash: not run: ", "divided by that of the model above it"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
  expect_usage_error(bench + "--batch 2 --peer fake", "--batch: peers run a file as it is", with_fake());
  expect_usage_error(bench + "--peer nobody", "nobody", with_fake());
}

TEST_F(ComparePeers, StandInTheSameTables) {
  const json document = parsed(compare("fake,fake:crash"), with_fake());
  ASSERT_EQ(document["variants"].size(), 3u);
  const json &ours = document["variants"][0], &fake = document["variants"][1], &crash = document["variants"][2];
  EXPECT_EQ(ours["name"], "sparkpilot");
  EXPECT_FALSE(ours.contains("peer"));
  EXPECT_EQ(keys(fake), (Keys{"name",         "file",   "precision", "threads", "load_ms",    "peak_memory_bytes",
                              "arena_bytes",  "peer",   "engine",    "device",  "not_run",    "runs",
                              "mean_ms",      "p50_ms", "p99_ms",    "min_ms",  "time_ratio", "outputs",
                              "not_compared", "layers"}));
  EXPECT_EQ(fake["peer"], "fake");
  EXPECT_EQ(fake["engine"], "Fake 1.0");
  EXPECT_EQ(fake["threads"], 1);
  EXPECT_TRUE(fake["not_run"].is_null());
  EXPECT_EQ(fake["outputs"][0]["relative_l2"], 0.0);
  EXPECT_EQ(crash["not_run"], "the adapter ended at load (exit code 1): RuntimeError: out of device memory");
  EXPECT_FALSE(crash.contains("mean_ms"));
  const ProgramResult text = run_program(compare("fake,fake:crash,fake:model"), with_fake());
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word :
       {"Fake 1.0 (CPU)", "not run", "fake:crash: not run: the adapter ended at load (exit code 1): RuntimeError",
        "fake:model: computed in the types of the file, not in fp32", "against sparkpilot, 1 sample"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  }
}

// A peer that did not run cannot have passed a check.
TEST_F(ComparePeers, AreHeldToLimits) {
  EXPECT_EQ(run_program(compare("fake --no-time --max-relative-l2 1e-6"), with_fake()).code, 0);
  const ProgramResult failed = run_program(compare("fake:crash --no-time --max-relative-l2 1e-6"), with_fake());
  EXPECT_EQ(failed.code, 4);
  EXPECT_NE(failed.err.find("fake:crash, not run: the adapter ended at load"), std::string::npos) << failed.err;
}

TEST_F(ComparePeers, WrongUsageIsOneLine) {
  const auto refused = [&](const std::string& peers, const std::string& word) {
    const ProgramResult result = run_program(compare(peers), with_fake());
    EXPECT_EQ(result.code, 2) << peers;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  };
  refused("onnxruntim", "there are fake, onnxruntime, pytorch, tinygrad, trtexec (did you mean onnxruntime?)");
  refused("fake,fake", "--peer: fake is given twice");
  refused("fake,", "expected a peer such as onnxruntime, onnxruntime:cuda or ./old/sparkpilot, got \"\"");
  refused("../fake", "../fake: no such file");
  refused("fake --peer-timeout -1", "--peer-timeout: expected 0 or more, got -1");
  refused("fake --output y", "--output: peers compute all outputs");
  refused("fake,fake:model --bisect", "--bisect compares two, these are 3");
  refused("fake:refuse --bisect", "fake:refuse: this engine\\x0ahas no device");
  refused("fake:hang --bisect --peer-timeout 1", "fake:hang: no answer to load in 1 s");
}

// The folder of the user's own adapters, and an adapter that needs no interpreter by name.
TEST_F(ComparePeers, AreFoundInTheUsersFolder) {
  script("data/sparkpilot/peers/peer_mine", "#!/bin/sh\necho '{\"protocol\": 7, \"engine\": \"Mine\"}'\nsleep 1000\n");
  const json document = parsed(compare("mine --no-time"), "XDG_DATA_HOME='" + folder.file("data") + "'");
  const std::string why = document["variants"][1]["not_run"];
  EXPECT_NE(why.find("peer_mine speaks protocol 7, expected 1"), std::string::npos) << why;
}

// How long our own threads spin is no matter of the peers', unless the user has set it for all.
TEST_F(ComparePeers, GetTheUsersEnvironment) {
  script("peers/peer_spin", "#!/bin/sh\necho '{\"error\": \"spin '\"${GOMP_SPINCOUNT:-unset}\"'\"}'\n");
  const std::string before = "SPARKPILOT_PEERS='" + folder.file("peers") + "'";
  EXPECT_EQ(parsed(compare("spin --no-time"), before)["variants"][1]["not_run"], "spin unset");
  EXPECT_EQ(parsed(compare("spin --no-time"), before + " GOMP_SPINCOUNT=77")["variants"][1]["not_run"], "spin 77");
}

// Ended in the middle of a load that hangs: the adapter, what it has started, and its folder go.
TEST_F(ComparePeers, EndWithTheProgram) {
  script("peers/peer_slow", "#!/bin/sh\ntrap '' INT TERM HUP\nsleep 1000 &\npwd >'" + folder.file("where") +
                                "'; echo $$ $! >>'" + folder.file("where") + "'\nmv '" + folder.file("where") + "' '" +
                                folder.file("there") + "'\nwait\n");
  for (const char* signal : {"INT", "TERM", "KILL"}) {
    std::filesystem::remove(folder / "there");
    // A shell without job control has its background processes ignore SIGINT.
    script("until",
           fmt::format("#!/bin/sh\nenv --default-signal=INT \"$@\" & p=$!\nwhile [ ! -e '{}' ] && kill -0 $p; do "
                       "sleep 0.05; done\nkill -{} $p; wait $p; exit $?\n",
                       folder.file("there"), signal));
    const std::string before = fmt::format("SPARKPILOT_PEERS='{}' '{}'", folder.file("peers"), folder.file("until"));
    const ProgramResult result = run_program(compare("slow --no-time"), before);
    EXPECT_NE(result.code, 0) << signal;
    std::istringstream text(read_text(folder / "there"));
    std::string where, first, second;
    text >> where >> first >> second;
    ASSERT_FALSE(second.empty()) << signal;
    EXPECT_TRUE(soon([&] { return !std::filesystem::exists(where); })) << signal << ": " << where;
    for (const std::string& pid : {first, second}) {
      EXPECT_TRUE(soon([&] {
        const std::string state = read_text("/proc/" + pid + "/stat");
        return state.empty() || state.find(") Z") != std::string::npos;
      })) << signal
          << ": " << pid;
    }
  }
}

// A Python that has these modules: that of .venv, of PATH or of the system; empty if none has.
std::string python_with(const std::string& modules) {
  for (const std::string& python : {std::string(kRepository) + "/.venv/bin/python", std::string("/usr/bin/python3")}) {
    const std::string look = fmt::format(
        R"('{}' -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, "{}".split())))' 2>/dev/null)",
        python, modules);
    if (std::system(look.c_str()) == 0) return python;
  }
  return {};
}

// Packages of versions that the adapters cannot work with.
TEST_F(ComparePeers, NameVersionsThatAreTooOld) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "neither .venv nor /usr/bin/python3 has numpy";
  for (const char* package : {"torch-2.4.0", "onnx2torch-1.4.2", "onnxruntime-1.9.1", "tinygrad-0.9.0"}) {
    const std::string name(package, std::strchr(package, '-')), version = std::strchr(package, '-') + 1;
    write_text(folder / "old" / (std::string(package) + ".dist-info") / "METADATA",
               fmt::format("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", name, version));
  }
  const json document = parsed(compare("pytorch,onnxruntime,tinygrad --no-time"),
                               "SPARKPILOT_PYTHON='" + python + "' PYTHONPATH='" + folder.file("old") + "'");
  EXPECT_EQ(document["variants"][1]["not_run"], "onnx2torch 1.5 or newer expected, found 1.4.2");
  EXPECT_EQ(document["variants"][2]["not_run"], "onnxruntime 1.17 or newer expected, found 1.9.1");
  EXPECT_EQ(document["variants"][3]["not_run"], "tinygrad 0.11 or newer expected, found 0.9.0");
}

// The adapter that docs/peers.md shows, word for word.
TEST_F(ComparePeers, RunTheExampleOfThePage) {
  const std::string python = python_with("numpy onnx");
  if (python.empty()) GTEST_SKIP() << ".venv lacks numpy or onnx (make peers)";
  const std::string page = read_text(std::filesystem::path(kRepository) / "docs/peers.md"), mark = "```python\n";
  const size_t begin = page.find(mark);
  ASSERT_NE(begin, std::string::npos);
  const size_t code = begin + mark.size();
  write_text(folder / "peers" / "peer_reference.py", page.substr(code, page.find("```", code) - code));
  save_onnx(network(), folder / "model.onnx");
  const json row = parsed(compare("reference"), "SPARKPILOT_PYTHON='" + python + "' SPARKPILOT_PEERS='" +
                                                    folder.file("peers") + "'")["variants"][1];
  ASSERT_TRUE(row["not_run"].is_null()) << row["not_run"];
  EXPECT_LT(row["outputs"][0]["relative_l2"], 1e-5);
  EXPECT_GT(row["runs"], 14);
}

// trtexec's adapter beside a stand-in for trtexec.
class ComparePeersTrtexec : public ComparePeers {
 protected:
  void SetUp() override {
    python = python_with("numpy");
    if (python.empty()) GTEST_SKIP() << "neither .venv nor /usr/bin/python3 has numpy";
  }
  std::string with_trtexec(const std::string& wrong) const {
    return "SPARKPILOT_PYTHON='" + python + "' SPARKPILOT_FAKE_TRTEXEC='" + wrong + "' PATH=\"" + kRepository +
           "/tests/peers:$PATH\"";
  }
  json row(const std::string& wrong, const std::string& more = "") const {
    return parsed(compare("trtexec " + more), with_trtexec(wrong))["variants"].back();
  }
  std::string python;
};

TEST_F(ComparePeersTrtexec, ReadsItsTraceAndOutputs) {
  const json good = row("");
  ASSERT_TRUE(good["not_run"].is_null()) << good["not_run"];
  EXPECT_EQ(good["engine"], "TensorRT 10.14.1");
  EXPECT_EQ(good["device"], "GPU");
  EXPECT_TRUE(good["threads"].is_null());
  EXPECT_NEAR(good["p50_ms"].get<double>(), 0.04, 1e-9);
  EXPECT_NEAR(good["mean_ms"].get<double>(), 0.04, 1e-9);            // without those of the warm-up, which took 9 ms
  EXPECT_LT(good["outputs"][0]["relative_l2"].get<double>(), 1e-5);  // six digits
  EXPECT_EQ(row("8.6")["engine"], "TensorRT 8.6.2");
  EXPECT_EQ(row("", "--precision fp16")["precision"], "fp16");
  EXPECT_EQ(row("nan", "--no-time")["outputs"][0]["not_finite"], 16);
}

TEST_F(ComparePeersTrtexec, SaysWhatIsWrong) {
  const auto why = [&](const std::string& wrong) { return row(wrong, "--no-time")["not_run"].get<std::string>(); };
  EXPECT_EQ(
      why("build"),
      "trtexec ended with 1: [TRT] ModelImporter.cpp:1051: Failed to parse ONNX model. No importer registered for "
      "op: Frobnicate");
  EXPECT_EQ(why("few"), "trtexec timed 0 runs, expected 1");
  const std::string old = why("old");
  EXPECT_EQ(old.find("TensorRT 8.6 or newer expected, found 8.5.3 ("), 0u) << old;
  const json absent = parsed(compare("trtexec --no-time"), "SPARKPILOT_PYTHON='" + python + "' PATH=/nonexistent");
  EXPECT_EQ(absent["variants"][1]["not_run"], "trtexec is not installed: expected in PATH or /usr/src/tensorrt/bin");
}

// The engines themselves: from .venv, on the CPU, against one of openpilot's networks in the types of fp32.
class RealPeers : public Cli, public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {
 protected:
  static std::string python() { return std::string(kRepository) + "/.venv/bin/python"; }
  static bool has(const std::string& modules) { return python_with(modules) == python(); }
  // tinygrad keeps its kernels in a cache.
  std::string environment() const {
    return "SPARKPILOT_PYTHON='" + python() + "' XDG_CACHE_HOME='" + folder.path().string() + "'";
  }
};

TEST_P(RealPeers, Agree) {
  const auto [peer, modules] = GetParam();
  if (!has(modules)) GTEST_SKIP() << ".venv lacks one of " << modules << " (make peers)";
  save_onnx(network(), folder / "model.onnx");
  const std::string words =
      "compare '" + folder.file("model.onnx") + "' --threads 1 --rounds 5 --samples 2 --peer " + peer;
  const json document = parsed(words, environment());
  const json& row = document["variants"][1];
  ASSERT_TRUE(row["not_run"].is_null()) << row["not_run"];
  EXPECT_EQ(row["precision"], "fp32");
  EXPECT_EQ(row["device"], std::string(peer) == "pytorch:cpu-compiled" ? "CPU-COMPILED" : "CPU");
  EXPECT_EQ(row["threads"], 1);
  ASSERT_EQ(row["outputs"].size(), 1u);
  EXPECT_LT(row["outputs"][0]["relative_l2"], 1e-5);
  EXPECT_GT(row["runs"], 14);
  EXPECT_GT(row["time_ratio"]["median"], 0.0);
}

INSTANTIATE_TEST_SUITE_P(Engines, RealPeers,
                         ::testing::Values(std::tuple{"onnxruntime", "onnxruntime onnx numpy"},
                                           std::tuple{"pytorch", "torch torchvision onnx2torch"},
                                           std::tuple{"pytorch:cpu-compiled", "torch torchvision onnx2torch"},
                                           std::tuple{"tinygrad", "tinygrad numpy"}),
                         [](const auto& tested) {
                           std::string name = std::get<0>(tested.param);
                           std::ranges::replace_if(
                               name, [](char c) { return c == ':' || c == '-'; }, '_');
                           return name;
                         });

class RealOnnxRuntime : public RealPeers {};

TEST_P(RealOnnxRuntime, BisectFindsAPlantedFault) {
  if (!has("onnxruntime onnx numpy")) GTEST_SKIP() << ".venv lacks onnxruntime or onnx (make peers)";
  const Graph graph = network();
  save_onnx(graph, folder / "model.onnx");
  const std::vector<NodeId> nodes = compare::products(graph);
  const std::string words =
      "compare '" + folder.file("model.onnx") + "' --threads 1 --peer onnxruntime --bisect --json";
  const ProgramResult same = run_program(words, environment());
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  for (const size_t at : {nodes.size() / 4, nodes.size() / 2, nodes.size() - 2}) {
    Graph copy = graph;
    compare::scale_weights(copy, nodes[at], 1.05);
    save_onnx(copy, folder / "scaled.onnx");
    const ProgramResult found =
        run_program("compare '" + folder.file("scaled.onnx") + "' '" + folder.file("model.onnx") +
                        "' --threads 1 --peer onnxruntime --bisect --json",
                    environment());
    EXPECT_EQ(found.code, 4) << found.err;
    const json document = json::parse(found.out, nullptr, false);
    ASSERT_TRUE(document["fault"].is_object()) << found.out;
    const std::vector<std::string> named = document["fault"]["nodes"];
    EXPECT_GT(std::count(named.begin(), named.end(), graph.label(nodes[at])), 0) << graph.label(nodes[at]) << "\n"
                                                                                 << found.out;
    EXPECT_LE(document["runs"].get<double>(),
              2 + document["sample"].get<double>() + std::log2(document["values"].get<double>()));
  }
}

TEST_P(RealOnnxRuntime, RefusesProvidersThatItLacks) {
  if (!has("onnxruntime")) GTEST_SKIP() << ".venv lacks onnxruntime (make peers)";
  const json document = parsed(
      "compare " + policy() + " --threads 1 --no-time --peer onnxruntime:cuda,onnxruntime:tensorrt,onnxruntime:abacus",
      environment());
  const auto why = [&](size_t i) { return document["variants"][i]["not_run"].get<std::string>(); };
  if (why(1).find("was built without") == std::string::npos) GTEST_SKIP() << "this ONNX Runtime has a GPU's providers";
  EXPECT_NE(why(1).find("was built without CUDAExecutionProvider; it has "), std::string::npos) << why(1);
  EXPECT_NE(why(2).find("was built without TensorrtExecutionProvider; it has "), std::string::npos) << why(2);
  EXPECT_EQ(why(3), "expected the provider cpu, cuda or tensorrt, got abacus");
}

INSTANTIATE_TEST_SUITE_P(Engine, RealOnnxRuntime, ::testing::Values(std::tuple{"onnxruntime", "onnxruntime"}),
                         [](const auto&) { return std::string("cpu"); });

}  // namespace compare_peers_test
}  // namespace sparkpilot
