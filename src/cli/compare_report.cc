#include "cli/compare_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/compare_drives.h"
#include "cli/terminal.h"
#include "passes/precision.h"

namespace sparkpilot::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string error(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

bool any_peer(const compare::ModelsComparison& comparison) {
  return std::any_of(comparison.variants.begin(), comparison.variants.end(),
                     [](const compare::VariantResult& v) { return v.variant.peer.has_value(); });
}

std::string engine_of(const compare::VariantResult& v) {
  if (!v.variant.peer) return "sparkpilot " SPARKPILOT_VERSION;
  return v.device.empty() ? v.engine.empty() ? "-" : v.engine : fmt::format("{} ({})", v.engine, v.device);
}

// Of one variant after its name: its times, or that it has none.
std::vector<std::string> speed_row(const compare::VariantResult& v, bool first) {
  const std::string threads = v.threads > 0 ? std::to_string(v.threads) : "-";
  if (v.ms.count == 0) return {threads, v.outputs.empty() ? "not run" : "not timed", "-", "-", "-", "-", "-", "-", "-"};
  return {threads,
          human_ms(v.ms.mean),
          human_ms(v.ms.p50),
          human_ms(v.ms.p99),
          fmt::format("{:.1f}", v.ms.mean > 0 ? 1e3 / v.ms.mean : 0),
          first ? "1" : fmt::format("{:.3f}", v.ratio.median),
          first ? "-" : fmt::format("{:.3f} to {:.3f}", v.ratio.low, v.ratio.high),
          fmt::format("{:.0f}", v.load_ms),
          v.peak_memory_bytes ? human_bytes(*v.peak_memory_bytes) : "-"};
}

Rows speed_rows(const compare::ModelsComparison& comparison) {
  const bool engines = any_peer(comparison);
  std::vector<std::string> headings{"model"};
  if (engines) headings.emplace_back("engine");
  for (const char* more : {"threads", "mean ms", "p50", "p99", "runs/s", "time", "90 %", "load ms", "memory"}) {
    headings.emplace_back(more);
  }
  Rows rows{headings};
  for (const compare::VariantResult& v : comparison.variants) {
    std::vector<std::string> row{v.variant.name};
    if (engines) row.push_back(engine_of(v));
    for (std::string& cell : speed_row(v, &v == comparison.variants.data())) row.push_back(std::move(cell));
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows output_rows(const compare::ModelsComparison& comparison) {
  Rows rows{{"model", "output", "elements", "largest", "relative L2", "worst sample", "cosine", "not finite"}};
  for (size_t i = 1; i < comparison.variants.size(); ++i) {
    const compare::VariantResult& v = comparison.variants[i];
    for (const compare::OutputDifference& o : v.outputs) {
      rows.push_back({v.variant.name, o.name == o.of ? o.name : fmt::format("{} ({})", o.name, o.of),
                      std::to_string(o.difference.elements), error(o.difference.max_abs),
                      error(o.difference.relative_l2), error(o.difference.worst_sample),
                      fmt::format("{:.7f}", o.difference.cosine), std::to_string(o.difference.not_finite)});
    }
  }
  return rows;
}

Rows layer_rows(const compare::ModelsComparison& comparison) {
  Rows rows{{"model", "value where it grows", "node", "largest", "relative L2"}};
  for (const compare::VariantResult& v : comparison.variants) {
    for (const compare::LayerDifference& layer : compare::growing(v.layers)) {
      rows.push_back({v.variant.name, layer.value, layer.node, error(layer.difference.max_abs),
                      error(layer.difference.relative_l2)});
    }
  }
  return rows;
}

// What a peer did otherwise than it was asked, or why it did nothing.
void add_remarks(const compare::VariantResult& v, std::vector<std::string>& lines) {
  if (!v.not_run.empty()) {
    lines.push_back(fmt::format("{}: {}: {}", v.variant.name, v.outputs.empty() ? "not run" : "not timed", v.not_run));
    return;
  }
  const Precision precision = v.variant.session.passes.precision;
  if (const std::string_view asked = name(precision); v.precision != asked && precision != Precision::automatic) {
    lines.push_back(fmt::format("{}: computed in {}, not in {}", v.variant.name,
                                v.precision == "model" ? "the types of the file" : v.precision, asked));
  }
  if (v.variant.session.threads > 0 && v.threads > 0 && v.threads != v.variant.session.threads) {
    lines.push_back(
        fmt::format("{}: {}, not {}", v.variant.name, count_of(v.threads, "thread"), v.variant.session.threads));
  }
}

std::vector<std::string> remarks_on(const compare::ModelsComparison& comparison) {
  std::vector<std::string> lines;
  for (const compare::VariantResult& v : comparison.variants) {
    for (const std::string& text : v.not_compared)
      lines.push_back(fmt::format("{}: not compared: {}", v.variant.name, text));
  }
  for (const compare::VariantResult& v : comparison.variants) {
    if (v.variant.peer) add_remarks(v, lines);
  }
  return lines;
}

// The relative L2 of the values inside, on a logarithmic scale; values without a difference are gaps.
drive::Plot layer_plot(const compare::ModelsComparison& comparison) {
  drive::Plot plot{.title = "Difference of the values inside",
                   .x_label = "value, in the order in which they are computed",
                   .y_label = "log10 of relative L2",
                   .x_low = 1};
  for (const compare::VariantResult& v : comparison.variants) {
    if (v.layers.empty()) continue;
    drive::Series& series = plot.series.emplace_back();
    series.name = v.variant.name;
    for (size_t i = 0; i < v.layers.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1));
      series.y.push_back(std::log10(v.layers[i].difference.relative_l2));
    }
  }
  return plot;
}

}  // namespace

