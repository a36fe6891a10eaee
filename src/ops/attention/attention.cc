// Attention: y = softmax(scale * q k^T + mask) v for each head, with grouped heads, a past, masks, windows and soft
// caps.
//
// A key that is masked out is not read at all, whatever its score; a query that sees no key gives zeros.
//
// sparkpilot::Attention is the same without a past, on columns of wider matrices [batch, rows, width]: `q_columns`,
// `k_columns` and `v_columns` each hold the first column and the number of columns that contain the heads.
#include <cmath>

#include "base/parallel.h"
#include "ops/attention/attention_nodes.h"
#include "ops/axes.h"
#include "ops/cpu/attention/attention_shape.h"
#include "ops/cpu/attention/attention_simd.h"
#include "ops/cpu/composed.h"
#include "ops/cuda/attention_candidates.h"
#include "ops/expect.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::attention_ops {
namespace {

struct ReferenceState final : KernelState {
  int64_t tasks = 1;
};

// Scratch: one row of scores per task.
std::unique_ptr<KernelState> prepare_reference(const Problem& p) {
  const AttentionShape a = attention_shape(p);
  auto state = std::make_unique<ReferenceState>();
  state->tasks = std::clamp<int64_t>(a.q.batch * a.q.heads * a.q.rows, 1, 64);
  state->workspace = state->tasks * a.total * static_cast<int64_t>(sizeof(double));
  return state;
}

// The past and the new rows of keys or values as one sequence.
template <typename T>
struct Sequence {
  const T *past = nullptr, *now = nullptr;
  HeadLayout past_layout, now_layout;
  const T* row(int64_t b, int64_t head, int64_t i) const {
    return i < past_layout.rows ? past + past_layout.offset(b, head, i)
                                : now + now_layout.offset(b, head, i - past_layout.rows);
  }
};

template <typename T>
Sequence<T> sequence(const Call& c, size_t now, size_t past, const HeadLayout& layout, const HeadLayout& past_layout) {
  return {c.has(past) ? c.inputs[past].as<T>() : nullptr, c.inputs[now].as<T>(), past_layout, layout};
}

// The output present_key or present_value.
template <typename T>
void write_present(const Call& c, size_t output, const Sequence<T>& s, int64_t total) {
  if (output >= c.outputs.size() || !c.outputs[output].present()) return;
  T* out = c.outputs[output].as<T>();
  const HeadLayout& l = s.now_layout;
  for (int64_t b = 0; b < l.batch; ++b) {
    for (int64_t head = 0; head < l.heads; ++head) {
      for (int64_t i = 0; i < total; ++i, out += l.size) std::copy_n(s.row(b, head, i), l.size, out);
    }
  }
}

struct Query {
  int64_t b, head, row;
};

// Turns scores into weights in place, and writes the fourth output on the way.
template <typename T>
void weigh(const AttentionShape& a, const AttentionMask& mask, const Query& q, int64_t valid, double* scores,
           T* extra) {
  const KeyRange seen = visible_keys(a, q.row, valid);
  const int64_t at = mask.offset(q.b, q.head, q.row);
  const auto write = [&](int64_t mode) {
    for (int64_t j = 0; extra && a.output_mode == mode && j < a.total; ++j) {
      extra[j] = T(static_cast<Compute<T>>(scores[j]));
    }
  };
  write(0);
  for (int64_t j = 0; a.softcap > 0 && j < a.total; ++j) scores[j] = a.softcap * std::tanh(scores[j] / a.softcap);
  write(1);
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a.total; ++j) {
    const double bias = j >= seen.first && j < seen.last ? mask.bias(at, j) : -INFINITY;
    scores[j] = bias == -INFINITY ? bias : scores[j] + bias;
    top = std::max(top, scores[j]);
  }
  write(2);
  for (int64_t j = 0; j < a.total; ++j) {
    scores[j] = scores[j] == -INFINITY ? 0 : std::exp(scores[j] - top);
    sum += scores[j];
  }
  for (int64_t j = 0; j < a.total && sum != 0; ++j) scores[j] /= sum;
  write(3);
}

