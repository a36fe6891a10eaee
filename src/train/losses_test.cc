// Losses and their gradients, held against plain loops in double, central differences of these, and PyTorch
// (losses_golden.json, written by tests/reference/losses_torch.py).
#include "train/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "grad/differentiate.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "onnx/zoo.h"
#include "runtime/session.h"
#include "train/driving_losses.h"

namespace sparkpilot::train {
namespace {

using List = std::vector<double>;

// What losses_torch.py computes, too.
List wave(size_t count, double seed, double scale = 1) {
  List out(count);
  for (size_t i = 0; i < count; ++i) out[i] = scale * std::sin(1.7 * static_cast<double>(i) + seed);
  return out;
}
List sizes(List from) {
  for (double& x : from) x = std::abs(x);
  return from;
}
List sigmoids(List from) {
  for (double& x : from) x = 1 / (1 + std::exp(-x));
  return from;
}

// Log softmax of `count` values from `first` on, `stride` apart.
List log_softmax(const List& x, size_t first, size_t count, size_t stride = 1, double temperature = 1) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(x[first + i * stride] / temperature);
  List out;
  for (size_t i = 0; i < count; ++i) out.push_back(x[first + i * stride] / temperature - std::log(sum));
  return out;
}
List softmaxes(const List& x, size_t width) {
  List out;
  for (size_t first = 0; first < x.size(); first += width) {
    for (const double each : log_softmax(x, first, width)) out.push_back(std::exp(each));
  }
  return out;
}

// --- the references
double laplacian_of(double mean, double log_scale, double target) {
  const double error = std::abs(mean - target), bounded = std::max(log_scale, std::log(1e-6 + error / 1000));
  return error * std::exp(-bounded) + std::max(log_scale, std::log(1e-3));
}
double gaussian_of(double mean, double log_scale, double target) {
  const double bounded = std::max(log_scale, std::log(1e-3)), error = mean - target;
  return error * error / (2 * std::exp(2 * bounded)) + bounded;
}
template <auto kEach>
double single(const List& raw, const List& target, const List& weight, size_t batch) {
  const size_t n = target.size() / batch;
  double sum = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    const size_t entry = i / n * 2 * n;
    sum += (weight.empty() ? 1 : weight[i]) * kEach(raw[entry + i % n], raw[entry + n + i % n], target[i]);
  }
  return sum / static_cast<double>(batch);
}
// KL(teacher || student) of Gaussians, by variances.
double divergence_of(const List& student, const List& teacher, size_t batch) {
  const size_t n = student.size() / batch / 2;
  double sum = 0;
  for (size_t entry = 0; entry < batch; ++entry) {
    for (size_t i = entry * 2 * n; i < entry * 2 * n + n; ++i) {
      const double error = student[i] - teacher[i];
      const double of_student = std::exp(2 * std::max(student[i + n], std::log(1e-3)));
      const double of_teacher = std::exp(2 * std::max(teacher[i + n], std::log(1e-3)));
      sum += 0.5 * (std::log(of_student / of_teacher) + (of_teacher + error * error) / of_student - 1);
    }
  }
  return sum / static_cast<double>(batch);
}
double best_of(const List& raw, const List& target, const List& weight, size_t batch, size_t count, size_t selections) {
  const size_t each = raw.size() / batch / count, n = (each - selections) / 2;
  double total = 0;
  for (size_t entry = 0; entry < batch; ++entry) {
    const size_t start = entry * count * each;
    for (size_t s = 0; s < selections; ++s) {
      List losses(count);
      for (size_t k = 0; k < count; ++k) {
        for (size_t i = 0; i < n; ++i) {
          losses[k] += laplacian_of(raw[start + k * each + i], raw[start + k * each + n + i],
                                    target[(entry * selections + s) * n + i]);
        }
      }
      const auto best = static_cast<size_t>(std::ranges::min_element(losses) - losses.begin());
      double loss = losses[best] - log_softmax(raw, start + 2 * n + s, count, each)[best];
      for (size_t k = 0; k < count; ++k) loss += k == best ? 0 : 1e-6 * losses[k];
      total += loss * (weight.empty() ? 1 : weight[entry * selections + s]);
    }
  }
  return total / static_cast<double>(batch);
}
double binary(const List& x, const List& probabilities) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = 1 / (1 + std::exp(-x[i]));
    sum -= probabilities[i] * std::log(p) + (1 - probabilities[i]) * std::log(1 - p);
  }
  return sum / static_cast<double>(x.size());
}
double cross(const List& x, const List& probabilities, size_t width) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum -= probabilities[i] * log_softmax(x, i / width * width, width)[i % width];
  return sum * static_cast<double>(width) / static_cast<double>(x.size());
}
double divergence(const List& x, const List& teacher, size_t width, double temperature) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double mine = log_softmax(x, i / width * width, width, 1, temperature)[i % width];
    const double theirs = log_softmax(teacher, i / width * width, width, 1, temperature)[i % width];
    sum += std::exp(theirs) * (theirs - mine);
  }
  return sum * temperature * temperature * static_cast<double>(width) / static_cast<double>(x.size());
}
double angle(const List& x, const List& y, size_t width) {
  double sum = 0;
  for (size_t first = 0; first < x.size(); first += width) {
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = first; i < first + width; ++i) xy += x[i] * y[i], xx += x[i] * x[i], yy += y[i] * y[i];
    sum += 1 - xy / (std::max(std::sqrt(xx), 1e-8) * std::max(std::sqrt(yy), 1e-8));
  }
  return sum * static_cast<double>(width) / static_cast<double>(x.size());
}
double squares(const List& x, const List& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sum / static_cast<double>(x.size());
}

