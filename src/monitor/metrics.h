// A sample in Prometheus' text format (version 0.0.4), and the server for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "monitor/sample.h"

namespace sparkpilot::monitor {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// In base units (ratios, hertz, bytes, seconds); unknown values are omitted, as is usual with Prometheus.
std::string metrics_page(const Sample& sample);

// Answers GET /metrics on the loopback address, so only on this machine. It has no thread: it answers while serve()
// runs. Whatever clients send or fail to do, it holds at most kMaxClients of them, with kMaxRequest bytes each, for
// at most kPatienceNs.
class MetricsServer {
 public:
  static constexpr size_t kMaxClients = 16, kMaxRequest = 4096;
  static constexpr int64_t kPatienceNs = 5'000'000'000;

  // Port 0 is any free one. Fails (user) if the port is not available.
  explicit MetricsServer(int port);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }
  void publish(std::string page) { page_ = std::move(page); }
  // Answers until the time `until_ns` of base/clock.h, or until `stop`, which is checked ten times a second.
  void serve(int64_t until_ns, const std::atomic<bool>& stop);

 private:
  struct Client {
    int fd = -1;
    int64_t deadline_ns = 0;
    std::string request, answer;
    bool answered = false;  // further input is discarded
  };
  void accept_clients(int64_t now);
  bool advance(Client& client, short events);  // false: finished

  int listener_ = -1, port_ = 0;
  std::string page_;
  std::vector<Client> clients_;
};

// The answer to a request's head; public for its test.
std::string http_answer(const std::string& head, const std::string& page);

}  // namespace sparkpilot::monitor
