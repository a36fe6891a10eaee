#include "monitor/metrics.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <set>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "sparkpilot/error.h"

namespace sparkpilot::monitor {
namespace {

Sample full_sample() {
  Sample sample;
  for (int i = 0; i < 2; ++i) {
    GpuSample& gpu = sample.gpus.emplace_back();
    gpu.index = i;
    gpu.gpu.name = "A \"quoted\" \\ name\n";
    gpu.gpu.gpu_percent = 40 + i;
    gpu.gpu.sm_clock_mhz = 2411;
    gpu.energy_j = 123456.5;
    gpu.throttle_reasons = {"power cap", "hot (software)"};
  }
  sample.cpu.percent = 12.5;
  sample.disks = {{"nvme0n1", 1e6, {}, 3}, {"sda", 5, 6, 7}};
  sample.temperatures = {{"acpitz", 51.5, true}};
  return sample;
}

// The rules of the text format: each family in one block after its HELP and TYPE, valid names and labels, numeric
// values, no series twice.
void expect_well_formed(const std::string& page) {
  std::set<std::string> families, series;
  std::string family;
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                                std::string::npos;
  };
  std::stringstream lines(page);
  int help = 0, type = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# HELP ", 0) == 0) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << "a family in two places: " << family;
      EXPECT_TRUE(is_name(family)) << line;
      ++help;
      continue;
    }
    if (line.rfind("# TYPE ", 0) == 0) {
      const bool counter = line == "# TYPE " + family + " counter";
      EXPECT_TRUE(counter || line == "# TYPE " + family + " gauge") << line;
      EXPECT_EQ(counter, family.ends_with("_total")) << line;
      ++type;
      continue;
    }
    const size_t space = line.rfind(' '), brace = line.find('{');
    EXPECT_EQ(line.substr(0, std::min(brace, space)), family) << line;
    EXPECT_TRUE(series.insert(line.substr(0, space)).second) << "twice: " << line;
    double value = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + space + 1, end, value);
    EXPECT_TRUE(error == std::errc() && stop == end) << line;
    if (brace == std::string::npos) continue;
    // name="value",... without a bare quote in a value.
    size_t at = brace + 1;
    for (bool more = true; more;) {
      const size_t equals = line.find("=\"", at);
      ASSERT_NE(equals, std::string::npos) << line;
      EXPECT_TRUE(is_name(line.substr(at, equals - at))) << line;
      for (at = equals + 2; line[at] != '"'; ++at) {
        if (line[at] == '\\') ++at;
        ASSERT_LT(at, line.size()) << line;
      }
      more = line[++at] == ',';
      if (more) ++at;
    }
    EXPECT_EQ(line.substr(at, 2), "} ") << line;
  }
  EXPECT_EQ(help, type);
}

TEST(Metrics, AreWellFormedInBaseUnits) {
  const std::string page = metrics_page(full_sample());
  expect_well_formed(page);
  for (const char* line :
       {"sparkpilot_gpu_utilization_ratio{gpu=\"1\"} 0.41\n", "sparkpilot_gpu_sm_clock_hertz{gpu=\"0\"} 2411000000\n",
        "# TYPE sparkpilot_gpu_energy_joules_total counter\n",
        "sparkpilot_gpu_energy_joules_total{gpu=\"0\"} 123456.5\n",
        "sparkpilot_gpu_throttle_reason{gpu=\"0\",reason=\"power cap\"} 1\n",
        "sparkpilot_cpu_utilization_ratio 0.125\n", "sparkpilot_disk_read_bytes_per_second{disk=\"nvme0n1\"} 1000000\n",
        "sparkpilot_sensor_temperature_celsius{sensor=\"acpitz\"} 51.5\n", R"(name="A \"quoted\" \\ name\n")"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
  }
  // Unknown values have no line.
  EXPECT_EQ(page.find("written_bytes_per_second{disk=\"nvme0n1\"}"), std::string::npos);
  EXPECT_EQ(page.find("sparkpilot_memory"), std::string::npos);
  EXPECT_EQ(metrics_page(Sample()), "");
}

