#include "compare/route.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "bench/quantize.h"
#include "compare/route_samples.h"
#include "drive/report.h"

namespace sparkpilot::compare {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRoundFrames = 20;

// The frames' milliseconds; 0 for those on which the networks did not run.
std::vector<double> frame_ms(const drive::DriveResult& result) {
  std::vector<double> ms;
  for (const drive::SegmentResult& segment : result.segments) {
    for (const drive::FrameResult& f : segment.frames) ms.push_back(double{f.vision_ms} + double{f.policy_ms});
  }
  return ms;
}

// The milliseconds of each run summed over rounds of the frames on which all ran; a last round that is not whole is
// left out. All drove the same frames.
std::vector<std::vector<double>> rounds_of(const std::vector<drive::DriveResult>& results) {
  std::vector<std::vector<double>> ms, rounds(results.size());
  for (const drive::DriveResult& result : results) ms.push_back(frame_ms(result));
  int64_t frames = 0;
  for (size_t f = 0; f < ms[0].size(); ++f) {
    if (std::any_of(ms.begin(), ms.end(), [&](const auto& one) { return one[f] == 0; })) continue;
    for (size_t r = 0; r < rounds.size(); ++r) {
      if (frames % kRoundFrames == 0) rounds[r].push_back(0);
      rounds[r].back() += ms[r][f];
    }
    ++frames;
  }
  if (frames % kRoundFrames != 0) {
    for (std::vector<double>& one : rounds) one.pop_back();
  }
  return rounds;
}

using Files = std::vector<fs::path>;
Files files_of(const drive::ModelFiles& models) { return {models.supercombo, models.vision, models.policy}; }

std::string label(const drive::ModelFiles& models) {
  const fs::path& file = models.supercombo.empty() ? models.vision : models.supercombo;
  return file.has_parent_path() ? file.parent_path().string() : file.string();
}

struct Stopped {};  // thrown where DriveOptions::stop has become true

// Quantizes the networks of a folder, once for all variants that want them.
class Int8Models {
 public:
  Int8Models(const drive::Route& route, const std::vector<RouteVariant>& variants, const RouteOptions& options,
             std::vector<std::string>& notes)
      : route_(route), variants_(variants), options_(options), notes_(notes) {}

  std::function<Graph(Graph, const fs::path&)> of(const RouteVariant& variant) {
    std::map<fs::path, Graph>& graphs = graphs_[files_of(variant.models)];
    if (graphs.empty()) graphs = quantized(variant);
    const std::map<fs::path, Graph>* made = &graphs;
    return [made](const Graph& graph, const fs::path& file) {
      const auto found = made->find(file);
      return found == made->end() ? graph : found->second;  // driver monitoring stays as it is
    };
  }

 private:
  // The networks' inputs in fp32, by role.
  std::map<std::string, Samples> samples_of(const RouteVariant& variant) const {
    drive::DriveOptions run = options_.drive;
    run.models = variant.models;
    run.session = variant.session;
    const auto progress = [&](int64_t done, int64_t all) { say("driving for int8", done, all); };
    std::map<std::string, Samples> samples = samples_of_route(route_, std::move(run), options_.calibration, progress);
    end_if_stopped();
    return samples;
  }

  std::map<fs::path, Graph> quantized(const RouteVariant& variant) {
    const drive::ModelFiles& models = variant.models;
    const std::map<std::string, fs::path> files{
        {"supercombo", models.supercombo}, {"vision", models.vision}, {"policy", models.policy}};
    std::map<fs::path, Graph> graphs;
    for (const auto& [role, samples] : samples_of(variant)) {
      const std::string& network = role;  // clang 14 cannot capture a structured binding
      if (graphs.empty()) {
        notes_.push_back(fmt::format("{}: calibrated on {} of the first segment", names_of(models),
                                     count_of(static_cast<int64_t>(samples.count), "frame")));
      }
      const fs::path& file = files.at(network);
      QuantizeSettings settings;
      settings.threads = variant.session.threads;
      graphs.emplace(file,
                     int8_graph(file, variant.session, samples, settings, [&](std::string_view what, double done) {
                       end_if_stopped();
                       if (options_.progress) options_.progress(fmt::format("int8: {}, {}", network, what), done);
                     }));
    }
    return graphs;
  }

  // All that share what is made of these files.
  std::string names_of(const drive::ModelFiles& models) const {
    std::string names;
    for (const RouteVariant& variant : variants_) {
      if (!variant.int8 || files_of(variant.models) != files_of(models)) continue;
      names += (names.empty() ? "" : ", ") + variant.name;
    }
    return names;
  }