// --- the table
struct Operand {
  Shape shape;
  List values;
};
struct LossCase {
  std::string name;
  std::vector<Operand> operands;  // the first is the student's
  std::function<ValueId(Builder&, const std::vector<ValueId>&)> build;
  std::function<double(const List& student)> reference;
  bool in_torch = true;
};

std::vector<LossCase> cases() {
  std::vector<LossCase> out;
  const auto add = [&](std::string name, std::vector<Operand> operands, auto build, auto reference, bool torch = true) {
    const std::vector<Operand> all = operands;
    out.push_back({std::move(name), std::move(operands), build,
                   [all, reference](const List& student) { return reference(student, all); }, torch});
  };
  const auto target = [](const std::vector<Operand>& o) { return o[1].values; };
  add(
      "laplacian", {{{3, 14}, wave(42, 0.1, 2)}, {{3, 7}, wave(21, 2, 3)}},
      [](Builder& b, const auto& in) { return laplacian_nll(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return single<laplacian_of>(x, target(o), {}, 3); });
  add(
      "laplacian_weighted", {{{3, 14}, wave(42, 0.1, 2)}, {{3, 7}, wave(21, 2, 3)}, {{3, 7}, sizes(wave(21, 0.4))}},
      [](Builder& b, const auto& in) { return laplacian_nll(b, in[0], in[1], in[2]); },
      [=](const List& x, const auto& o) { return single<laplacian_of>(x, target(o), o[2].values, 3); });
  add(
      "laplacian_limits", {{{2, 10}, wave(20, 0.3, 9)}, {{2, 5}, wave(10, 1, 60)}},
      [](Builder& b, const auto& in) { return laplacian_nll(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return single<laplacian_of>(x, target(o), {}, 2); });
  add(
      "gaussian", {{{3, 14}, wave(42, 0.1, 2)}, {{3, 7}, wave(21, 2, 3)}},
      [](Builder& b, const auto& in) { return gaussian_nll(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return single<gaussian_of>(x, target(o), {}, 3); });
  add(  // PyTorch lets the gradient through its limit
      "gaussian_limit", {{{2, 6}, wave(12, 0.3, 9)}, {{2, 3}, wave(6, 1, 1)}},
      [](Builder& b, const auto& in) { return gaussian_nll(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return single<gaussian_of>(x, target(o), {}, 2); }, false);
  add(
      "gaussian_divergence", {{{3, 8}, wave(24, 0.4)}, {{3, 8}, wave(24, 2)}},
      [](Builder& b, const auto& in) { return gaussian_divergence(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return divergence_of(x, target(o), 3); }, false);
  add(  // of both scales
      "gaussian_divergence_limits", {{{2, 4}, wave(8, 0.3, 9)}, {{2, 4}, wave(8, 1, 9)}},
      [](Builder& b, const auto& in) { return gaussian_divergence(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return divergence_of(x, target(o), 2); }, false);
  add(
      "best_of_5", {{{4, 45}, wave(180, 0.7)}, {{4, 4}, wave(16, 3, 2)}},
      [](Builder& b, const auto& in) { return laplacian_nll_of_best(b, in[0], in[1], 5, 1); },
      [=](const List& x, const auto& o) { return best_of(x, target(o), {}, 4, 5, 1); });
  add(
      "best_of_2_for_3", {{{2, 22}, wave(44, 0.7)}, {{2, 12}, wave(24, 3, 2)}, {{2, 3}, sizes(wave(6, 0.2))}},
      [](Builder& b, const auto& in) { return laplacian_nll_of_best(b, in[0], in[1], 2, 3, in[2]); },
      [=](const List& x, const auto& o) { return best_of(x, target(o), o[2].values, 2, 2, 3); });
  add(
      "binary_cross_entropy", {{{3, 5}, wave(15, 0.2, 6)}, {{3, 5}, sigmoids(wave(15, 1, 2))}},
      [](Builder& b, const auto& in) { return binary_cross_entropy(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return binary(x, target(o)); });
  add(
      "cross_entropy", {{{3, 8}, wave(24, 0.2, 3)}, {{3, 8}, softmaxes(wave(24, 1, 2), 8)}},
      [](Builder& b, const auto& in) { return cross_entropy(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return cross(x, target(o), 8); });
  add(
      "kl_4", {{{3, 8}, wave(24, 0.2, 5)}, {{3, 8}, wave(24, 1, 6)}},
      [](Builder& b, const auto& in) { return kl_divergence(b, in[0], in[1], 4); },
      [=](const List& x, const auto& o) { return divergence(x, target(o), 8, 4); });
  add(
      "kl_of_hypotheses", {{{2, 3, 5}, wave(30, 0.2, 2)}, {{2, 3, 5}, wave(30, 1, 3)}},
      [](Builder& b, const auto& in) { return kl_divergence(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return divergence(x, target(o), 5, 1); });
  add(
      "cosine", {{{3, 8}, wave(24, 0.2, 3)}, {{3, 8}, wave(24, 1, 2)}},
      [](Builder& b, const auto& in) { return cosine_distance(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return angle(x, target(o), 8); });
  add(
      "l2", {{{3, 8}, wave(24, 0.2, 3)}, {{3, 8}, wave(24, 1, 2)}},
      [](Builder& b, const auto& in) { return mean_squared_error(b, in[0], in[1]); },
      [=](const List& x, const auto& o) { return squares(x, target(o)); });
  add(
      "relative", {{{3, 8}, wave(24, 0.2, 3)}, {{3, 8}, wave(24, 1, 2)}},
      [](Builder& b, const auto& in) { return relative_squared_error(b, in[0], in[1]); },
      [=](const List& x, const auto& o) {
        const List zeros(x.size()), &y = target(o);
        return 2 * squares(x, y) / (squares(x, zeros) + squares(y, zeros));
      });
  return out;
}

// The loss and its gradient with respect to the student as a graph's outputs.
Graph graph_of(const LossCase& each, DType dtype) {
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  std::vector<ValueId> in;
  for (size_t i = 0; i < each.operands.size(); ++i) {
    in.push_back(b.input("x" + std::to_string(i), dtype, each.operands[i].shape));
  }
  const ValueId loss = each.build(b, in);
  EXPECT_EQ(b.shape(loss), Shape{});
  EXPECT_EQ(b.dtype(loss), dtype);
  const ValueId gradient = differentiate(graph, loss, std::span(in).first(1))[0];
  graph.add_output(loss, "loss");
  graph.add_output(gradient, "gradient");
  graph.compact();
  return graph;
}

class Losses : public ::testing::TestWithParam<LossCase> {};

TEST_P(Losses, AreThoseOfPlainLoopsAndOfPyTorch) {
  const LossCase& each = GetParam();
  std::vector<Tensor> inputs;
  for (const Operand& operand : each.operands) {
    inputs.push_back(Tensor::of<double>(operand.shape, std::span<const double>(operand.values)));
  }
  const std::vector<Tensor> out = interpret(graph_of(each, DType::f64), inputs);
  const double loss = out[0].data<double>()[0];
  const std::span<const double> gradient = out[1].data<double>();
  const List& at = each.operands[0].values;
  EXPECT_NEAR(loss, each.reference(at), 1e-12 * (1 + std::abs(loss)));
  ASSERT_EQ(gradient.size(), at.size());
  double size = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    List low = at, high = at;
    low[i] -= 1e-6;
    high[i] += 1e-6;
    size = std::max(size, std::abs(gradient[i]));
    EXPECT_NEAR(gradient[i], (each.reference(high) - each.reference(low)) / 2e-6,
                1e-6 * std::abs(gradient[i]) + 1e-8 * (1 + std::abs(loss)))
        << i;
  }
  EXPECT_GT(size, 1e-3);
  if (!each.in_torch) return;
  const auto golden = nlohmann::json::parse(std::ifstream(SPARKPILOT_SOURCE_DIR "/src/train/losses_golden.json"));
  const auto& torch = golden.at("cases").at(each.name);
  EXPECT_NEAR(loss, torch.at("loss").get<double>(), 1e-12 * (1 + std::abs(loss)));
  for (size_t i = 0; i < at.size(); ++i) {
    const double expected = torch.at("gradient").at(i);
    EXPECT_NEAR(gradient[i], expected, 1e-11 * (size + std::abs(expected))) << i;
  }
}

TEST_P(Losses, AreTheSameInF32) {
  const LossCase& each = GetParam();
  Session session(graph_of(each, DType::f32), {.threads = 1});
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < each.operands.size(); ++i) {
    inputs.push_back(Tensor::of<double>(each.operands[i].shape, std::span<const double>(each.operands[i].values)));
    session.set_input("x" + std::to_string(i), convert(inputs.back(), DType::f32).view());
  }
  session.run();
  const std::vector<Tensor> wide = interpret(graph_of(each, DType::f64), inputs);
  const double loss = wide[0].data<double>()[0];
  EXPECT_NEAR(session.output<float>("loss")[0], loss, 1e-5 * std::abs(loss));
  double difference = 0, norm = 0;
  for (size_t i = 0; i < each.operands[0].values.size(); ++i) {
    const double expected = wide[1].data<double>()[i];
    difference += std::pow(session.output<float>("gradient")[i] - expected, 2);
    norm += expected * expected;
  }
  EXPECT_LE(std::sqrt(difference), 2e-5 * std::sqrt(norm));
}

INSTANTIATE_TEST_SUITE_P(Table, Losses, ::testing::ValuesIn(cases()), [](const auto& each) { return each.param.name; });

TEST(DistillationTargets, AreTheMeansOfTheMostProbableHypothesis) {
  Graph graph;
  Builder b(graph);
  // Two hypotheses of one value, two selections: mean, log scale, two logits.
  const ValueId raw = b.input("raw", DType::f32, {2, 8});
  graph.add_output(most_probable_means(b, raw, 2, 2), "means");
  graph.add_output(hypothesis_logits(b, raw, 2, 2), "logits");
  const Tensor in = Tensor::of<float>({2, 8}, {1, 9, 0.1f, 0.7f, 2, 9, 0.2f, 0.6f,  //
                                               3, 9, 5.0f, 1.0f, 4, 9, 4.0f, 2.0f});
  const std::vector<Tensor> out = interpret(graph, std::vector{in});
  const auto values = [](const Tensor& t) { return List(t.data<float>().begin(), t.data<float>().end()); };
  EXPECT_EQ(out[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(values(out[0]), (List{2, 1, 3, 4}));
  EXPECT_EQ(out[1].shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values(out[1]), (List{0.1f, 0.2f, 0.7f, 0.6f, 5, 4, 1, 2}));
}

TEST(LossShapes, AreRefused) {
  Graph graph;
  Builder b(graph);
  const ValueId odd = b.input("odd", DType::f32, {2, 7}), even = b.input("even", DType::f32, {2, 8}),
                other = b.input("other", DType::f32, {2, 3});
  const auto message = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(message([&] { laplacian_nll(b, odd, other); }), "a head is [2,7], expected [N, 2n]");
  EXPECT_EQ(message([&] { gaussian_nll(b, even, other); }), "the target is [2,3], expected [2,4]");
  EXPECT_EQ(message([&] { laplacian_nll_of_best(b, even, other, 3, 1); }), "a head is [2,8], expected [N, 3 (2n + 1)]");
  EXPECT_EQ(message([&] { cross_entropy(b, even, odd); }), "the teacher's value is [2,7], expected [2,8]");
}

// --- the heads of a driving model
struct Driving {
  Graph graph;
  std::vector<HeadLoss> losses;
};
// Inputs "student" and "teacher"; an output for each head, then the gradient of their sum.
Driving driving(const OutputSlices& slices, int64_t width) {
  Driving out;
  out.graph.opsets[""] = 26;
  Builder b(out.graph);
  const ValueId student = b.input("student", DType::f64, {2, width}),
                teacher = b.input("teacher", DType::f64, {2, width});
  out.losses = head_losses(b, slices, student, teacher);
  const ValueId gradient = differentiate(out.graph, weighted_sum(b, out.losses, {}), std::vector{student})[0];
  for (const HeadLoss& each : out.losses) out.graph.add_output(each.loss, each.head);
  out.graph.add_output(gradient, "gradient");
  return out;
}

// [first, end) of each of two entries.
List part(const List& from, size_t width, size_t first, size_t end) {
  List out;
  for (size_t entry = 0; entry < 2; ++entry) {
    for (size_t i = first; i < end; ++i) out.push_back(from[entry * width + i]);
  }
  return out;
}
// The first halves of the entries: the means.
List means(const List& raw) { return part(raw, raw.size() / 2, 0, raw.size() / 4); }

// Without the last of six means and of six log scales.
List faces(const List& raw) {
  List out;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (i % 6 != 5) out.push_back(raw[i]);
  }
  return out;
}

class DrivingLosses : public ::testing::TestWithParam<const char*> {};

TEST_P(DrivingLosses, AreThoseOfTheHeads) {
  Graph model = build_zoo_model(GetParam(), 1);
  infer(model);
  const OutputSlices slices = output_slices(model);
  ASSERT_FALSE(slices.empty());
  const auto width = static_cast<size_t>(model.value(model.outputs()[0].value).shape->elements());
  const List student = wave(2 * width, 0.3, 1.5), teacher = wave(2 * width, 1.1, 1.2);
  const Driving d = driving(slices, static_cast<int64_t>(width));
  const Shape shape{2, static_cast<int64_t>(width)};
  const std::vector<Tensor> out =
      interpret(d.graph, std::vector{Tensor::of<double>(shape, std::span<const double>(student)),
                                     Tensor::of<double>(shape, std::span<const double>(teacher))});
  std::map<std::string, std::pair<List, List>> heads;
  for (const auto& [head, slice] : slices) {
    const auto [begin, end] = slice.resolve(static_cast<int64_t>(width));
    if (begin >= end) continue;
    const auto [b, e] = std::pair(static_cast<size_t>(begin), static_cast<size_t>(end));
    heads[head] = {part(student, width, b, e), part(teacher, width, b, e)};
  }
  const auto exists = [&](const std::string& head, size_t every, size_t times) {
    List weights;
    const List p = sigmoids(heads.at(head).second);
    for (size_t i = every - 1; i < p.size(); i += every) weights.insert(weights.end(), times, p[i]);
    return weights;
  };
  const auto chosen = [](const List& raw, size_t count, size_t selections) {
    const size_t each = raw.size() / 2 / count, n = (each - selections) / 2;
    List target;
    for (size_t entry = 0; entry < 2; ++entry) {
      for (size_t s = 0; s < selections; ++s) {
        size_t best = 0;
        const auto logit = [&](size_t k) { return raw[(entry * count + k) * each + 2 * n + s]; };
        for (size_t k = 1; k < count; ++k) best = logit(k) > logit(best) ? k : best;
        for (size_t i = 0; i < n; ++i) target.push_back(raw[(entry * count + best) * each + i]);
      }
    }
    return target;
  };
  size_t compared = 0;
  for (size_t i = 0; i < d.losses.size(); ++i) {
    const std::string& head = d.losses[i].head;
    const auto& [x, y] = heads.at(head);
    double expected = 0;
    if (head == "plan" && x.size() == 2 * 4955) expected = best_of(x, chosen(y, 5, 1), {}, 2, 5, 1);
    else if (head == "lead" && x.size() == 2 * 102) {
      expected = best_of(x, chosen(y, 2, 3), exists("lead_prob", 1, 1), 2, 2, 3);
    } else if (head == "lead") expected = single<laplacian_of>(x, means(y), exists("lead_prob", 1, 24), 2);
    else if (head == "lane_lines") expected = single<laplacian_of>(x, means(y), exists("lane_lines_prob", 2, 66), 2);
    else if (head.starts_with("face_descs")) expected = divergence_of(faces(x), faces(y), 2);
    else if (head.find("_prob") != std::string::npos || head == "meta" || head == "wheel_on_right")
      expected = binary(x, sigmoids(y));
    else if (head.starts_with("desire_")) expected = cross(x, softmaxes(y, 8), 8);
    else if (head == "hidden_state" || head == "features") expected = divergence(x, y, 512, 4);
    else if (head == "action" && x.size() == 4) expected = squares(x, y);
    else expected = single<laplacian_of>(x, means(y), {}, 2);
    EXPECT_NEAR(out[i].data<double>()[0], expected, 1e-11 * (1 + std::abs(expected))) << head;
    ++compared;
  }
  for (const auto& [head, values] : heads) {
    const bool has = std::ranges::any_of(d.losses, [&, name = head](const HeadLoss& l) { return l.head == name; });
    EXPECT_EQ(has, head != "pad") << head;
  }
  EXPECT_EQ(compared, d.losses.size());
  // Along one direction; a value less than the step from a limit or another winner would need a smaller one.
  const List along = wave(2 * width, 2.2);
  const auto sum_at = [&](double step) {
    List moved = student;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * along[i];
    const std::vector<Tensor> at =
        interpret(d.graph, std::vector{Tensor::of<double>(shape, std::span<const double>(moved)),
                                       Tensor::of<double>(shape, std::span<const double>(teacher))});
    double sum = 0;
    for (size_t i = 0; i < d.losses.size(); ++i) sum += at[i].data<double>()[0];
    return sum;
  };
  const std::span<const double> gradient = out.back().data<double>();
  const double slope = std::inner_product(gradient.begin(), gradient.end(), along.begin(), 0.0);
  EXPECT_NEAR((sum_at(1e-7) - sum_at(-1e-7)) / 2e-7, slope, 1e-4 * std::abs(slope) + 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Eras, DrivingLosses,
                         ::testing::Values("tiny_driving_vision", "tiny_driving_policy", "tiny_driving_supercombo",
                                           "tiny_supercombo", "tiny_driving_vision_v0.10.0",
                                           "tiny_driving_policy_v0.10.0", "tiny_dmonitoring_model"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(DriverLosses, OfUnknownHeadsTheValuesAreCompared) {
  const Driving d =
      driving({{"face_descs_lhd", {0, 12}}, {"gaze", {12, 15}}, {"touching_wheel_prob_rhd", {15, 16}}}, 16);
  ASSERT_EQ(d.losses.size(), 3u);
  EXPECT_TRUE(d.losses[0].known);
  EXPECT_FALSE(d.losses[1].known);
  EXPECT_TRUE(d.losses[2].known);
  const List student = wave(32, 0.3), teacher = wave(32, 1.1);
  const std::vector<Tensor> out =
      interpret(d.graph, std::vector{Tensor::of<double>({2, 16}, std::span<const double>(student)),
                                     Tensor::of<double>({2, 16}, std::span<const double>(teacher))});
  EXPECT_NEAR(out[1].data<double>()[0], squares(part(student, 16, 12, 15), part(teacher, 16, 12, 15)), 1e-12);
  try {
    driving({{"face_descs_lhd", {0, 10}}}, 10);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "head \"face_descs_lhd\" has 10 values, expected 12");
  }
}

TEST(WeightedSum, NamesTheHeadsThatThereAre) {
  Graph graph;
  Builder b(graph);
  const std::vector<HeadLoss> losses{{"plan", b.input("p", DType::f64, Shape{})},
                                     {"meta", b.input("m", DType::f64, Shape{})}};
  graph.add_output(weighted_sum(b, losses, {{"meta", 3}}), "y");
  graph.add_output(weighted_sum(b, losses, {{"plan", 0}}), "meta only");
  const std::vector<Tensor> out = interpret(graph, std::vector{Tensor::scalar(2.0), Tensor::scalar(5.0)});
  EXPECT_EQ(out[0].data<double>()[0], 17);
  EXPECT_EQ(out[1].data<double>()[0], 5);
  const auto message = [&](const std::map<std::string, double>& weights) {
    try {
      weighted_sum(b, losses, weights);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(message({{"plam", 1}}), "there is no head \"plam\" to weight, the model has plan, meta");
  EXPECT_EQ(message({{"plan", 0}, {"meta", 0}}), "no head has a loss with a weight above 0; the model has plan, meta");
}

}  // namespace
}  // namespace sparkpilot::train