TEST(Metrics, AnswersToRequests) {
  const auto answer = [](const std::string& request) { return http_answer(request, "page\n"); };
  EXPECT_EQ(answer("GET /metrics HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 5\r\n"
            "Connection: close\r\n\r\npage\n");
  EXPECT_EQ(answer("GET /metrics?x=1 HTTP/1.0\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");
  const std::string head = answer("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.find("Content-Length: 5\r\n") != std::string::npos && head.ends_with("\r\n\r\n")) << head;
  EXPECT_EQ(answer("GET / HTTP/1.1\r\n\r\n").substr(9, 3), "404");
  EXPECT_EQ(answer("GET /metrics/../etc HTTP/1.1\r\n\r\n").substr(9, 3), "404");
  EXPECT_EQ(answer("POST /metrics HTTP/1.1\r\n\r\n").substr(9, 3), "405");
  for (const char* garbage :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics FTP/1\r\n\r\n", "\x16\x03\x01\n\n", " \n\n"}) {
    EXPECT_EQ(answer(garbage).substr(9, 3), "400") << garbage;
  }
}

class Client {
 public:
  explicit Client(int port, uint32_t address = INADDR_LOOPBACK) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(address);
    connected = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void send(const std::string& text) const { ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  std::string read() const {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = recv(fd_, buffer, sizeof buffer, 0)) > 0;)
      text.append(buffer, static_cast<size_t>(got));
    return text;
  }
  std::string get() const {
    send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    return read();
  }
  bool connected = false;

 private:
  int fd_;
};

class Serving : public testing::Test {
 protected:
  Serving() : server_(0), thread_([this] { server_.serve(INT64_MAX, stop_); }) {}
  ~Serving() override {
    stop_ = true;
    thread_.join();
  }
  struct Published : MetricsServer {
    explicit Published(int port) : MetricsServer(port) { publish(std::string(1 << 20, 'x') + "\n"); }
  };
  Published server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(Serving, AWholePageToEveryone) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(std::make_unique<Client>(server_.port()));
  for (const auto& client : clients) {
    const std::string answer = client->get();
    EXPECT_EQ(answer.substr(0, 15), "HTTP/1.1 200 OK");
    EXPECT_EQ(answer.size() - answer.find("\r\n\r\n"), (1U << 20) + 5);
  }
}

TEST_F(Serving, InPiecesAndWithMoreBehindThem) {
  const Client slow(server_.port());
  for (const char c : std::string("GET /metrics HTTP/1.1\r\n\r\n")) slow.send(std::string(1, c));
  slow.send(std::string(100'000, 'y'));  // the server does not read it, but the answer still arrives
  EXPECT_EQ(slow.read().substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(Serving, RequestsWithoutEndAreCutOff) {
  const Client endless(server_.port());
  endless.send("GET /metrics HTTP/1.1\r\n" + std::string(MetricsServer::kMaxRequest, 'a'));
  EXPECT_EQ(endless.read().substr(9, 3), "431");
}

TEST_F(Serving, OnlyOnTheLoopbackAddress) {
  EXPECT_FALSE(Client(server_.port(), 0x7f000002).connected);  // 127.0.0.2 is this machine, too, but not the address
                                                               // listened on
  EXPECT_THROW(MetricsServer(server_.port()), Error);
}

TEST_F(Serving, SilentClientsDoNotHoldItUp) {
  std::vector<std::unique_ptr<Client>> silent;
  for (size_t i = 0; i < MetricsServer::kMaxClients; ++i) silent.push_back(std::make_unique<Client>(server_.port()));
  const int64_t begin = now_ns();
  EXPECT_EQ(Client(server_.port()).get().substr(0, 15), "HTTP/1.1 200 OK");  // as soon as the slow clients have timed
                                                                             // out
  EXPECT_GE(now_ns() - begin, MetricsServer::kPatienceNs / 2);
  for (const auto& client : silent) EXPECT_EQ(client->read(), "");
}

}  // namespace
}  // namespace sparkpilot::monitor
