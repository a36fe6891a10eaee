// What goes wrong around computing: memory that stays, memory that is not there, threads, kinds of memory.
#include <thread>

#include "base/error.h"
#include "networks.h"
#include "onnx/zoo.h"

namespace sparkpilot::gpu_check {
namespace {

using Failures = std::vector<std::string>;

Graph network(const Options& options) {
  return build_zoo_model(options.tiny ? "tiny_driving_policy" : "tiny_driving_supercombo");
}

std::vector<Tensor> results(Session& session) {
  session.run();
  return outputs_of(session);
}
std::vector<Tensor> results_on(const Options& options) {
  Ready made = ready(network(options), options.device(), Precision::fp16);
  return results(made.session);
}

// Free memory of the GPU as the driver tells it; of unified memory others take their share meanwhile, so there only
// what this program holds is judged.
Json memory_comes_back(const Options& options, Failures& failures) {
  const auto gpu = GpuDevice::open(options.ordinal);
  const int times = options.tiny ? 5 : 100;
  results_on(options);  // loads the kernels, which stay
  const int64_t before = gpu->available_bytes(), held = gpu->allocated_bytes();
  for (int i = 0; i < times; ++i) results_on(options);
  const int64_t after = gpu->available_bytes(), still_held = gpu->allocated_bytes();
  constexpr int64_t kSlack = 32 << 20;  // the driver's own
  if (still_held != held)
    failures.push_back(fmt::format("{} bytes are still held after {} loads", still_held - held, times));
  if (!gpu->unified() && before - after > kSlack)
    failures.push_back(fmt::format("{} bytes fewer are free after {} loads", before - after, times));
  return {{"loads", times}, {"free_bytes_before", before}, {"free_bytes_after", after}};
}

Json too_much_is_refused(const Options& options, Failures& failures) {
  const auto gpu = GpuDevice::open(options.ordinal);
  std::string said;
  try {
    gpu->allocate(gpu->facts().total_bytes * 2, gpu->own_place());
    failures.emplace_back("an allocation of twice the memory succeeded");
  } catch (const Error& error) {
    said = error.what();
    if (error.kind() != ErrorKind::device) failures.push_back("refused, but not as an error of the device: " + said);
  }
  results_on(options);
  return {{"said", said}};
}

Json threads_agree(const Options& options, Failures& failures) {
  const std::vector<Tensor> expected = results_on(options);
  constexpr size_t kThreads = 2;
  const int runs = options.tiny ? 3 : 200;
  std::vector<std::string> wrong(kThreads);
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        Ready made = ready(network(options), options.device(), Precision::fp16);
        for (int i = 0; i < runs && wrong[t].empty(); ++i) {
          if (!same_bits(results(made.session), expected)) wrong[t] = fmt::format("run {} gives other bits", i + 1);
        }
      } catch (const std::exception& error) {
        wrong[t] = error.what();
      }
    });
  }
  for (std::jthread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    if (!wrong[t].empty()) failures.push_back(fmt::format("thread {}: {}", t + 1, wrong[t]));
  }
  return {{"threads", kThreads}, {"runs", runs}};
}

// Made here, run in a second thread, then in a third, which also ends it.
Json a_session_moves(const Options& options, Failures& failures) {
  const std::vector<Tensor> expected = results_on(options);
  auto made = std::make_unique<Ready>(ready(network(options), options.device(), Precision::fp16));
  for (const bool last : {false, true}) {
    std::string wrong;
    std::thread([&] {
      try {
        if (!same_bits(results(made->session), expected)) wrong = "other bits in another thread";
        if (last) made.reset();
      } catch (const std::exception& error) {
        wrong = error.what();
      }
    }).join();
    if (!wrong.empty()) failures.push_back(wrong);
  }
  return {{"threads", 3}};
}

// The memory as it is, as its own, and, where the driver can, as one with the processor's.
Json kinds_of_memory(const Options& options, Failures& failures) {
  const std::vector<Tensor> expected = results_on(options);
  Json out = Json::array();
  for (const auto& [name, kind] : {std::pair("own", GpuOptions::off), {"unified", GpuOptions::on}}) {
    const auto gpu = GpuDevice::open(options.ordinal, {.unified = kind});
    if (gpu->unified() != (kind == GpuOptions::on)) {
      out.push_back({{"memory", name}, {"not_run", "this GPU cannot"}});
      continue;
    }
    Ready made = ready(network(options), options.device(), Precision::fp16);
    if (!same_bits(results(made.session), expected)) failures.push_back(fmt::format("{} memory: other bits", name));
    const Session::Transfers moved = made.session.transfers();
    if ((moved.to_gpu + moved.to_host > 0) != (kind == GpuOptions::off))
      failures.push_back(fmt::format("{} memory: {} copies in a run", name, moved.to_gpu + moved.to_host));
    out.push_back({{"memory", name}, {"copies", moved.to_gpu + moved.to_host}});
  }
  return out;
}

struct Fault {
  const char* name;
  Json (*check)(const Options&, Failures&);
};
constexpr Fault kFaults[] = {
    {"memory comes back", memory_comes_back},
    {"too much is refused", too_much_is_refused},
    {"two threads agree", threads_agree},
    {"a session moves between threads", a_session_moves},
    {"both kinds of memory agree", kinds_of_memory},
};

}  // namespace

Outcome check_faults(const Options& options, const Json& go_on) {
  std::vector<std::string> names;
  for (const Fault& fault : kFaults) names.emplace_back(fault.name);
  return each_of(options, go_on, "checks", names, [&](size_t i, Failures& failures) -> Json {
    Json found = kFaults[i].check(options, failures);
    return {{"check", kFaults[i].name}, {"found", std::move(found)}};
  });
}

}  // namespace sparkpilot::gpu_check
