// sparkpilot adapter: LoRA and DoRA adapters made, shown, merged into a model's weights, taken out, compared.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "adapters/load_model.h"
#include "adapters/merge.h"
#include "adapters/size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/with_file.h"
#include "bench/merge_check.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/terminal.h"
#include "ir/census.h"
#include "ir/dimensions.h"
#include "onnx/export.h"
#include "onnx/import.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct AdapterFlags {
  std::string model, out, target, max_size, dtype = "auto", first, second;
  std::vector<std::string> adapters, tags;
  int64_t rank = 0;  // 0: by the size
  double alpha = 0;  // 0: the rank
  bool lora = false, rslora = false, dora = false, no_check = false;
  uint64_t seed = 1;
  RunFlags sizes;  // --dim and --shape
};

std::vector<int64_t> numbers(const Shape& shape) { return {shape.begin(), shape.end()}; }

Json adapter_json(const Adapter& adapter) {
  Json layers = Json::array();
  for (const AdapterLayer& layer : adapter.layers) {
    layers.push_back({{"path", layer.path},
                      {"rank", layer.rank()},
                      {"alpha", layer.alpha},
                      {"scale", adapter.scale(layer)},
                      {"a", numbers(layer.a.shape())},
                      {"b", numbers(layer.b.shape())}});
  }
  return {{"kind", name(adapter.kind)},
          {"stored", stored_name(adapter.stored)},
          {"bytes", adapter.bytes()},
          {"base", adapter.base_name},
          {"base_fingerprint", adapter.base_fingerprint},
          {"tags", adapter.tags},
          {"layers", layers}};
}

int64_t parameters(const Adapter& adapter) {
  int64_t sum = 0;
  for (const AdapterLayer& layer : adapter.layers) sum += layer.elements();
  return sum;
}

std::string line(const Adapter& adapter) {
  return fmt::format("{} on {} layers, {} parameters, {} in {}", name(adapter.kind), adapter.layers.size(),
                     human_count(static_cast<double>(parameters(adapter))), human_bytes(adapter.bytes()),
                     stored_name(adapter.stored));
}

// --- create

AdapterKind kind_of(const AdapterFlags& flags) {
  if (flags.lora + flags.rslora + flags.dora > 1) fail("give one of --dora, --lora and --rslora");
  return flags.lora ? AdapterKind::lora : flags.rslora ? AdapterKind::rslora : AdapterKind::dora;
}

int create(const Program& program, const AdapterFlags& flags) {
  for (const fs::path& file : adapter_files(flags.out)) {
    if (fs::exists(file)) {
      fail("--out {}: there is an adapter already ({}), which may be trained: give another folder", flags.out,
           file.filename().string());
    }
  }
  const Graph base = load_onnx(flags.model);
  const int64_t base_bytes = take_census(base).constant_bytes;
  AdapterOptions options{.kind = kind_of(flags), .target = flags.target};
  options.stored = stored_type(flags.dtype, base);
  options.seed = flags.seed;
  if (flags.rank < 0) fail("--rank {}: expected 1 or more", flags.rank);
  if (flags.rank > 0 && !flags.max_size.empty())
    fail("--rank sets every layer's rank: --max-size has no effect with it");
  if (flags.rank > 0) options.rank = flags.rank;
  else options.max_bytes = size_limit(flags.max_size.empty() ? "1%" : flags.max_size, base, "--max-size");
  if (!(flags.alpha >= 0)) fail("--alpha {}: expected more than 0", flags.alpha);
  if (flags.alpha > 0) options.alpha = flags.alpha;
  AdapterPlan plan;
  Adapter adapter;
  with_file(flags.model, [&] { adapter = create_adapter(base, options, &plan); });
  for (const std::string& tag : flags.tags) {
    const auto [at, fresh] = adapter.tags.insert(split_assignment(tag, "--tag"));
    if (!fresh) fail("--tag {}: given twice", at->first);
  }
  if (adapter.base_name.empty()) adapter.base_name = fs::path(flags.model).stem().string();
  save_adapter(adapter, flags.out);
  const double share = static_cast<double>(adapter.bytes()) / static_cast<double>(std::max<int64_t>(base_bytes, 1));
  if (share > 1 && !program.quiet) {
    note(fmt::format("the adapter is larger than the model: {} beside {}", human_bytes(adapter.bytes()),
                     human_bytes(base_bytes)));
  }
  Json skipped = Json::array();
  Table table({"layer", "weights", "rank", ""});
  for (const AdapterPlan::Row& row : plan.rows) {
    if (row.rank == 0) skipped.push_back({{"path", row.path}, {"why", row.why_not}});
    if (row.why_not == "not a target") continue;
    table.add({row.path, row.weight.str(), row.rank > 0 ? std::to_string(row.rank) : "-", row.why_not});
  }
  if (program.json) {
    Json document = adapter_json(adapter);
    document["folder"] = flags.out;
    document["share_of_base"] = share;
    document["skipped"] = skipped;
    print_json(document);
  } else {
    print(table.str());
    print(fmt::format("\n{}  {}, {:.2f} % of the model\n", flags.out, line(adapter), 100 * share));
  }
  return kDone;
}

