// sparkpilot peer: a build of the program as another one's peer, in bench and compare, and asked by hand.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli_fixture.h"
#include "ir/op.h"
#include "onnx/export.h"

namespace sparkpilot {
namespace peer_cli_test {

class PeerProgram : public Cli {
 protected:
  // An executable file; `text` may use $PROGRAM and its own arguments.
  std::string script(const std::string& name, const std::string& text) const {
    write_text(folder / name, fmt::format("#!/bin/sh\nPROGRAM='{}'\n{}\n", SPARKPILOT_PROGRAM, text));
    ::chmod((folder / name).c_str(), 0755);
    return folder.file(name);
  }
  // A peer whose runs take the time that it says, whatever they take.
  std::string peer_that_says(double ms) const {
    write_text(folder / "says.py", fmt::format(R"(import json, subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="", flush=True)
for line in sys.stdin:
    child.stdin.write(line)
    child.stdin.flush()
    answer = json.loads(child.stdout.readline())
    if "ms" in answer:
        answer["ms"] = [{0} for _ in answer["ms"]]
        time.sleep(sum(answer["ms"]) / 1e3)
    print(json.dumps(answer), flush=True)
)",
                                               ms));
    return script("says",
                  "unset SPARKPILOT_KERNELS\nexec python3 '" + folder.file("says.py") + "' \"$PROGRAM\" \"$@\"");
  }
  // One line of answer for each request; the first is the greeting.
  std::vector<json> asked(const std::vector<std::string>& requests) const {
    std::string text;
    for (const std::string& request : requests) text += request + "\n";
    write_text(folder / "requests", text);
    const std::string asks =
        script("asks", "cd '" + folder.path().string() + "' && exec \"$@\" <'" + folder.file("requests") + "'");
    const ProgramResult result = run_program("peer --device cpu", "'" + asks + "'");
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<json> answers;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line, nullptr, false));
    return answers;
  }
  static std::string load(const std::string& outputs = "[]") {
    return fmt::format(
        R"({{"do": "load", "model": "{}", "threads": 1, "precision": "fp32", "provider": "", "shapes": {{}}, )"
        R"("outputs": {}}})",
        models->file("tiny_driving_policy.onnx"), outputs);
  }
};

TEST_F(PeerProgram, AnotherBuildStandsInTheSameTables) {
  const json document = parsed("compare " + policy() + " --threads 1 --rounds 5 --peer '" + SPARKPILOT_PROGRAM + "'");
  const json& row = document["variants"][1];
  ASSERT_TRUE(row["not_run"].is_null()) << row["not_run"];
  EXPECT_EQ(row["peer"], SPARKPILOT_PROGRAM);
  EXPECT_EQ(row["engine"].get<std::string>().find("sparkpilot "), 0u) << row["engine"];
  EXPECT_EQ(row["device"], "CPU");
  EXPECT_EQ(row["precision"], "fp32");
  EXPECT_EQ(row["threads"], 1);
  ASSERT_FALSE(row["outputs"].empty());
  for (const json& output : row["outputs"]) EXPECT_EQ(output["relative_l2"], 0.0) << output;
}

// The states of a model, here where its random numbers go on, begin anew with the first sample on both sides.
TEST_F(PeerProgram, StatesBeginAnewWithTheSamples) {
  Graph graph;
  graph.opsets[""] = 21;
  Builder b(graph, "n", 21);
  const ValueId x = graph.add_input("x", DType::f32, Shape{2, 8});
  graph.add_output(b.add("Add", {x, b.add("RandomUniformLike", {x})}), "y");
  save_onnx(graph, folder / "random.onnx");
  const json document =
      parsed("compare '" + folder.file("random.onnx") + "' --no-time --samples 3 --peer '" + SPARKPILOT_PROGRAM + "'");
  ASSERT_TRUE(document["variants"][1]["not_run"].is_null()) << document;
  EXPECT_EQ(document["variants"][1]["outputs"][0]["relative_l2"], 0.0);
}

