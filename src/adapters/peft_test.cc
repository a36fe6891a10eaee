// Files of PEFT: what PEFT itself trained and computed, what we write, what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "adapters/matrices.h"
#include "adapters/test_models.h"
#include "base/error.h"
#include "base/test_error.h"
#include "base/test_files.h"
#include "tensor/safetensors.h"

namespace sparkpilot::testing {
namespace {

const std::filesystem::path kGoldens = std::filesystem::path(SPARKPILOT_SOURCE_DIR) / "tests/reference/peft";

constexpr auto kOver = std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing;

// The model of bench/peers/make_peft_goldens.py.
Graph peft_model(const SafetensorsFile& file) {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g);
  std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  const auto weight = [&](const std::string& name) { return b.constant(tensors.at(name), name); };
  const Attributes transposed{{"transB", int64_t{1}}};
  ValueId v = b.input("x", DType::f32, {4, 7});
  v = b.add("Tanh", {b.add("Gemm", {v, weight("body.0.weight"), weight("body.0.bias")}, transposed, "/body/0/Gemm")});
  b.output(b.add("Gemm", {v, weight("body.2.weight")}, transposed, "/body/2/Gemm"), "linear");
  ValueId c = b.input("y", DType::f32, {2, 3, 9, 8});
  c = b.add("Conv", {c, weight("stem.weight"), weight("stem.bias")},
            {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 0, 1, 0}}}, "/stem/Conv");
  b.output(b.add("Conv", {b.add("Tanh", {c}), weight("point.weight"), weight("point.bias")}, {}, "/point/Conv"),
           "conv");
  return g;
}

class FromPeft : public ::testing::TestWithParam<const char*> {};

TEST_P(FromPeft, GivesItsResults) {
  const std::string kind = GetParam();
  const SafetensorsFile file = load_safetensors(kGoldens / "base.safetensors");
  std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  const Graph base = peft_model(file);
  const Adapter adapter = load_adapter(kGoldens / kind);
  EXPECT_EQ(adapter.layers.size(), 4u);
  const std::vector<Tensor> inputs{tensors.at("x"), tensors.at("y")};
  Graph merged = base, apart = base;
  merge_adapters(merged, {{&adapter}});
  const std::vector<Layer> layers = match_layers(apart, adapter);
  name_layers(apart);
  prepare(apart, {.precision = Precision::fp32});
  apply_adapter(apart, adapter, layers);
  for (const Graph* graph : {&merged, &apart}) {
    const std::vector<Tensor> got = interpret(*graph, inputs);
    EXPECT_LE(distance(got[0], tensors.at(kind + ".linear")), 1e-6);
    EXPECT_LE(distance(got[1], tensors.at(kind + ".conv")), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, FromPeft, ::testing::Values("lora", "rslora", "dora"),
                         [](const auto& of) { return std::string(of.param); });

// The older form normalises the direction and then adds the product, m (W / |W| + s B A): another function.
TEST(PeftGoldens, AreNotOfTheFormThatNormalisesFirst) {
  const SafetensorsFile file = load_safetensors(kGoldens / "base.safetensors");
  const std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  Graph older = peft_model(file), ours = older;
  const Adapter adapter = load_adapter(kGoldens / "dora");
  merge_adapters(ours, {{&adapter}});
  const std::vector<Layer> layers = match_layers(older, adapter);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const AdapterLayer& mine = adapter.layers[i];
    const Tensor weights = layer_weights(older, layer);
    const std::vector<double> before(weights.data<float>().begin(), weights.data<float>().end());
    const std::vector<double> norms = row_norms(before, layer.out());
    const std::vector<double> product =
        low_rank_product(mine.a.data<float>(), mine.b.data<float>(), layer.out(), layer.in(), layer.groups);
    Tensor changed(DType::f32, layer.weight);
    for (size_t k = 0; k < before.size(); ++k) {
      const size_t row = k / static_cast<size_t>(layer.in());
      const double direction = before[k] / norms[row] + adapter.scale(mine) * product[k];
      changed.data<float>()[k] = static_cast<float>(double{mine.magnitude.data<float>()[row]} * direction);
    }
    set_layer_weights(older, layer, changed);
  }
  const std::vector<Tensor> inputs{tensors.at("x"), tensors.at("y")};
  const std::vector<Tensor> theirs = interpret(older, inputs), same = interpret(ours, inputs);
  for (const auto& [at, golden] : {std::pair(size_t{0}, "dora.linear"), {size_t{1}, "dora.conv"}}) {
    EXPECT_LE(distance(same[at], tensors.at(golden)), 1e-6) << golden;
    EXPECT_GE(distance(theirs[at], tensors.at(golden)), 1e-2) << golden;
  }
}

TEST(PeftFiles, AreNotWrittenWithWhatIsNotFinite) {
  const TempFolder folder;
  Adapter adapter = create_adapter(every_layer(), {.target = "net.fc", .rank = 2, .stored = DType::f16});
  adapter.layers[0].b.data<float>()[0] = 1e6f;
  const std::string refused = error_of([&] { save_adapter(adapter, folder.path() / "adapter"); });
  EXPECT_NE(refused.find("net.fc.lora_B.weight\" has values that are not finite in f16"), std::string::npos) << refused;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "adapter"));
  adapter.stored = DType::f32;
  check_values(adapter);
}