void print_report(const compare::ModelsComparison& comparison) {
  if (comparison.variants[0].ms.count > 0) print(text_of(speed_rows(comparison)) + "\n");
  if (const Rows rows = output_rows(comparison); rows.size() > 1) print(text_of(rows));
  for (const std::string& line : remarks_on(comparison)) print(line + "\n");
  if (const Rows rows = layer_rows(comparison); rows.size() > 1) print("\n" + text_of(rows));
  print(fmt::format("\nagainst {}, {}\n", comparison.variants[0].variant.name,
                    count_of(static_cast<int64_t>(comparison.samples), "sample")));
}

std::string report_page(const compare::ModelsComparison& comparison, const std::vector<std::string>& beyond) {
  drive::Page page("Comparison of models", fmt::format("against {}, {}", comparison.variants[0].variant.name,
                                                       count_of(static_cast<int64_t>(comparison.samples), "sample")));
  for (const std::string& line : beyond) page.warning(line);
  for (const std::string& line : comparison.notes) page.note(line);
  if (comparison.variants[0].ms.count > 0) {
    page.section("Speed");
    compare::add_table(page, speed_rows(comparison),
                       "Timed in turns; time: divided by the first one's, with its 90 % interval.");
  }
  page.section("Outputs");
  compare::add_table(page, output_rows(comparison), "Over all samples.");
  for (const std::string& line : remarks_on(comparison)) page.text(line);
  if (const drive::Plot plot = layer_plot(comparison); !plot.series.empty()) {
    page.section("Where it begins");
    page.plot(plot);
    compare::add_table(page, layer_rows(comparison), "Each differs at least twice as much as every one before it.");
  }
  page.footer("sparkpilot " SPARKPILOT_VERSION ". For development only: never for control of a real car.");
  return page.str();
}

std::string to_text(const compare::Bisection& bisection, const std::string& ours, const std::string& theirs) {
  const std::string searched =
      fmt::format("{} of both, {} searched, sample {}", count_of(bisection.runs, "run"),
                  count_of(static_cast<int64_t>(bisection.values), "value"), bisection.sample + 1);
  if (!bisection.fault) {
    return fmt::format("{} and {}: no output differs by more than {:.3g} ({})\n", theirs, ours,
                       bisection.max_relative_l2, searched);
  }
  const compare::Fault& fault = *bisection.fault;
  std::string out = fmt::format("first difference between {} and {}: {}\n", theirs, ours, fault.nodes.front());
  out += fmt::format("  value        {}\n", fault.value);
  if (fault.shapes) {
    out += fmt::format("  difference   shape {} and {}\n", fault.shapes->second.str(), fault.shapes->first.str());
  } else if (fault.difference.not_finite > 0) {
    out += fmt::format("  difference   NaN or infinity in {}\n", count_of(fault.difference.not_finite, "element"));
  } else {
    out += fmt::format("  difference   relative L2 {:.3g}, largest {:.3g} (allowed {:.3g})\n",
                       fault.difference.relative_l2, fault.difference.max_abs, bisection.max_relative_l2);
  }
  if (fault.nodes.size() > 1) {
    std::string others;
    for (size_t i = 1; i < fault.nodes.size(); ++i) others += (i > 1 ? ", " : "") + fault.nodes[i];
    out += fmt::format("  or in        {}\n               (computed together with it)\n", others);
  }
  if (fault.before) out += fmt::format("  the same in  {}\n", *fault.before);
  return out + fmt::format("  {}\n", searched);
}

}  // namespace sparkpilot::cli
