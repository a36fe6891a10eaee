// Peers: a well-behaved adapter, and every way in which one may misbehave.
#include "bench/peer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "base/test_files.h"
#include "bench/peer_bench.h"
#include "ir/op.h"
#include "sparkpilot/error.h"

namespace sparkpilot {
namespace {

template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "no error";
}

class Peers : public testing::Test {
 protected:
  // tests/peers/peer_fake.py, which misbehaves as the provider says.
  Peer fake(const std::string& mode = {}) { return Peer({"fake", mode}, options); }
  void script(const std::string& name, const std::string& text) {
    write_text(folder / name, text);
    ::chmod((folder / name).c_str(), 0755);
  }
  static Tensor sample() {
    Tensor x(DType::f32, Shape{2, 3});
    for (int64_t i = 0; i < 6; ++i) x.data<float>()[static_cast<size_t>(i)] = static_cast<float>(i) - 2;
    return x;
  }
  // Everything that is done with a peer; the error of the first that fails.
  std::string use(const std::string& mode) {
    return error_of([&] {
      Peer peer = fake(mode);
      peer.load(load);
      peer.set_inputs({{"x", sample()}});
      for (int i = 0; i < 5; ++i) peer.run(3);
      peer.outputs();
    });
  }

  TempFolder folder;
  PeerOptions options{
      .folders = {SPARKPILOT_SOURCE_DIR "/tests/peers"}, .python = "python3", .start_s = 30, .load_s = 30, .run_s = 30};
  PeerLoad load{.model = "model.onnx"};
};

TEST_F(Peers, NamesAreWords) {
  EXPECT_EQ(parse_peer_name("onnxruntime").name, "onnxruntime");
  const PeerName cuda = parse_peer_name("onnxruntime:cuda");
  EXPECT_EQ(cuda.name, "onnxruntime");
  EXPECT_EQ(cuda.provider, "cuda");
  EXPECT_EQ(cuda.str(), "onnxruntime:cuda");
  for (const char* wrong :
       {"", ":", "a:", ":b", "a:b:c", "a/", "/", "./a:", "./a:b:c", "a b", "a\n", ".a", "a:..", "-\x01"}) {
    EXPECT_NE(error_of([&] { parse_peer_name(wrong); }).find("expected a peer such as"), std::string::npos) << wrong;
  }
}

TEST_F(Peers, APathIsAName) {
  const PeerName old = parse_peer_name("../a:b/sparkpilot");
  EXPECT_EQ(old.name, "../a:b/sparkpilot");
  EXPECT_EQ(old.provider, "");
  EXPECT_TRUE(old.is_path());
  const PeerName cuda = parse_peer_name("/opt/sparkpilot:cuda");
  EXPECT_EQ(cuda.name, "/opt/sparkpilot");
  EXPECT_EQ(cuda.provider, "cuda");
  const std::string adapter = folder / "adapter";
  EXPECT_EQ(error_of([&] { find_adapter(adapter, {}); }), adapter + ": no such file");
  EXPECT_EQ(error_of([&] { find_adapter(folder.path().string() + "/.", {}); }),
            folder.path().string() + "/.: no such file");
  write_text(adapter, "");
  EXPECT_EQ(error_of([&] { find_adapter(adapter, {}); }), adapter + ": cannot be executed");
}

// Only one that is named by its path gets words and variables: it may be another build of this program.
TEST_F(Peers, APathIsStartedWithWords) {
  script("peer_words",
         "#!/bin/sh\necho \"{\\\"protocol\\\": 1, \\\"engine\\\": \\\"$* in $PEER_TEST_PLACE\\\"}\"; cat\n");
  options.words = {"--tune", "off"};
  options.set = {{"PEER_TEST_PLACE", "a place"}};
  EXPECT_EQ(Peer({folder / "peer_words"}, options).engine(), "peer --tune off in a place");
  options.folders = {folder.path()};
  EXPECT_EQ(Peer({"words"}, options).engine(), " in ");
}

TEST_F(Peers, AdaptersAreFoundByName) {
  script("peer_b", "#!/bin/sh\n");
  script("peer_a.py", "");
  script("other", "");
  write_text(folder / "peer_not_executable", "");
  write_text(folder / "second" / "peer_a.py", "");
  write_text(folder / "second" / "peer_c.py", "");
  const std::vector<PeerAdapter> found = find_adapters({folder.path(), "/nonexistent", folder / "second"});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[0].file, folder / "peer_a.py");
  EXPECT_EQ(found[1].name, "b");
  EXPECT_EQ(found[2].name, "c");
  options.folders = {folder.path()};
  const std::string unknown = error_of([&] { Peer({"bb", ""}, options); });
  EXPECT_EQ(unknown, "no adapter for the peer bb: expected peer_bb in " + folder.path().string() +
                         "; there are a, b (did you mean b?)")
      << unknown;
}

