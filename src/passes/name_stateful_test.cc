// Random nodes without names, or with the same name, still generate independent streams.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "ir/interpret.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

ValueId add_random(Graph& graph, const std::string& name) {
  const ValueId out = Builder(graph, "").add("RandomNormal", {}, {{"shape", std::vector<int64_t>{64}}});
  graph.node(graph.value(out).producer).name = name;
  return out;
}

// Runs the expanded graph several times with the same states.
std::vector<std::vector<Tensor>> run(const Graph& graph, int times) {
  std::vector<Tensor> states;
  for (const State& state : graph.states()) states.push_back(graph.value(state.value).constant);
  std::vector<std::vector<Tensor>> out;
  for (int i = 0; i < times; ++i) out.push_back(interpret(graph, {}, &states));
  return out;
}

std::vector<std::string> state_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const State& state : graph.states()) names.push_back(graph.value(state.value).name);
  return names;
}

TEST(NameStateful, NodesWithoutANameOrWithTheSameDrawDifferentNumbers) {
  for (const std::string name : {"", "/noise"}) {
    SCOPED_TRACE(name);
    Graph graph;
    graph.opsets[""] = 26;
    graph.add_output(add_random(graph, name), "a");
    graph.add_output(add_random(graph, name), "b");
    run_passes(graph);
    std::multiset<float> all;
    const auto runs = run(graph, 3);
    for (const std::vector<Tensor>& outputs : runs) {
      for (const Tensor& output : outputs) {
        for (const float x : output.data<float>()) all.insert(x);
      }
    }
    for (const float x : all) ASSERT_EQ(all.count(x), 1u) << x << " was drawn twice";
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), 3u * 2 * 64);
    // A new session repeats the streams.
    EXPECT_EQ(run(graph, 1)[0][1].data<float>()[5], runs[0][1].data<float>()[5]);
  }
}

TEST(NameStateful, NamesStayAndAreTheSameWheneverTheGraphIsOptimised) {
  Graph graph;
  graph.opsets[""] = 26;
  for (const char* name : {"/a", "", "", "/a"}) graph.add_output(add_random(graph, name), "");
  Graph once = graph, twice = graph;
  run_passes(once);
  expand_ops(twice);
  run_passes(twice);
  EXPECT_EQ(state_names(once), state_names(twice));
  EXPECT_EQ(state_names(once),
            (std::vector<std::string>{"/a/counter", "RandomNormal/counter", "RandomNormal#2/counter", "/a#2/counter"}));
}

TEST(NameStateful, NodesInBodiesAreNamedToo) {
  const auto body = [] {
    auto graph = std::make_shared<Graph>();
    graph->opsets[""] = 26;
    graph->add_output(add_random(*graph, ""), "y");
    return std::shared_ptr<const Graph>(graph);
  };
  Graph graph;
  graph.opsets[""] = 26;
  const ValueId condition = graph.add_input("condition", DType::boolean, Shape{});
  const ValueId y = Builder(graph, "").add("If", {condition}, {{"then_branch", body()}, {"else_branch", body()}});
  graph.add_output(y, "y");
  EXPECT_EQ(name_stateful(graph), 2);
  std::set<std::string> names;
  for (const NodeId id : graph.order()) {
    for (const auto& [key, attribute] : graph.node(id).attrs) {
      const auto* inside = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (inside) names.insert((*inside)->node((*inside)->order()[0]).name);
    }
  }
  EXPECT_EQ(names.size(), 2u);
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(name_stateful(graph), 0);
}

TEST(NameStateful, TwoStatesOfOneNameAreRefused) {
  Graph graph;
  graph.add_state(Tensor::scalar(1.f), "n");
  EXPECT_THROW(graph.add_state(Tensor::scalar(2.f), "n"), Error);
  const ValueId a = graph.add_state(Tensor::scalar(1.f)), b = graph.add_state(Tensor::scalar(1.f));
  EXPECT_NE(graph.value(a).name, graph.value(b).name);
}

}  // namespace
}  // namespace sparkpilot