// The other one's kernels differ by rounding: the first value that shows it is found, as within one program.
TEST_F(PeerProgram, TheFirstDifferenceOfTwoBuildsIsFound) {
  const std::string other = script("other", "SPARKPILOT_KERNELS=reference exec \"$PROGRAM\" \"$@\"");
  const ProgramResult result =
      run_program("compare " + policy() + " --bisect --max-relative-l2 1e-9 --json --peer '" + other + "'");
  EXPECT_EQ(result.code, 4) << result.err;
  const json found = json::parse(result.out, nullptr, false)["fault"];
  ASSERT_TRUE(found.is_object()) << result.out;
  EXPECT_FALSE(found["nodes"].empty()) << result.out;
  EXPECT_GT(found["relative_l2"], 1e-9);
}

// A value that only one of the two computes is searched around.
TEST_F(PeerProgram, BuildsThatFuseDifferentlyAreBisected) {
  const ProgramResult result =
      run_program("compare " + policy() + " --bisect --passes none --peer '" + SPARKPILOT_PROGRAM + "'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("no output differs"), std::string::npos) << result.out;
}

// The precision is settled before a peer is asked, wherever `auto` runs.
TEST_F(PeerProgram, BisectAsksForAPrecision) {
  const std::string adapter = script("adapter", R"(echo '{"protocol": 1, "engine": "Logger"}'
read -r line; echo "$line" >')" + folder.file("asked") +
                                                    R"('
echo '{"error": "enough"}')");
  const ProgramResult result = run_program("compare " + policy() + " --bisect --peer '" + adapter + "'");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("enough"), std::string::npos) << result.err;
  EXPECT_EQ(json::parse(read_text(folder / "asked"))["precision"], "fp32");
}

// NumPy has no bf16.
TEST_F(PeerProgram, InputsMayBeBf16) {
  Graph graph;
  graph.opsets[""] = 21;
  Builder b(graph, "n", 21);
  const ValueId x = graph.add_input("x", DType::bf16, Shape{2, 8});
  graph.add_output(b.add("Cast", {x}, {{"to", int64_t{1}}}), "y");
  save_onnx(graph, folder / "bf16.onnx");
  const json document =
      parsed("compare '" + folder.file("bf16.onnx") + "' --no-time --peer '" + SPARKPILOT_PROGRAM + "'");
  ASSERT_TRUE(document["variants"][1]["not_run"].is_null()) << document;
  EXPECT_EQ(document["variants"][1]["outputs"][0]["relative_l2"], 0.0);
}

TEST_F(PeerProgram, FourIsTheCodeOfAModelThatIsSlowerThanItsPeer) {
  const std::string bench = "bench " + policy() + " --threads 1 --runs 2 --repeats 8 --max-regression 5% --peer '";
  const std::string fast = peer_that_says(0.01), slow_kernels = "SPARKPILOT_KERNELS=reference";
  const ProgramResult slower = run_program(bench + fast + "' --json", slow_kernels);
  EXPECT_EQ(slower.code, 4) << slower.err;
  EXPECT_NE(slower.err.find(fast + ": slower: our time is "), std::string::npos) << slower.err;
  const json model = json::parse(slower.out, nullptr, false)["models"][0], &check = model["peers"][0]["check"];
  EXPECT_EQ(keys(check), (Keys{"verdict", "max_regression", "repeats", "time_ratio", "not_run"}));
  EXPECT_EQ(check["verdict"], "regression");
  EXPECT_EQ(check["repeats"], 8);
  EXPECT_GT(check["time_ratio"]["low"], 1.05);
  EXPECT_FALSE(model.contains("repeats"));  // no baseline

  const ProgramResult text = run_program(bench + peer_that_says(200) + "'", slow_kernels);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("98.75 %"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("passed"), std::string::npos) << text.out;
}

// A peer that did not run cannot have passed a check.
TEST_F(PeerProgram, APeerThatCannotBeLoadedAgainFailsTheCheck) {
  const std::string once = script("once", "[ -e '" + folder.file("was_here") + "' ] && exit 3\n: >'" +
                                              folder.file("was_here") + "'\nexec \"$PROGRAM\" \"$@\"");
  const ProgramResult result =
      run_program("bench " + policy() + " --threads 1 --runs 2 --max-regression 5% --peer '" + once + "'");
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_NE(result.err.find(once + ": not run, so it is not known whether we are slower: the adapter ended at starting "
                                   "(exit code 3)"),
            std::string::npos)
      << result.err;
}