template <typename T, typename U>
void attend(const Call& c, const AttentionShape& a) {
  const auto keys = sequence<T>(c, 1, 4, a.k, a.past_k);
  const auto values = sequence<U>(c, 2, 5, a.v, a.past_v);
  write_present(c, 1, keys, a.total);
  write_present(c, 2, values, a.total);
  const AttentionMask mask(c, a);
  T* extra = c.outputs.size() > 3 && c.outputs[3].present() ? c.outputs[3].as<T>() : nullptr;
  const int64_t rows = a.q.batch * a.q.heads * a.q.rows, tasks = c.as<ReferenceState>().tasks;
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      double* scores = reinterpret_cast<double*>(c.workspace) + task * a.total;
      for (int64_t i = rows * task / tasks; i < rows * (task + 1) / tasks; ++i) {
        const Query query{i / (a.q.heads * a.q.rows), i / a.q.rows % a.q.heads, i % a.q.rows};
        const int64_t kv_head = query.head / a.group();
        const T* q = c.inputs[0].as<T>() + a.q.offset(query.b, query.head, query.row);
        for (int64_t j = 0; j < a.total; ++j) {
          const T* k = keys.row(query.b, kv_head, j);
          double dot = 0;
          for (int64_t d = 0; d < a.q.size; ++d) dot += static_cast<double>(q[d]) * static_cast<double>(k[d]);
          scores[j] = dot * a.scale;
        }
        weigh(a, mask, query, valid_keys(c, a, query.b), scores, extra ? extra + i * a.total : nullptr);
        T* y = c.outputs[0].as<T>() + a.y.offset(query.b, query.head, query.row);
        for (int64_t d = 0; d < a.v.size; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < a.total; ++j) {
            if (scores[j] != 0) sum += scores[j] * static_cast<double>(values.row(query.b, kv_head, j)[d]);
          }
          y[d] = T(static_cast<Compute<T>>(sum));
        }
      }
    }
  });
}

void run_reference(const Call& c) {
  const AttentionShape a = attention_shape(c);
  dispatch(FloatTypes{}, c.inputs[0].dtype,
           [&]<typename T>() { dispatch(FloatTypes{}, c.inputs[2].dtype, [&]<typename U>() { attend<T, U>(c, a); }); });
}

void infer(InferContext& c) {
  expect_float(c, 0);
  expect_same_dtype(c, 1, 0);
  expect_float(c, 2);
  if (c.has(4)) expect_same_dtype(c, 4, 0);
  if (c.has(5)) expect_same_dtype(c, 5, 2);
  if (c.has(6)) expect_dtype(c, 6, TypeList<int64_t>{}, "i64");
  if (c.has(3) && !contains(AllTypes{}, c.dtype(3))) fail("mask is {}", name(c.dtype(3)));
  AttentionInputs inputs;
  for (int i = 0; i < 7; ++i) inputs.shape[i] = c.has(i) ? &c.shape(i) : nullptr;
  const AttentionShape a = attention_shape(inputs, c.attrs);
  if (c.attrs.has("softmax_precision")) {
    const std::optional<DType> dtype = dtype_from_onnx(c.attrs.integer("softmax_precision"));
    if (!dtype || !contains(FloatTypes{}, *dtype)) fail("softmax_precision names no float type");
  }
  c.output(0, c.dtype(0),
           c.rank(0) == 4 ? Shape{a.q.batch, a.q.heads, a.q.rows, a.v.size}
                          : Shape{a.q.batch, a.q.rows, a.q.heads * a.v.size});
  if (c.output_count() == 1) return;
  c.output(1, c.dtype(0), {a.k.batch, a.k.heads, a.total, a.k.size});
  c.output(2, c.dtype(2), {a.v.batch, a.v.heads, a.total, a.v.size});
  c.output(3, c.dtype(0), {a.q.batch, a.q.heads, a.q.rows, a.total});
}

