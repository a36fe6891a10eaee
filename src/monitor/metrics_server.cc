#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "monitor/metrics.h"

namespace sparkpilot::monitor {
namespace {

std::string response(const char* status, const char* type, const std::string& body, bool head, const char* more = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status,
                     type, body.size(), more, head ? "" : body);
}

}  // namespace

std::string http_answer(const std::string& head, const std::string& page) {
  constexpr const char* kText = "text/plain; charset=utf-8";
  const std::string line = head.substr(0, head.find_first_of("\r\n"));
  const size_t space = line.find(' '), second = line.find(' ', space + 1);
  if (space == std::string::npos || second == std::string::npos || line.compare(second + 1, 7, "HTTP/1.") != 0) {
    return response("400 Bad Request", kText, "this is no HTTP request\n", false);
  }
  const std::string method = line.substr(0, space), target = line.substr(space + 1, second - space - 1);
  const bool only_head = method == "HEAD";
  if (method != "GET" && !only_head) {
    return response("405 Method Not Allowed", kText, "only GET and HEAD\n", false, "Allow: GET, HEAD\r\n");
  }
  if (target.substr(0, target.find('?')) != "/metrics") {
    return response("404 Not Found", kText, "there is nothing but /metrics\n", only_head);
  }
  return response("200 OK", kMetricsType, page, only_head);
}

MetricsServer::MetricsServer(int port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const int yes = 1;  // connections of a server that has just ended must not block its port
  const bool there = listener_ >= 0 && setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                     bind(listener_, any, size) == 0 && listen(listener_, kMaxClients) == 0 &&
                     getsockname(listener_, any, &size) == 0;
  if (!there) {
    const std::string reason = std::strerror(errno);
    if (listener_ >= 0) close(listener_);
    fail("127.0.0.1:{}: cannot serve there: {}", port, reason);
  }
  port_ = ntohs(address.sin_port);
}

MetricsServer::~MetricsServer() {
  for (const Client& client : clients_) close(client.fd);
  close(listener_);
}

void MetricsServer::accept_clients(int64_t now) {
  while (clients_.size() < kMaxClients) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    clients_.push_back({fd, now + kPatienceNs, {}, {}, false});
  }
}

bool MetricsServer::advance(Client& client, short events) {
  if (events & (POLLIN | POLLHUP | POLLERR)) {
    char buffer[1024];
    const ssize_t got = recv(client.fd, buffer, sizeof buffer, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got > 0 && !client.answered) {
      client.request.append(buffer, static_cast<size_t>(got));
      const bool whole =
          client.request.find("\r\n\r\n") != std::string::npos || client.request.find("\n\n") != std::string::npos;
      const bool too_long = client.request.size() > kMaxRequest;
      if (whole || too_long) {
        client.answered = true;
        client.answer = whole && !too_long ? http_answer(client.request, page_)
                                           : response("431 Request Header Fields Too Large", "text/plain",
                                                      "the request is too long\n", false);
        client.request.clear();
      }
    }
  }
  while (!client.answer.empty()) {
    const ssize_t sent = send(client.fd, client.answer.data(), client.answer.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.answer.erase(0, static_cast<size_t>(sent));
    // Closing with unread bytes would make the system discard the answer: wait until the client closes, or time is
    // over.
    if (client.answer.empty()) shutdown(client.fd, SHUT_WR);
  }
  return true;
}

void MetricsServer::serve(int64_t until_ns, const std::atomic<bool>& stop) {
  constexpr int64_t kLongestWait = 100'000'000;
  for (int64_t now = now_ns(); now < until_ns && !stop; now = now_ns()) {
    // Further clients wait in the system's queue.
    std::vector<pollfd> polled = {{listener_, static_cast<short>(clients_.size() < kMaxClients ? POLLIN : 0), 0}};
    for (const Client& client : clients_) {
      polled.push_back({client.fd, static_cast<short>(client.answer.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    const int64_t wait_ns = std::min(until_ns - now, kLongestWait);
    if (poll(polled.data(), polled.size(), static_cast<int>((wait_ns + 999'999) / 1'000'000)) < 0) continue;
    now = now_ns();
    std::vector<Client> left;
    for (size_t i = 0; i < clients_.size(); ++i) {
      const bool goes_on =
          now < clients_[i].deadline_ns && (polled[i + 1].revents == 0 || advance(clients_[i], polled[i + 1].revents));
      if (goes_on) left.push_back(std::move(clients_[i]));
      else close(clients_[i].fd);
    }
    clients_ = std::move(left);
    if (polled[0].revents & POLLIN) accept_clients(now);
  }
}

}  // namespace sparkpilot::monitor