// --- info

int adapter_info(const Program& program, const AdapterFlags& flags) {
  const Adapter adapter = load_adapter(flags.first);
  if (!flags.model.empty()) {
    const Graph base = load_onnx(flags.model);
    with_file(flags.first, [&] { match_layers(base, adapter); });
  }
  if (program.json) {
    Json document = adapter_json(adapter);
    document["fits"] = flags.model.empty() ? Json() : Json(true);
    print_json(document);
    return kDone;
  }
  const auto row = [](std::string_view key, const std::string& value) {
    if (!value.empty()) print(painted(fmt::format("{:<12}", key), Paint::bold) + value + "\n");
  };
  row("adapter", line(adapter));
  row("base", adapter.base_name);
  row("fingerprint", adapter.base_fingerprint.empty() ? "none: not made by sparkpilot" : adapter.base_fingerprint);
  for (const auto& [key, value] : adapter.tags) row("tag", key + " = " + value);
  if (!flags.model.empty()) row("fits", flags.model);
  Table table({"layer", "rank", "alpha", "scale", "A", "B"});
  for (const AdapterLayer& layer : adapter.layers) {
    table.add({layer.path, std::to_string(layer.rank()), fmt::format("{:g}", layer.alpha),
               fmt::format("{:.4g}", adapter.scale(layer)), layer.a.shape().str(), layer.b.shape().str()});
  }
  print("\n" + table.str());
  return kDone;
}

// --- merge, unmerge

void write_model(const Graph& graph, const std::string& out, const std::vector<fs::path>& read) {
  for (const fs::path& file : read) refuse_to_replace(out, file);
  save_onnx(graph, out, {.keep = read});
}

Json json_check(const std::vector<MergedOutput>& outputs) {
  Json rows = Json::array();
  for (const MergedOutput& output : outputs) {
    rows.push_back({{"name", output.name},
                    {"change_relative_l2", output.change},
                    {"error_relative_l2", output.error},
                    {"rounding_relative_l2", output.rounding},
                    {"equal", output.equal()}});
  }
  return rows;
}

int merge(const Program& program, const AdapterFlags& flags) {
  std::vector<fs::path> read;
  const Graph base = load_onnx(flags.model, read);
  const ModelName model = parse_model_name(adapted(flags.model, flags.adapters));
  for (const fs::path& file : files_of(model)) read.push_back(file);
  Graph merged = base;
  int merges = 0;
  with_file(flags.model, [&] { merges = merge_named(merged, model.adapters); });
  if (merges < std::ssize(model.adapters) && !program.quiet) {
    note("adapters of one base are added up, though each was trained alone: check what the model does");
  }
  std::vector<MergedOutput> outputs;
  const bool alone = model.adapters.size() == 1 && model.adapters[0].by == 1;
  if (!alone && !flags.no_check && !program.quiet) {
    note("the merged model is not checked: only one adapter with scale 1 can be compared with its nodes");
  }
  if (alone && !flags.no_check) {
    const auto sized = [&](Graph graph) {
      with_file(flags.model, [&] { fix_dimensions(graph, dims_of(flags.sizes), shapes_of(flags.sizes)); });
      return graph;
    };
    outputs = check_merge(sized(base), sized(merged), load_adapter(model.adapters[0].folder),
                          chosen_threads(program).value_or(0), flags.seed);
  }
  write_model(merged, flags.out, read);
  const std::optional<int64_t> bytes = file_bytes(flags.out);
  const int code = std::ranges::all_of(outputs, &MergedOutput::equal) ? kDone : kCheckFailed;
  if (program.json) {
    print_json({{"file", flags.out}, {"file_bytes", bytes ? Json(*bytes) : Json()}, {"outputs", json_check(outputs)}});
    return code;
  }
  if (!outputs.empty()) {
    Table table({"output", "change by the adapter", "merged against unmerged", "rounding of the weights", ""});
    for (const MergedOutput& o : outputs) {
      table.add({o.name, fmt::format("{:.2e}", o.change), fmt::format("{:.2e}", o.error),
                 fmt::format("{:.2e}", o.rounding),
                 o.equal() ? painted("equal", Paint::good) : painted("differs", Paint::bad)});
    }
    print(table.str() + "\n");
  }
  print(fmt::format("{}  {}\n", flags.out, bytes ? human_bytes(*bytes) : "-"));
  return code;
}