  void end_if_stopped() const {
    if (options_.drive.stop != nullptr && options_.drive.stop->load()) throw Stopped();
  }
  void say(const std::string& what, int64_t done, int64_t all) const {
    if (options_.progress) options_.progress(what, static_cast<double>(done) / static_cast<double>(all));
  }

  const drive::Route& route_;
  const std::vector<RouteVariant>& variants_;
  const RouteOptions& options_;
  std::vector<std::string>& notes_;
  std::map<Files, std::map<fs::path, Graph>> graphs_;
};

// The variants that can share prepared frames, by their positions.
std::vector<std::vector<size_t>> groups_of(const std::vector<RouteVariant>& variants, const RouteOptions& options,
                                           std::vector<std::string>& notes) {
  std::map<Files, drive::Sampling> seen;
  std::vector<std::pair<drive::Sampling, std::vector<size_t>>> groups;
  const bool same_files = std::all_of(variants.begin(), variants.end(), [&](const RouteVariant& v) {
    return files_of(v.models) == files_of(variants[0].models);
  });
  for (size_t i = 0; i < variants.size(); ++i) {
    const RouteVariant& variant = variants[i];
    drive::Sampling sampling{};
    if (!same_files && !options.drive.sampling) {
      const auto [at, added] = seen.try_emplace(files_of(variant.models));
      if (added) {
        SessionOptions session = variant.session;
        session.tune = Tune::off;
        at->second = drive::DrivingModel(variant.models, session).contract().sampling;
      }
      sampling = at->second;
    }
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == sampling; });
    if (group != groups.end()) group->second.push_back(i);
    else groups.push_back({sampling, {i}});
  }
  std::vector<std::vector<size_t>> out;
  for (auto& [sampling, members] : groups) {
    if (!out.empty()) {
      notes.push_back(fmt::format("{} samples its pictures in another way than {}: driven after it, not in turns",
                                  label(variants[members[0]].models), label(variants[0].models)));
    }
    out.push_back(std::move(members));
  }
  return out;
}

}  // namespace

fs::path folder_of(const fs::path& out, const std::string& variant) {
  std::string name = variant;
  for (char& c : name) {
    if (c == '/' || c == ' ' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  if (name == "." || name == "..") name = "_";
  return out / name;
}

RouteComparison compare_on_route(const drive::Route& route, const std::vector<RouteVariant>& variants,
                                 const RouteOptions& options) {
  RouteComparison out;
  Int8Models int8(route, variants, options, out.notes);
  out.variants.resize(variants.size());
  const std::vector<std::vector<size_t>> groups = groups_of(variants, options, out.notes);
  for (const std::vector<size_t>& group : groups) {
    std::vector<drive::DriveOptions> runs;
    for (const size_t i : group) {
      const RouteVariant& variant = variants[i];
      drive::DriveOptions& run = runs.emplace_back(options.drive);
      run.models = variant.models;
      run.session = variant.session;
      run.out = folder_of(options.out, variant.name);
      run.overlay = run.resume = false;
      run.keep_frames = true;
      run.progress = [&](const drive::DriveProgress& p) {
        if (!options.progress) return;
        options.progress(fmt::format("{} {} of {}", p.segment, p.frame, p.frames),
                         static_cast<double>(p.frame) / static_cast<double>(std::max<int64_t>(p.frames, 1)));
      };
      if (!variant.int8) continue;
      try {
        run.models.rewrite = int8.of(variant);
      } catch (const Stopped&) {
        out.stopped = true;
        return out;
      }
      run.models.rewritten_as = "int8";
    }
    const std::vector<drive::DriveResult> results = drive::drive_side_by_side(route, runs);
    out.seconds += results[0].seconds;
    for (size_t g = 0; g < group.size(); ++g) {
      const drive::DriveResult& result = results[g];
      out.stopped |= result.stopped;
      out.variants[group[g]] = {.name = variants[group[g]].name,
                                .folder = runs[g].out,
                                .run = result.run,
                                .contract = result.contract,
                                .threads = result.shares.infer,
                                .ms = summarize(drive::latencies(result.segments)),
                                .ratio = {},
                                .peak_memory_bytes = result.peak_memory_bytes};
    }
    if (out.stopped) return out;
    if (&group != groups.data()) continue;
    const std::vector<std::vector<double>> rounds = rounds_of(results);
    for (size_t g = 0; g < group.size(); ++g) out.variants[group[g]].ratio = ratio_of(rounds[g], rounds[0]);
  }
  return out;
}

}  // namespace sparkpilot::compare