TEST(PeftFiles, ComeBackAsTheyWere) {
  const TempFolder folder;
  const Graph base = every_layer();
  for (const AdapterKind kind : {AdapterKind::lora, AdapterKind::rslora, AdapterKind::dora}) {
    for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
      Adapter adapter = create_adapter(base, {.kind = kind, .max_bytes = 1500, .stored = stored});
      shake(adapter, 6);
      adapter.layers[1].alpha = 2.5;
      adapter.tags = {{"car", "CIVIC 2022"}, {"night", "yes"}};
      save_adapter(adapter, folder.path() / "adapter");
      const Adapter back = load_adapter(folder.path() / "adapter");
      EXPECT_EQ(back.kind, kind);
      EXPECT_EQ(back.stored, stored);
      EXPECT_EQ(back.tags, adapter.tags);
      EXPECT_EQ(back.base_fingerprint, adapter.base_fingerprint);
      EXPECT_EQ(back.base_name, "every");
      ASSERT_EQ(back.layers.size(), adapter.layers.size());
      for (const AdapterLayer& layer : adapter.layers) {
        const auto at = std::ranges::find(back.layers, layer.path, &AdapterLayer::path);
        ASSERT_NE(at, back.layers.end());
        EXPECT_EQ(at->alpha, layer.alpha);
        EXPECT_EQ(distance(at->a, convert(convert(layer.a, stored), DType::f32)), 0);
        EXPECT_EQ(distance(at->b, convert(convert(layer.b, stored), DType::f32)), 0);
      }
    }
  }
}

// A copy of PEFT's DoRA folder with a changed config, or changed tensors.
class Broken : public ::testing::Test {
 protected:
  std::string refusal(const std::string& from, const std::string& to) {
    std::filesystem::copy(kGoldens / "dora", folder_.path() / "a", kOver);
    const std::filesystem::path config = folder_.path() / "a/adapter_config.json";
    std::string text = read_text(config);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write_text(config, text);
    return load();
  }
  template <typename Change>
  std::string refusal_of_tensors(const Change& change) {
    std::filesystem::copy(kGoldens / "dora", folder_.path() / "a", kOver);
    const std::filesystem::path path = folder_.path() / "a/adapter_model.safetensors";
    SafetensorsFile file = load_safetensors(path);
    change(file.tensors);
    save_safetensors(path, file);
    return load();
  }
  std::string load() {
    try {
      load_adapter(folder_.path() / "a");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      const std::string what = error.what();
      EXPECT_NE(what.find("adapter_"), std::string::npos) << what;  // the file is named
      return what;
    }
    return "accepted";
  }
  TempFolder folder_;
};

TEST_F(Broken, ConfigsAreRefusedByName) {
  EXPECT_NE(refusal("\"LORA\"", "\"LOHA\"").find("peft_type is \"LOHA\""), std::string::npos);
  EXPECT_NE(refusal("\"bias\": \"none\"", "\"bias\": \"all\"").find("bias is \"all\""), std::string::npos);
  EXPECT_NE(refusal("\"modules_to_save\": null", "\"modules_to_save\": [\"head\"]").find("modules_to_save"),
            std::string::npos);
  EXPECT_NE(refusal("\"lora_alpha\": 3", "\"lora_alpha\": \"3\"").find("lora_alpha is string"), std::string::npos);
  EXPECT_NE(refusal("\"lora_alpha\": 3", "\"lora_beta\": 3").find("lora_alpha is missing"), std::string::npos);
  EXPECT_NE(refusal("\"use_dora\": true", "\"use_dora\": 1").find("use_dora is number"), std::string::npos);
  EXPECT_NE(refusal("\"use_dora\": true", "\"use_dora\": false").find("use_dora is not set"), std::string::npos);
  EXPECT_NE(refusal("\"stem\": 2", "\"st(em|amp)\": 2").find("regular expression"), std::string::npos);
  EXPECT_NE(refusal("\"r\": 2", "\"r\": 7").find("has rank 2, adapter_config.json says 7"), std::string::npos);
  for (const char* init : {"pissa", "pissa_niter_4", "olora", "loftq"}) {
    EXPECT_NE(refusal("\"init_lora_weights\": true", fmt::format("\"init_lora_weights\": \"{}\"", init))
                  .find("changes the base's weights in PEFT"),
              std::string::npos);
  }
  for (const char* init : {"false", "\"Gaussian\"", "\"orthogonal\"", "null"})
    EXPECT_EQ(refusal("\"init_lora_weights\": true", fmt::format("\"init_lora_weights\": {}", init)), "accepted");
  EXPECT_NE(refusal("{", "{,").find("no JSON"), std::string::npos);
  EXPECT_NE(refusal("{", std::string(200, '[')).find("nested deeper than 64"), std::string::npos);
  EXPECT_EQ(refusal("{", "{"), "accepted");
}

TEST_F(Broken, TensorsAreRefusedByName) {
  using Tensors = std::vector<std::pair<std::string, Tensor>>;
  EXPECT_NE(refusal_of_tensors([](Tensors& t) {
              std::erase_if(t, [](auto& e) { return e.first.ends_with("stem.lora_B.weight"); });
            }).find("stem.lora_B.weight\" is missing"),
            std::string::npos);
  EXPECT_NE(refusal_of_tensors([](Tensors& t) { t[0].second.data<float>()[0] = NAN; }).find("holds nan"),
            std::string::npos);
  EXPECT_NE(refusal_of_tensors([](Tensors& t) { t[0].first = "model.fc.weight"; }).find("not one of an adapter"),
            std::string::npos);
  EXPECT_NE(refusal_of_tensors([](Tensors& t) {
              t[0].second = Tensor::zeros(DType::i64, {2, 3});
            }).find("is i64"),
            std::string::npos);
  EXPECT_NE(refusal_of_tensors([](Tensors& t) { t.clear(); }).find("holds no adapter"), std::string::npos);
  EXPECT_NE(refusal_of_tensors([](Tensors& t) {
              for (auto& [name, tensor] : t) {
                if (name.ends_with("stem.lora_A.weight")) tensor = Tensor::zeros(DType::f32, {4});
              }
            }).find("are no adapter's"),
            std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::testing