int unmerge(const Program& program, const AdapterFlags& flags) {
  std::vector<fs::path> read;
  Graph graph = load_onnx(flags.model, read);
  for (const fs::path& file : adapter_files(flags.first)) read.push_back(file);
  const Adapter adapter = load_adapter(flags.first);
  with_file(flags.model, [&] { unmerge_adapter(graph, adapter); });
  write_model(graph, flags.out, read);
  const std::string found = base_fingerprint(graph);
  const bool same = found == adapter.base_fingerprint;
  if (program.json) {
    print_json({{"file", flags.out}, {"base_fingerprint", found}, {"bit_equal_to_the_base", same}});
  } else {
    print(fmt::format("{}  {}\n", flags.out,
                      same ? "the base's weights, bit for bit" : "the base's weights, but for rounding"));
  }
  return kDone;
}

// --- diff

int diff(const Program& program, const AdapterFlags& flags) {
  const Adapter a = load_adapter(flags.first), b = load_adapter(flags.second);
  const Graph base = load_onnx(flags.model);
  std::vector<LayerDifference> rows;
  with_file(flags.model, [&] { rows = compare_adapters(base, a, b); });
  if (program.json) {
    Json layers = Json::array();
    for (const LayerDifference& row : rows) {
      layers.push_back({{"path", row.path},
                        {"rank_a", row.rank_a},
                        {"rank_b", row.rank_b},
                        {"change_a", row.change_a},
                        {"change_b", row.change_b},
                        {"difference", row.difference}});
    }
    print_json({{"a", adapter_json(a)}, {"b", adapter_json(b)}, {"layers", layers}});
    return kDone;
  }
  print(fmt::format("A  {}\nB  {}\n\n", line(a), line(b)));
  Table table({"layer", "rank A", "rank B", "|dW A| / |W|", "|dW B| / |W|", "|dW A - dW B| / |W|"});
  for (const LayerDifference& row : rows) {
    table.add({row.path, std::to_string(row.rank_a), std::to_string(row.rank_b), fmt::format("{:.3g}", row.change_a),
               fmt::format("{:.3g}", row.change_b), fmt::format("{:.3g}", row.difference)});
  }
  print(table.str());
  return kDone;
}

}  // namespace