TEST_F(Peers, AGoodOneComputes) {
  Peer peer = fake();
  EXPECT_EQ(peer.engine(), "Fake 1.0");
  load.threads = 3;
  const PeerLoaded loaded = peer.load(load);
  EXPECT_EQ(loaded.device, "CPU");
  EXPECT_EQ(loaded.precision, "fp32");
  EXPECT_EQ(loaded.threads, 3);
  EXPECT_GT(loaded.load_ms, 0);
  peer.set_inputs({{"x", sample()}});
  const std::vector<double> ms = peer.run(7);
  ASSERT_EQ(ms.size(), 7u);
  for (const double one : ms) EXPECT_GT(one, 0);
  const auto outputs = peer.outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].first, "y");
  ASSERT_EQ(outputs[0].second.shape(), (Shape{2, 3}));
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(outputs[0].second.data<float>()[static_cast<size_t>(i)], 1.5f * (static_cast<float>(i) - 2));
  }
}

TEST_F(Peers, ARefusalLeavesItUsable) {
  Peer peer = fake("refuse");
  EXPECT_EQ(error_of([&] { peer.load(load); }), "fake:refuse: this engine\\x0ahas no device");
  EXPECT_EQ(error_of([&] { peer.load(load); }), "fake:refuse: this engine\\x0ahas no device");
}

TEST_F(Peers, SaysWhatWentWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"crash", "fake:crash: the adapter ended at load (exit code 1): RuntimeError: out of device memory"},
      {"abort", "fake:abort: the adapter ended at load (signal 6 (Aborted)): chatter on stderr"},
      {"silent_end", "fake:silent_end: the adapter ended at load (exit code 0)"},
      {"crash_later", "fake:crash_later: the adapter ended at run (exit code 1): Segfault: in a kernel"},
      {"garbage", R"(its answer to load is not a JSON object: "\xff\xfe\x00garbage\x1b[31m")"},
      {"endless", "its answer to load is longer than 4 MiB"},
      {"deep", "its answer to load is nested deeper than 64"},
      {"threads", "its answer to load lacks \"threads\""},
      {"huge_threads", "its answer to load lacks \"threads\""},
      {"no_device", "its answer to load lacks the text \"device\""},
      {"fewer", "its answer to run lacks \"ms\" with 3 numbers"},
      {"none", "its answer to run lacks \"ms\" with 3 numbers"},
      {"text", "its answer to run has a time that is no number"},
      {"negative", "a run took -1 ms, by its answer"},
      {"long", "3 runs took 3e+09 ms by its answer, which came after "},
      {"double", "output \"y\": "},
      {"outside", R"(output "y": expected the name of a file in the adapter's folder, got "../y.npy")"},
      {"link", R"(output "y": expected the name of a file in the adapter's folder, got "z.npy")"},
      {"folder", R"(output "y": expected the name of a file in the adapter's folder, got "z.npy")"},
      {"huge", "output \"y\": its outputs are larger than 4294967296 bytes"},
      {"twice", "output \"y\" is there twice"},
      {"no_list", "its answer to outputs lacks the list \"outputs\""}};
  for (const auto& [mode, expected] : cases) {
    const std::string said = use(mode);
    EXPECT_NE(said.find(expected), std::string::npos) << mode << ": " << said;
    EXPECT_EQ(said.find(std::string("fake:") + mode + ": "), 0u) << said;
  }
}

TEST_F(Peers, WaitsNoLongerThanAsked) {
  options.load_s = 0.5;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(use("hang"), "fake:hang: no answer to load in 0.5 s");
  options.load_s = 60;
  options.run_s = 0.5;
  EXPECT_EQ(use("hang_run"), "fake:hang_run: no answer to run in 0.5 s");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  // What was ended stays ended.
  options.load_s = 0.5;
  Peer peer = fake("hang");
  EXPECT_EQ(error_of([&] { peer.load(load); }), "fake:hang: no answer to load in 0.5 s");
  EXPECT_EQ(error_of([&] { peer.run(1); }), "fake:hang: no answer to load in 0.5 s");
}

// Whatever the bytes are, there is an error or an answer.
TEST_F(Peers, TakesAnyBytes) {
  options.load_s = 0.3;
  int refused = 0;
  for (int seed = 0; seed < 25; ++seed) {
    const std::string mode = "random." + std::to_string(seed);
    const std::string said = error_of([&] {
      Peer peer = fake(mode);
      peer.load(load);
    });
    if (said == "no error") continue;
    EXPECT_EQ(said.find("fake:" + mode + ": "), 0u) << said;
    ++refused;
  }
  EXPECT_GT(refused, 10);
}