TEST_F(PeerProgram, WrongUsageIsOneLine) {
  const std::string bench = "bench " + policy() + " --max-regression 5% --peer '" + SPARKPILOT_PROGRAM + "' ";
  expect_usage_error(bench + "--repeats 5", "--repeats: expected at least 8 with --peer and --max-regression, got 5");
  expect_usage_error(bench + "--passes no-cse", "--passes, --calibration and --fp4-activations");
  expect_usage_error("bench " + policy() + " --peer ./nothing", "./nothing: no such file");
  expect_usage_error("compare " + policy() + " --peer ./nothing", "./nothing: no such file");
}

TEST_F(PeerProgram, AnswersInTheProtocol) {
  const std::vector<json> answers =
      asked({load(), R"({"do": "run", "count": 2})", R"({"do": "outputs"})", R"({"do": "quit"})", "not read"});
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0]["protocol"], 1);
  EXPECT_EQ(answers[1], (json{{"device", "CPU"}, {"precision", "fp32"}, {"threads", 1}}));
  EXPECT_EQ(answers[2]["ms"].size(), 2u);
  ASSERT_FALSE(answers[3]["outputs"].empty());
  for (const json& output : answers[3]["outputs"])
    EXPECT_TRUE(std::filesystem::exists(folder / output["file"].get<std::string>())) << output;
}

TEST_F(PeerProgram, RefusesWrongRequestsAndGoesOn) {
  const auto load_with = [](const std::string& from, const std::string& to) {
    std::string request = load();
    return request.replace(request.find(from), from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"{", "a request that is no JSON"},
      {"[1]", "a request that is no object"},
      {std::string(200, '[') + std::string(200, ']'), "a request that is no object"},
      {R"({"do": 3})", "do: expected a text"},
      {R"({"count": 3})", "the request lacks \"do\""},
      {R"({"do": "dance"})", "the request \"dance\" is not known"},
      {R"({"do": "run", "count": 1})", "run: no model is loaded"},
      {load_with("\"fp32\"", "\"fp31\""), "expected auto, model, fp32"},
      {load_with("\"threads\": 1", "\"threads\": 0"), "threads: expected a whole number from 1 to 100000"},
      {load_with("\"threads\": 1", "\"threads\": 1e300"), "threads: expected a whole number from 1 to 100000"},
      {load_with("\"threads\": 1", "\"threads\": 99999"), "99999 threads: "},
      {load_with("\"provider\": \"\"", "\"provider\": \"npu\""), "after the colon, got npu"},
      {load_with("\"shapes\": {}", "\"shapes\": {\"x\": [-1]}"), "shapes: expected a whole number from 0"},
      {load_with("\"shapes\": {}", "\"shapes\": {\"x\": 3}"), "shapes: expected lists of sizes"},
      {load_with("tiny_driving_policy.onnx", "nothing.onnx"), "nothing.onnx"},
      {load_with("[]", "[\"no such value\"]"), "no such value"},
      {load_with("[]", "[1]"), "outputs: expected a list of names"},
  };
  std::vector<std::string> requests;
  for (const auto& [request, reason] : cases) requests.push_back(request);
  requests.push_back(load());
  requests.emplace_back(R"({"do": "run", "count": 0})");
  requests.emplace_back(R"({"do": "inputs", "files": {"features_buffer": "nothing.npy"}})");
  requests.emplace_back(R"({"do": "inputs", "files": {"features_buffer": 3}})");
  requests.emplace_back(R"({"do": "run", "count": 1})");
  const std::vector<json> answers = asked(requests);
  ASSERT_EQ(answers.size(), 1 + requests.size());
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string error = answers[i + 1].value("error", "no error");
    EXPECT_NE(error.find(cases[i].second), std::string::npos) << requests[i] << ": " << error;
  }
  const size_t at = 1 + std::size(cases);
  EXPECT_EQ(answers[at]["device"], "CPU");
  EXPECT_NE(answers[at + 1].value("error", "").find("count: expected a whole number from 1"), std::string::npos);
  EXPECT_NE(answers[at + 2].value("error", "").find("nothing.npy"), std::string::npos) << answers[at + 2];
  EXPECT_NE(answers[at + 3].value("error", "").find("files: expected the name of a file"), std::string::npos);
  EXPECT_EQ(answers[at + 4]["ms"].size(), 1u);
}

}  // namespace peer_cli_test
}  // namespace sparkpilot