void add_adapter(Program& program, Command app) {
  const auto flags = std::make_shared<AdapterFlags>();
  const Command group = app.add_group("adapter", "LoRA and DoRA adapters: create, inspect, merge, unmerge, compare");
  group.footer(
      "Examples:\n"
      "  sparkpilot adapter create driving_policy.onnx --out adapter\n"
      "  sparkpilot adapter info adapter --model driving_policy.onnx\n"
      "  sparkpilot adapter merge driving_policy.onnx adapter --out tuned.onnx\n"
      "  sparkpilot adapter unmerge tuned.onnx adapter --out base.onnx\n"
      "  sparkpilot adapter diff driving_policy.onnx adapter_a adapter_b\n"
      "Adapters are folders as Hugging Face's PEFT reads and writes them.");
  const auto add = [&](const std::string& name, const std::string& doc, const std::string& examples,
                       int (*action)(const Program&, const AdapterFlags&)) {
    const Command command =
        add_command(program, group, name, doc, examples, [&program, flags, action] { return action(program, *flags); });
    add_report_flags(program, command);
    return command;
  };
  const auto add_out = [&](Command command, const char* doc, const char* type) {
    command.add_option("-o,--out", flags->out, doc).required().type_name(type);
  };

  const Command creator = add(
      "create", "a new adapter, which changes nothing until it is trained",
      "  sparkpilot adapter create driving_policy.onnx --out adapter\n"
      "  sparkpilot adapter create driving_policy.onnx --rank 16 --alpha 32 --lora --out adapter\n"
      "  sparkpilot adapter create driving_vision.onnx --target '.*\\.mlp\\..*' --max-size 2% --tag car=CIVIC --out a",
      create);
  creator.add_option("model", flags->model, "ONNX model").required().type_name("MODEL");
  add_out(creator, "the folder to write", "DIR");
  creator.add_flag("--dora", flags->dora, "magnitude and direction (the default)");
  creator.add_flag("--lora", flags->lora, "low-rank change alone, scaled by alpha / rank");
  creator.add_flag("--rslora", flags->rslora, "the same, scaled by alpha / sqrt(rank)");
  add_number(creator, "--rank", flags->rank, "rank of every layer; without it, ranks that fit --max-size");
  add_number(creator, "--alpha", flags->alpha, "alpha of every layer; without it, its rank", "X");
  creator.add_option("--target", flags->target, "only layers whose whole path matches this regular expression")
      .type_name("REGEX");
  creator
      .add_option("--max-size", flags->max_size, "share of the model's tensor bytes, or bytes: 1% (the default), 200kB")
      .type_name("SIZE");
  add_choice(
      creator, "--dtype", flags->dtype, {"auto", "fp32", "fp16", "bf16"},
      "how the tensors are stored; auto: as most of the model's weights. Of 16 bits DoRA's magnitudes are rounded",
      "TYPE");
  add_list(creator, "--tag", flags->tags, "KEY=VALUE", "a note for its config, such as car=CIVIC (repeatable)");
  add_number(creator, "--seed", flags->seed, "seed of the random numbers that A begins with");

  const Command teller = add("info", "its layers, ranks and size, and whether it fits a model",
                             "  sparkpilot adapter info adapter\n"
                             "  sparkpilot adapter info adapter --model driving_policy.onnx --json",
                             adapter_info);
  teller.add_option("adapter", flags->first, "the adapter's folder").required().type_name("ADAPTER");
  teller.add_option("--model", flags->model, "fail unless the adapter was made for this model").type_name("MODEL");

  const Command merger = add("merge", "an ordinary model with the adapter in its weights",
                             "  sparkpilot adapter merge driving_policy.onnx adapter --out tuned.onnx\n"
                             "  sparkpilot adapter merge driving_policy.onnx rain:0.5 night:0.5 --out both.onnx",
                             merge);
  merger.add_option("model", flags->model, "the base").required().type_name("MODEL");
  add_list(merger, "adapters", flags->adapters, "ADAPTER", "folders, each with a scale if not 1: DIR:0.5").required();
  add_out(merger, "the file to write", "FILE");
  merger.add_flag("--no-check", flags->no_check, "do not compare the merged model with the unmerged one");
  add_size_flags(merger, flags->sizes);
  add_number(merger, "--seed", flags->seed, "seed of the inputs for that comparison");
  add_setting(program, merger, "threads");

  const Command splitter = add("unmerge", "the base again, from a merged model and its adapter",
                               "  sparkpilot adapter unmerge tuned.onnx adapter --out base.onnx", unmerge);
  splitter.add_option("model", flags->model, "a model that `adapter merge` wrote").required().type_name("MODEL");
  splitter.add_option("adapter", flags->first, "the adapter that was merged").required().type_name("ADAPTER");
  add_out(splitter, "the file to write", "FILE");

  const Command differ = add("diff", "how far two adapters of one model change it, by layer",
                             "  sparkpilot adapter diff driving_policy.onnx adapter_a adapter_b", diff);
  differ.add_option("model", flags->model, "the base").required().type_name("MODEL");
  differ.add_option("a", flags->first, "an adapter").required().type_name("A");
  differ.add_option("b", flags->second, "another").required().type_name("B");
}

}  // namespace sparkpilot::cli