double cost(const Problem& p) {
  const AttentionShape a = attention_shape(p);
  return static_cast<double>(a.q.batch * a.q.heads * a.q.rows) * static_cast<double>(a.total) *
         (2.0 * static_cast<double>(a.q.size + a.v.size) + 5);
}
double needed(const Problem& p) {
  const AttentionShape a = attention_shape(p);
  if (a.q.rows == 0 || a.total == 0 || p.has(6)) return 0;  // the padding among the keys is known in a run only
  double seen = 0;
  for (int64_t row = 0; row < a.q.rows; ++row) {
    const KeyRange keys = visible_keys(a, row, -1);
    seen += static_cast<double>(keys.last - keys.first);
  }
  return seen / (static_cast<double>(a.q.rows) * static_cast<double>(a.total));
}

OpCase make_case(std::string name, const Shape& q, const Shape& k, const Shape& v, Attributes attrs,
                 std::vector<CaseInput> more = {}) {
  OpCase out{std::move(name), {CaseInput::of(q), CaseInput::of(k), CaseInput::of(v)}, std::move(attrs)};
  out.inputs.insert(out.inputs.end(), more.begin(), more.end());
  return out;
}

std::vector<OpCase> cases() {
  const int64_t one = 1;
  const Shape small{2, 4, 20, 32};
  const Attributes packed{{"q_num_heads", int64_t{8}}, {"kv_num_heads", int64_t{2}}};
  const Attributes window{{"is_causal", one}, {"left_window_size", int64_t{5}}};
  const CaseInput none = CaseInput::none();
  std::vector<OpCase> out{
      make_case("plain", small, small, small, {}),
      make_case("one_query", {1, 8, 1, 64}, {1, 8, 10, 64}, {1, 8, 10, 64}, {}),
      make_case("one_query_of_groups", {2, 1, 296}, {2, 20, 74}, {2, 20, 66}, packed),
      make_case("packed_groups", {2, 5, 72}, {2, 7, 18}, {2, 7, 22}, packed),
      make_case("causal", {1, 2, 70, 16}, {1, 2, 70, 16}, {1, 2, 70, 8}, {{"is_causal", one}, {"scale", 0.3f}}),
      make_case("window_softcap", {1, 2, 9, 16}, {1, 2, 9, 16}, {1, 2, 9, 33}, window),
      make_case("mask", {2, 3, 5, 16}, {2, 3, 19, 16}, {2, 3, 19, 16}, {{"softcap", 2.0f}},
                {CaseInput::of({3, 5, 19})}),
      make_case("bool_mask", {2, 3, 5, 16}, {2, 3, 19, 16}, {2, 3, 19, 16}, {},
                {CaseInput::range({5, 17}, 0, 1, DType::boolean)}),
      make_case("past", {2, 3, 5, 16}, {2, 3, 4, 16}, {2, 3, 4, 8}, {{"is_causal", one}},
                {none, CaseInput::of({2, 3, 6, 16}), CaseInput::of({2, 3, 6, 8})}),
      make_case("padding", {2, 3, 5, 16}, {2, 3, 9, 16}, {2, 3, 9, 16}, {{"is_causal", one}},
                {none, none, none, CaseInput::value(Tensor::ints({3, 9}))})};
  out[8].outputs = 4;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    OpCase half =
        make_case(dtype == DType::f16 ? "f16" : "bf16", {2, 3, 21, 19}, {2, 3, 37, 19}, {2, 3, 37, 35}, window);
    for (CaseInput& input : half.inputs) input.dtype = dtype;
    out.push_back(half);
  }
  Tensor seen = Tensor::zeros(DType::boolean, {5, 17});
  for (int64_t i = 0; i < seen.elements(); ++i) store_element(DType::boolean, seen.raw(), i, i % 3 != 1);
  out.push_back(make_case("constant_bool_mask", {2, 3, 5, 16}, {2, 3, 19, 16}, {2, 3, 19, 16}, {{"is_causal", one}},
                          {CaseInput::value(seen)}));
  out.push_back(make_case("constant_mask", {2, 3, 5, 64}, {2, 3, 19, 64}, {2, 3, 19, 64}, {},
                          {CaseInput::of({3, 1, 19}).fixed()}));
  out.push_back(make_case("float_mask", {2, 3, 37, 40}, {2, 3, 90, 40}, {2, 3, 90, 40}, {{"scale", 0.2f}},
                          {CaseInput::of({2, 1, 37, 90})}));
  // The first query sees no key.
  Tensor hides = Tensor::zeros(DType::f32, {37, 50});
  for (int64_t i = 0; i < hides.elements(); ++i) hides.data<float>()[i] = i < 50 || i % 7 == 3 ? -INFINITY : 0;
  for (const bool constant : {false, true}) {
    out.push_back(make_case(constant ? "constant_mask_of_all" : "mask_of_all", {2, 1, 37, 40}, {2, 1, 50, 40},
                            {2, 1, 50, 40}, {}, {CaseInput::value(hides)}));
    out.back().inputs.back().constant = constant;
  }
  out.push_back(make_case("causal_tokens", {1, 70, 384}, {1, 70, 384}, {1, 70, 384},
                          {{"is_causal", one}, {"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{4}}}));
  out.push_back(make_case("large_heads", {1, 2, 5, 300}, {1, 2, 7, 300}, {1, 2, 7, 300}, {}));
  // Heads of even sizes, of which pairs can be moved: every height of tiles, whole and partial vectors.
  const std::vector<OpCase> even{
      make_case("bf16_even", {2, 3, 21, 18}, {2, 3, 37, 18}, {2, 3, 37, 35}, window),
      make_case("bf16_causal", {1, 2, 71, 32}, {1, 2, 71, 32}, {1, 2, 71, 64}, {{"is_causal", one}, {"scale", 0.3f}}),
      make_case("bf16_few", {1, 2, 5, 2}, {1, 2, 1, 2}, {1, 2, 1, 1}, {}),
      make_case("bf16_groups", {2, 13, 144}, {2, 7, 36}, {2, 7, 46}, packed),
      make_case("bf16_mask", {2, 3, 6, 16}, {2, 3, 19, 16}, {2, 3, 19, 16}, {{"softcap", 2.0f}},
                {CaseInput::of({3, 6, 19})}),
      make_case("bf16_bool_mask", {2, 3, 15, 16}, {2, 3, 19, 16}, {2, 3, 19, 48}, {},
                {CaseInput::range({15, 17}, 0, 1, DType::boolean)}),
      make_case("bf16_padding", {2, 3, 9, 16}, {2, 3, 9, 16}, {2, 3, 9, 16}, {{"is_causal", one}},
                {none, none, none, CaseInput::value(Tensor::ints({3, 9}))})};
  for (OpCase c : even) {
    for (size_t i = 0; i < 3; ++i) c.inputs[i].dtype = DType::bf16;
    out.push_back(std::move(c));
  }
  return out;
}

// The attributes that say which columns hold the heads, by input.
constexpr const char* kColumns[] = {"q_columns", "k_columns", "v_columns"};

std::vector<ValueId> expand_columns(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  std::vector<ValueId> inputs = e.node.inputs;
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> columns = attrs.integers(kColumns[i]);
    attrs.erase(kColumns[i]);
    if (columns.empty()) continue;
    inputs[i] = e.b.add(
        "Slice", {inputs[i], e.b.ints({columns[0]}), e.b.ints({columns[0] + columns[1]}), e.b.ints({int64_t{2}})});
  }
  return {e.b.add("Attention", std::move(inputs), std::move(attrs))};
}

std::vector<OpCase> column_cases() {
  const auto columns = [](int64_t first, int64_t count) { return std::vector<int64_t>{first, count}; };
  const auto heads = [&](int64_t q, int64_t kv, const char* key, int64_t value) {
    return Attributes{{"q_num_heads", q}, {"kv_num_heads", kv}, {key, value}};
  };
  Attributes product = heads(4, 4, "is_causal", 1), wide = product, groups = heads(6, 2, "right_window_size", 3);
  for (int i = 0; i < 3; ++i) product.set(kColumns[i], columns(i * 32, 32));
  for (int i = 0; i < 3; ++i) wide.set(kColumns[i], columns(i * 128, 128));
  groups.set("k_columns", columns(3, 34));
  groups.set("v_columns", columns(40, 46));
  std::vector<OpCase> out{make_case("product", {2, 19, 96}, {2, 19, 96}, {2, 19, 96}, product),
                          make_case("two_vectors", {1, 20, 384}, {1, 20, 384}, {1, 20, 384}, wide),
                          make_case("own_queries", {2, 5, 102}, {2, 33, 90}, {2, 33, 90}, groups),
                          make_case("one_query", {3, 1, 102}, {3, 9, 90}, {3, 9, 90}, groups),
                          make_case("bf16", {2, 19, 96}, {2, 19, 96}, {2, 19, 96}, product),
                          make_case("bf16_odd_columns", {2, 7, 102}, {2, 33, 90}, {2, 33, 90}, groups)};
  for (size_t c = out.size() - 2; c < out.size(); ++c) {
    for (CaseInput& input : out[c].inputs) input.dtype = DType::bf16;
  }
  return out;
}

// Axis map: batch entries are independent, and so are queries, unless their position decides which keys they see.
AxisSource axes(const Problem& p, int output, int axis, size_t input) {
  const Shape &q = p.inputs[0].shape, &own = p.inputs[input].shape;
  const bool query = axis == q.rank() - 2;
  if (output > 0 || p.inputs.size() > 4 || (axis != 0 && !query)) return {};
  const auto limited = [&](const char* key) { return p.attrs().integer(key, -1) >= 0; };
  const bool by_place =
      p.attrs().integer("is_causal", 0) != 0 || limited("left_window_size") || limited("right_window_size");
  if (query && by_place) return {};
  if (input == 3) {  // the mask's axes are the last ones of [batch, heads, queries, keys]
    const int place = own.rank() - (query ? 2 : 4);
    return place < 0 || own[place] == 1 ? whole_input() : same_axis(place);
  }
  return input == 0 || axis == 0 ? same_axis(axis) : whole_input();
}

// ONNX's attributes, then those of the op that reads columns of wider matrices.
constexpr AttrSpec kColumnAttrs[] = {{"is_causal", AttrType::integer},
                                     {"kv_num_heads", AttrType::integer},
                                     {"left_window_size", AttrType::integer},
                                     {"q_num_heads", AttrType::integer},
                                     {"qk_matmul_output_mode", AttrType::integer},
                                     {"right_window_size", AttrType::integer},
                                     {"scale", AttrType::real},
                                     {"softcap", AttrType::real},
                                     {"softmax_precision", AttrType::integer},
                                     {"q_columns", AttrType::integers},
                                     {"k_columns", AttrType::integers},
                                     {"v_columns", AttrType::integers}};
constexpr std::span<const AttrSpec> kAttrs{kColumnAttrs, std::size(kColumnAttrs) - 3};
constexpr Kernel kCpu[] = {
    {.name = "simd", .accepts = accepts_attention_simd, .prepare = prepare_attention_simd, .run = run_attention_simd},
    {.name = "reference", .prepare = prepare_reference, .run = run_reference},
};
constexpr Kernel kColumnsCpu[] = {kCpu[0], composed<expand_columns>("copied"), kCpu[1]};

const OpDef kOps[] = {{.name = "Attention",
                       .doc = "Scaled dot-product attention over heads.",
                       .since = 23,
                       .inputs = {3, 7},
                       .outputs = {1, 4},
                       .attributes = kAttrs,
                       .traits = {.attention = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .cuda = cuda::attention_candidates(),
                       .expand = attention_as_nodes,
                       .cost = cost,
                       .needed = needed,
                       .cases = cases},
                      {.name = "Attention",
                       .domain = "sparkpilot",
                       .doc = "Attention whose queries, keys and values are columns of wider matrices.",
                       .since = 1,
                       .inputs = {3, 4},
                       .outputs = {1, 1},
                       .attributes = kColumnAttrs,
                       .traits = {.attention = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kColumnsCpu,
                       .cuda = cuda::attention_candidates(),
                       .expand = expand_columns,
                       .cost = cost,
                       .needed = needed,
                       .cases = column_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::attention_ops
