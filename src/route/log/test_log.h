// For tests: logs of a few events.
#pragma once

#include <capnp/message.h>
#include <route/log/schema/log.capnp.h>

#include <filesystem>

#include "base/test_files.h"
#include "route/log/writer.h"

namespace sparkpilot::drive {

// Event `i` of the test logs: a carState at 100 Hz whose speed is i / 8 m/s.
inline void fill_car_state(capnp::MessageBuilder& message, int i) {
  cereal::Event::Builder event = message.initRoot<cereal::Event>();
  event.setLogMonoTime(1'000'000'000 + uint64_t{10'000'000} * static_cast<uint64_t>(i));
  event.initCarState().setVEgo(static_cast<float>(i) / 8);
}

inline void write_log(const std::filesystem::path& file, int events) {
  LogWriter writer(file);
  for (int i = 0; i < events; ++i) {
    capnp::MallocMessageBuilder message;
    fill_car_state(message, i);
    writer.write(message);
  }
  writer.commit();
}

// modelV2 of these frames, each with a carState.
inline void write_models(const std::filesystem::path& file, uint32_t from, uint32_t to) {
  LogWriter writer(file);
  for (uint32_t id = from; id < to; ++id) {
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<cereal::Event>();
    event.initModelV2().setFrameId(id);
    writer.write(message);
    capnp::MallocMessageBuilder other;
    fill_car_state(other, 1);
    writer.write(other);
  }
  writer.commit();
}

}  // namespace sparkpilot::drive
