// NVIDIA's NCCL as one process of one: whether it takes our calls, our memory and our streams. More processes need more
// GPUs.
#include "comm/nccl.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/statistics.h"
#include "part.h"

namespace sparkpilot::gpu_check {
namespace {

// Means in place, of which one process's is its own values.
Json check_means(NcclComm& nccl, const std::shared_ptr<GpuDevice>& gpu, int64_t count, Outcome& out) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009) - 504.25f;
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  const std::shared_ptr<Buffer> there = gpu->upload(values.data(), bytes);
  gpu->finish_uploads();
  std::vector<double> us;
  for (int i = 0; i < 20; ++i) {
    const int64_t start = now_ns();
    nccl.mean({reinterpret_cast<float*>(there->data()), values.size()});
    us.push_back(static_cast<double>(now_ns() - start) * 1e-3);
  }
  const std::shared_ptr<Buffer> here = gpu->allocate(bytes, gpu->shared_place());
  GpuStream stream(gpu);
  stream.copy_to_host(here->data(), there->data(), bytes);
  stream.wait();
  if (std::memcmp(here->data(), values.data(), static_cast<size_t>(bytes)) != 0)
    out.failures.push_back(fmt::format("{} values: other ones after the mean of one process", count));
  return {{"bytes", bytes}, {"exchange_us", median(us)}};
}

}  // namespace

Outcome check_nccl(const Options& options, const Json&) {
  Outcome out;
  try {
    out.figures["version"] = nccl::version_text(nccl::nccl_api().version);
  } catch (const Error& error) {
    out.not_run = error.what();
    return out;
  }
  const auto gpu = GpuDevice::open(options.ordinal);
  Comm comm;
  std::string why_not;
  const std::unique_ptr<NcclComm> nccl = NcclComm::join(comm, gpu, why_not);
  if (!nccl) {
    out.failures.push_back(why_not);
    return out;
  }
  Json means = Json::array();
  for (const int64_t count : {int64_t{1}, int64_t{100'003}, options.tiny ? int64_t{1} << 16 : int64_t{7} << 20})
    means.push_back(check_means(*nccl, gpu, count, out));
  out.figures["means"] = std::move(means);
  return out;
}

}  // namespace sparkpilot::gpu_check