TEST_F(Peers, GreetingsAreChecked) {
  options.folders = {folder.path()};
  options.start_s = 5;
  const auto greets = [&](const std::string& text) {
    script("peer_x", "#!/bin/sh\n" + text + "\n");
    return error_of([&] { Peer({"x", ""}, options); });
  };
  const std::string adapter = "x: the adapter " + folder.file("peer_x") + " speaks protocol ";
  EXPECT_EQ(greets("echo '{\"protocol\": 2, \"engine\": \"E\"}'"), adapter + "2, expected 1");
  EXPECT_EQ(greets("echo '{\"protocol\": \"1\", \"engine\": \"E\"}'"), adapter + "\"1\", expected 1");
  EXPECT_EQ(greets("echo '{\"protocol\": 1.0, \"engine\": \"E\"}'"), adapter + "1.0, expected 1");
  EXPECT_EQ(greets("echo '{}'"), adapter + "none, expected 1");
  EXPECT_EQ(greets("echo '{\"protocol\": 1}'"), "x: its answer to starting lacks the text \"engine\"");
  EXPECT_EQ(greets("echo '{\"error\": \"onnx2torch 1.5 or newer expected, found 1.4.2\"}'"),
            "x: onnx2torch 1.5 or newer expected, found 1.4.2");
  EXPECT_EQ(greets("echo '{\"error\": 5}'"), "x: its answer to starting has an error that is no text");
  EXPECT_EQ(greets("echo 'Welcome to the engine'"),
            "x: its answer to starting is not a JSON object: \"Welcome to the engine\"");
  EXPECT_EQ(greets("exit 5"), "x: the adapter ended at starting (exit code 5)");
  EXPECT_EQ(greets("echo no such library >&2; kill -KILL $$"),
            "x: the adapter ended at starting (signal 9 (Killed)): no such library");
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  write_text(folder / "greeting", R"({"protocol": )" + deep + R"(, "engine": "E"})" + "\n");
  const std::string greeting = "cat '" + folder.file("greeting") + "'";
  EXPECT_EQ(greets(greeting), "x: its answer to starting is nested deeper than 64");
  write_text(folder / "greeting", R"({"protocol": 1, "engine": "E\n\u001b[31mfake"})"
                                  "\n");
  script("peer_z", "#!/bin/sh\n" + greeting + "; cat >/dev/null\n");
  EXPECT_EQ(Peer({"z", ""}, options).engine(), "E  [31mfake") << "in one line, without control characters";
  options.start_s = 0.3;
  EXPECT_EQ(greets("sleep 1000"), "x: no answer to starting in 0.3 s");
  // A relative path is the user's, not one in the folder that the adapter runs in.
  options.python = std::filesystem::relative(folder.path() / "python").string();
  script("python", "#!/bin/sh\nexec python3 \"$@\"\n");
  script("peer_w.py", "print('{\"protocol\": 1, \"engine\": \"W\"}', flush=True); input()\n");
  options.start_s = 20;
  EXPECT_EQ(Peer({"w", ""}, options).engine(), "W");
  options.python = "/nonexistent/python3";
  script("peer_y.py", "");
  EXPECT_EQ(error_of([&] {
              Peer({"y", ""}, options);
            }),
            "y: /nonexistent/python3: cannot be started: No such file or directory");
}

// Beside a session, in turns: y = x.
TEST_F(Peers, AreTimedBesideASession) {
  Graph graph;
  graph.opsets[""] = 21;
  Builder b(graph, "n", 21);
  graph.add_output(b.add("Relu", {graph.add_input("x", DType::f32, Shape{2, 3})}), "y");
  Session session(graph, {.threads = 1});
  session.set_input("x", sample().view());
  session.compile();
  const std::vector<PeerName> names{{"fake", ""}, {"fake", "crash"}, {"fake", "crash_later"}, {"fake", "model"}};
  PeerBenchOptions with{.peers = options, .turns = {.rounds = 6, .round_ms = 0.1, .min_runs = 3}};
  const PeersBench result = bench_peers(session, "model.onnx", names, with);
  EXPECT_GE(result.ours.count, 18);
  ASSERT_EQ(result.peers.size(), 4u);
  for (const size_t good : {0u, 3u}) {
    const PeerBench& peer = result.peers[good];
    EXPECT_EQ(peer.not_run, "");
    EXPECT_EQ(peer.engine, "Fake 1.0");
    EXPECT_EQ(peer.threads, 1);
    EXPECT_GE(peer.ms.count, 18);
    EXPECT_EQ(peer.ratio.rounds, 6);
  }
  EXPECT_EQ(result.peers[3].precision, "model");
  EXPECT_EQ(result.peers[1].not_run, "the adapter ended at load (exit code 1): RuntimeError: out of device memory");
  EXPECT_EQ(result.peers[2].not_run, "the adapter ended at run (exit code 1): Segfault: in a kernel");
  EXPECT_EQ(result.peers[1].ms.count + result.peers[2].ms.count, 0);
  const std::vector<PeerName> unknown{{"nobody", ""}};
  EXPECT_THROW(bench_peers(session, "model.onnx", unknown, with), Error);
}

}  // namespace
}  // namespace sparkpilot
